package main

// Nodes: capacities, names, taints and conditions.

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	gpu       = corev1.ResourceName("example.com/gpu")
	fpga      = corev1.ResourceName("example.com/fpga")
	hugepages = corev1.ResourceName("hugepages-2Mi")
)

var zones = []string{"z1", "z2", "z3"}

func quantity(text string) resource.Quantity { return resource.MustParse(text) }

func (w *world) addNodes() {
	count := w.between(3, 10)
	if w.chance(30) {
		count = w.between(10, 25)
	}
	if w.chance(2) {
		count = pick(w.dice, 1, 1, 0)
	}
	for i := range count {
		node := add(w, "v1", "Node", &corev1.Node{ObjectMeta: named(fmt.Sprintf("node-%d", i))})
		w.nodes = append(w.nodes, node)
		node.Labels = w.nodeLabels(i)
		if _, has := node.Labels[corev1.LabelHostname]; !has {
			node.Annotations = map[string]string{"oracle/hostname": "missing"}
		}
		node.Status.Capacity = w.capacity()
		node.Status.Allocatable = w.allocatable(node.Status.Capacity)
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if w.has["taints"] {
			w.spoil(node)
		}
		if w.has["images"] {
			w.addImages(node)
		}
		if w.has["resizes"] && w.chance(20) {
			node.Spec.PodPreemptionPolicy = &corev1.NodePodPreemptionPolicy{DisableResizePreemption: []string{"example.com/operator"}}
		}
		if w.has["declared"] && w.chance(50) {
			node.Status.DeclaredFeatures = []string{"RestartAllContainersOnContainerExits"}
		}
		if w.has["gated"] && w.chance(60) {
			node.Status.DeclaredFeatures = append(node.Status.DeclaredFeatures, "DRAOptionalNodeOperations")
		}
	}
}

func (w *world) nodeLabels(index int) map[string]string {
	labels := map[string]string{corev1.LabelHostname: fmt.Sprintf("node-%d", index)}
	switch {
	case w.chance(6):
		delete(labels, corev1.LabelHostname)
	case w.chance(4):
		labels[corev1.LabelHostname] = "node-0"
	}
	if !w.chance(12) {
		labels[corev1.LabelTopologyZone] = pick(w.dice, zones...)
	}
	if !w.chance(15) {
		labels[corev1.LabelTopologyRegion] = pick(w.dice, "r1", "r1", "r2")
	}
	if w.chance(8) {
		labels[corev1.LabelFailureDomainBetaZone] = pick(w.dice, zones...)
	}
	if w.chance(60) {
		labels["rack"] = pick(w.dice, "a", "b", "c", "")
	}
	if w.chance(60) {
		labels["disk"] = pick(w.dice, "ssd", "hdd")
	}
	if w.chance(50) {
		labels["generation"] = pick(w.dice, "1", "2", "7", "10", "007", "new")
	}
	return labels
}

func (w *world) capacity() corev1.ResourceList {
	list := corev1.ResourceList{
		corev1.ResourceCPU:    quantity(pick(w.dice, "1", "2", "4", "4", "8", "3900m", "16")),
		corev1.ResourceMemory: quantity(pick(w.dice, "2Gi", "4Gi", "8Gi", "8Gi", "16Gi", "7500M", "32Gi")),
		corev1.ResourcePods:   quantity("110"),
	}
	if !w.has["resources"] {
		return list
	}
	list[corev1.ResourcePods] = quantity(pick(w.dice, "2", "4", "8", "110", "110"))
	if w.chance(60) {
		list[corev1.ResourceEphemeralStorage] = quantity(pick(w.dice, "10Gi", "50Gi"))
	}
	if w.chance(40) {
		list[gpu] = quantity(pick(w.dice, "1", "2", "8"))
	} else if w.has["extended"] && w.chance(10) {
		// A device plugin without devices.
		list[gpu] = quantity("0")
	}
	if w.chance(20) {
		list[fpga] = quantity("1")
	}
	if w.chance(30) {
		list[hugepages] = quantity(pick(w.dice, "64Mi", "1Gi"))
	}
	if w.has["odd"] && w.chance(15) {
		name := pick(w.dice, corev1.ResourceCPU, corev1.ResourceMemory)
		list[name] = quantity(pick(w.dice, "0", "9E", "8589934592123m", "1e9", "1n"))
	}
	return list
}

// allocatable sometimes reserves part of the capacity.
func (w *world) allocatable(capacity corev1.ResourceList) corev1.ResourceList {
	list := capacity.DeepCopy()
	if w.chance(30) && list.Memory().Value() > 1<<31 {
		memory := list[corev1.ResourceMemory]
		memory.Sub(quantity("100Mi"))
		list[corev1.ResourceMemory] = memory
	}
	return list
}

// spoil adds taints and conditions, and cordons a node.
func (w *world) spoil(node *corev1.Node) {
	if w.chance(35) {
		for _, key := range some(w.dice, 1, 2, "dedicated", "spot", "gpu") {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{
				Key:    key,
				Value:  pick(w.dice, "", "a", "b", "true"),
				Effect: pick(w.dice, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute),
			})
		}
	}
	if w.has["operators"] && w.chance(60) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{
			Key:    "level",
			Value:  pick(w.dice, "0", "1", "2", "3", "10", "9223372036854775807", "9223372036854775808", "07", "a", ""),
			Effect: pick(w.dice, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute),
		})
	}
	if w.chance(8) {
		node.Status.Conditions[0].Status = pick(w.dice, corev1.ConditionFalse, corev1.ConditionUnknown)
		key := pick(w.dice, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable)
		for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: effect})
		}
	}
	if w.chance(6) {
		node.Status.Conditions = append(node.Status.Conditions,
			corev1.NodeCondition{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue})
		node.Spec.Taints = append(node.Spec.Taints,
			corev1.Taint{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule})
	}
	if w.chance(10) {
		node.Spec.Unschedulable = true
		if w.chance(70) {
			node.Spec.Taints = append(node.Spec.Taints,
				corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
		}
	}
}

// images are container images, with the sizes that nodes report.
var images = []struct {
	name string
	size int64
}{
	{"registry.example.com/web:v1", 40 << 20},
	{"registry.example.com/web:v2", 300 << 20},
	{"registry.example.com/model:latest", 5 << 30},
	{"busybox:latest", 2 << 20},
	{"registry.example.com/db@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", 900 << 20},
}

func (w *world) addImages(node *corev1.Node) {
	for _, image := range some(w.dice, 0, len(images), images...) {
		held := corev1.ContainerImage{Names: []string{image.name}, SizeBytes: image.size}
		if w.chance(20) {
			held.Names = append(held.Names, "mirror.example.com/"+image.name)
		}
		if w.chance(10) {
			held.SizeBytes = pick[int64](w.dice, 0, image.size*2)
		}
		node.Status.Images = append(node.Status.Images, held)
	}
}
