package main

// Inputs of preemption: priorities, budgets, start times and terminating pods.

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func (w *world) addPreemption() {
	if !w.has["preemption"] {
		return
	}
	class := func(name string, value int32) *schedulingv1.PriorityClass {
		return add(w, "scheduling.k8s.io/v1", "PriorityClass", &schedulingv1.PriorityClass{ObjectMeta: named(name), Value: value})
	}
	class("urgent", 2000)
	class("polite", 1500).PreemptionPolicy = pointer(corev1.PreemptNever)
	class("normal", 10)
	class("batch", -10)
	for _, namespace := range w.namespaces {
		for i := range w.between(0, 3) {
			w.guard(namespace, fmt.Sprintf("budget-%d", i))
		}
	}
}

// guard creates a budget as the disruption controller leaves it.
func (w *world) guard(namespace, name string) {
	budget := add(w, "policy/v1", "PodDisruptionBudget", &policyv1.PodDisruptionBudget{ObjectMeta: within(namespace, name)})
	budget.Spec.MinAvailable = pointer(intstr.FromInt32(1))
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(w.dice, "web", "web", "db", "cache")}}
	switch {
	case w.chance(25):
		budget.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: "tier", Operator: pick(w.dice, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist),
		}}}
	case w.chance(8):
		budget.Spec.Selector = &metav1.LabelSelector{}
	case w.chance(4):
		budget.Spec.Selector = nil
	}
	budget.Status.DisruptionsAllowed = int32(pick(w.dice, 0, 0, 1, 1, 2))
	if w.chance(20) {
		budget.Status.DisruptedPods = map[string]metav1.Time{fmt.Sprintf("full-%d", w.between(0, 9)): longAgo}
	}
}

// crowd adds pods to nodes, so that there are victims.
func (w *world) crowd() {
	if !w.has["preemption"] || len(w.nodes) == 0 {
		return
	}
	for i := range w.between(2, 4*len(w.nodes)) {
		pod := w.newPod(fmt.Sprintf("full-%d", i))
		pod.Spec.NodeName = pick(w.dice, w.nodes...).Name
		w.equip(pod)
		w.live(pod)
	}
}

// tellApart sets different start times on nodes with many pods. kube-scheduler keeps the order of up to twelve equally important victims,
// and uses pdqsort's for more. Victims of a group come from all nodes, and in the order of a map.
func (w *world) tellApart() {
	if w.has["evictions"] {
		for i, pod := range w.pods {
			begun := metav1.NewTime(longAgo.Add(time.Duration((i*7)%97) * time.Minute))
			pod.Status.StartTime = &begun
		}
		return
	}
	onNode := map[string]int{}
	for _, pod := range w.pods {
		onNode[pod.Spec.NodeName]++
	}
	for i, pod := range w.pods {
		if onNode[pod.Spec.NodeName] > 12 && pod.Status.StartTime != nil {
			begun := metav1.NewTime(pod.Status.StartTime.Add(time.Duration(i) * time.Second))
			pod.Status.StartTime = &begun
		}
	}
}

// outrank sets priorities: pending pods mostly have a higher one than bound pods.
func (w *world) outrank(pod *corev1.Pod) {
	if pod.Spec.NodeName != "" {
		pod.Spec.PriorityClassName = pick(w.dice, "batch", "batch", "normal", "normal", "normal", "polite", "urgent")
		return
	}
	pod.Spec.PriorityClassName = pick(w.dice, "urgent", "urgent", "urgent", "urgent", "polite", "normal", "batch")
	if w.chance(5) {
		pod.Spec.PreemptionPolicy = pointer(corev1.PreemptNever)
	}
	if w.chance(40) {
		main := &pod.Spec.Containers[0]
		if main.Resources.Limits == nil && pod.Spec.Resources == nil {
			main.Resources.Requests = corev1.ResourceList{
				corev1.ResourceCPU:    quantity(pick(w.dice, "1", "2", "3", "4")),
				corev1.ResourceMemory: quantity(pick(w.dice, "256Mi", "2Gi", "4Gi")),
			}
		}
	}
	if len(w.nodes) > 0 && w.chance(25) {
		pod.Status.NominatedNodeName = pick(w.dice, w.nodes...).Name
	}
}

// makeRoom removes a pod's host ports that another pod on the node uses too: kube-scheduler frees such a port with the first deleted pod,
// Flotilla intentionally with the last.
func (w *world) makeRoom(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" {
		return
	}
	taken := map[int32]bool{}
	for _, other := range w.pods {
		if other != pod && other.Spec.NodeName == pod.Spec.NodeName {
			for _, port := range other.Spec.Containers[0].Ports {
				taken[onHost(other, port)] = true
			}
		}
	}
	for _, port := range pod.Spec.Containers[0].Ports {
		if taken[onHost(pod, port)] {
			pod.Spec.HostNetwork, pod.Spec.Containers[0].Ports = false, nil
			return
		}
	}
}

// begin sets the start of a bound pod, and the reason of its end.
func (w *world) begin(pod *corev1.Pod) {
	started := metav1.NewTime(longAgo.Add(time.Duration(w.between(0, 5)) * time.Hour))
	pod.Status.StartTime = &started
	if w.chance(15) {
		pod.Status.StartTime = nil
	}
	if pod.DeletionTimestamp != nil && w.chance(60) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type:   corev1.DisruptionTarget,
			Status: pick(w.dice, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse),
			Reason: pick(w.dice, corev1.PodReasonPreemptionByScheduler, corev1.PodReasonPreemptionByScheduler, "DeletionByTaintManager"),
		})
	}
}

// onHost is the host port of a container port; 0 for none. The API server sets it for pods with host networking.
func onHost(pod *corev1.Pod, port corev1.ContainerPort) int32 {
	if port.HostPort == 0 && pod.Spec.HostNetwork {
		return port.ContainerPort
	}
	return port.HostPort
}
