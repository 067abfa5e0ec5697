package main

// Amounts of the node's own resources that devices take.

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// amountClaims are the names of claims for parts of devices.
var amountClaims = []string{"part-of-device", "part-of-device", "whole-device", "in-use", "in-use-by-another", "in-use-by-another"}

// takeAmounts lets a device take amounts of its node.
func (w *world) takeAmounts(device *resourcev1.Device) {
	if !w.chance(75) {
		return
	}
	amounts := map[corev1.ResourceName]resourcev1.NodeAllocatableResource{}
	if device.Capacity == nil {
		device.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{}
	}
	if w.chance(60) {
		amounts["cpu"] = resourcev1.NodeAllocatableResource{Mapping: &resourcev1.NodeAllocatableMapping{
			DeviceMultiplier: pointer(resource.MustParse(pick(w.dice, "250m", "500m", "1", "2", "1500m"))),
		}}
	}
	if w.chance(50) {
		multiple := true
		device.AllowMultipleAllocations = &multiple
		least := resource.MustParse("256Mi")
		device.Capacity["memory"] = resourcev1.DeviceCapacity{
			Value: resource.MustParse("8Gi"), RequestPolicy: &resourcev1.CapacityRequestPolicy{
				Default: &least, ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: &least},
			},
		}
		key := resourcev1.QualifiedName("memory")
		amounts["memory"] = resourcev1.NodeAllocatableResource{Mapping: &resourcev1.NodeAllocatableMapping{
			CapacityKey: &key, CapacityMultiplier: pointer(resource.MustParse(pick(w.dice, "1", "2", "500m", "333m"))),
		}}
	}
	if w.chance(50) {
		name := pick(w.dice, corev1.ResourceMemory, corev1.ResourceCPU, "hugepages-2Mi", corev1.ResourceEphemeralStorage)
		amount := amounts[name]
		amount.Overhead = &resourcev1.NodeAllocatableOverhead{PerPod: pointer(resource.MustParse(w.overhead(name)))}
		if w.chance(50) {
			amount.Overhead.PerContainer = pointer(resource.MustParse(w.overhead(name)))
		}
		amounts[name] = amount
	}
	if len(amounts) > 0 {
		device.NodeAllocatableResources = amounts
	}
}

func (w *world) overhead(name corev1.ResourceName) string {
	if name == corev1.ResourceCPU {
		return pick(w.dice, "100m", "150m", "1")
	}
	return pick(w.dice, "64Mi", "128Mi", "1000000")
}

// addAmountClaims adds claims for devices that take amounts, some of them allocated.
func (w *world) addAmountClaims(namespace string) {
	for _, name := range []string{"part-of-device", "whole-device", "in-use", "in-use-by-another"} {
		claim := add(w, "resource.k8s.io/v1", "ResourceClaim", &resourcev1.ResourceClaim{ObjectMeta: within(namespace, name)})
		request := exactly("devices", 1)
		if name == "part-of-device" {
			request.Exactly.Capacity = &resourcev1.CapacityRequirements{
				Requests: map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse(pick(w.dice, "100Mi", "1Gi", "3Gi"))},
			}
		}
		claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{request}
		if name != "in-use" && name != "in-use-by-another" || len(w.nodes) == 0 {
			continue
		}
		w.allocate(claim)
		result := &claim.Status.Allocation.Devices.Results[0]
		result.Device = pick(w.dice, "zero", "one", "two")
		if w.chance(70) {
			result.ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse(pick(w.dice, "512Mi", "2Gi"))}
		}
		if w.chance(30) {
			claim.Status.Allocation.NodeSelector = nil
		}
		if name == "in-use-by-another" {
			claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "another", UID: "another"}}
		}
	}
}

// useClaims lets further containers use the claims of a pod.
func (w *world) useClaims(pod *corev1.Pod) {
	if pod.Spec.Resources != nil {
		keepOneResource(pod)
	}
	for index := range pod.Spec.Containers {
		if index > 0 && w.chance(50) {
			pod.Spec.Containers[index].Resources.Claims = []corev1.ResourceClaim{{Name: "devices"}}
		}
	}
	for index := range pod.Spec.InitContainers {
		if w.chance(30) {
			pod.Spec.InitContainers[index].Resources.Claims = []corev1.ResourceClaim{{Name: "devices"}}
		}
	}
}

// keepOneResource leaves a pod with pod-level resources only one kind of them. Of several that are too small for its devices, kube-scheduler
// reports any.
func keepOneResource(pod *corev1.Pod) {
	kept := corev1.ResourceMemory
	for _, list := range []corev1.ResourceList{pod.Spec.Resources.Requests, pod.Spec.Resources.Limits} {
		if _, has := list[corev1.ResourceCPU]; has {
			kept = corev1.ResourceCPU
		}
	}
	keep := func(list corev1.ResourceList) {
		for name := range list {
			if name != kept {
				delete(list, name)
			}
		}
	}
	keep(pod.Spec.Resources.Requests)
	keep(pod.Spec.Resources.Limits)
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for index := range containers {
			keep(containers[index].Resources.Requests)
			keep(containers[index].Resources.Limits)
		}
	}
}

// haveDevices writes amounts of devices to the status of a bound pod.
func (w *world) haveDevices(pod *corev1.Pod) {
	name := "part-of-device"
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimName: &name}}
	status := corev1.NodeAllocatableResourceClaimStatus{
		ResourceClaimName: name,
		Mapping: []corev1.NodeAllocatableMappedResources{
			{Name: corev1.ResourceCPU, Quantity: pointer(resource.MustParse(pick(w.dice, "100m", "500m", "1")))},
		},
	}
	if w.chance(50) {
		status.Containers = []string{pod.Spec.Containers[0].Name}
		status.Overhead = []corev1.NodeAllocatableOverheadResources{{
			Name: corev1.ResourceMemory, PerPod: pointer(resource.MustParse("64Mi")), PerContainer: pointer(resource.MustParse("32Mi")),
		}}
	}
	pod.Status.NodeAllocatableResourceClaimStatuses = []corev1.NodeAllocatableResourceClaimStatus{status}
}
