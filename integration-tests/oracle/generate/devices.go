package main

// This file knows devices and the claims to them.

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

const deviceDriver = "devices.example.com"

func (w *world) addDevices() {
	if !w.has["claims"] {
		return
	}
	class := add(w, "resource.k8s.io/v1", "DeviceClass", &resourcev1.DeviceClass{ObjectMeta: named("device")})
	class.Spec.Selectors = []resourcev1.DeviceSelector{{
		CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "` + deviceDriver + `"`},
	}}
	for _, node := range w.nodes {
		if !w.chance(60) {
			continue
		}
		slice := add(w, "resource.k8s.io/v1", "ResourceSlice", &resourcev1.ResourceSlice{ObjectMeta: named(node.Name + "-devices")})
		slice.Spec.Driver, slice.Spec.NodeName = deviceDriver, &node.Name
		slice.Spec.Pool = resourcev1.ResourcePool{Name: node.Name, Generation: 1, ResourceSliceCount: 1}
		for _, device := range some(w.dice, 1, 3, "zero", "one", "two") {
			slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: device})
		}
	}
	for _, namespace := range w.namespaces {
		for _, name := range []string{"single", "double", "taken", "classless", "leaving"} {
			claim := add(w, "resource.k8s.io/v1", "ResourceClaim", &resourcev1.ResourceClaim{ObjectMeta: within(namespace, name)})
			count := int64(1)
			if name == "double" {
				count = 2
			}
			claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{
				Name: "devices",
				Exactly: &resourcev1.ExactDeviceRequest{
					DeviceClassName: "device", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count,
				},
			}}
			switch {
			case name == "taken" && len(w.nodes) > 0:
				w.allocate(claim)
			case name == "classless":
				claim.Spec.Devices.Requests[0].Exactly.DeviceClassName = "gone"
			case name == "leaving":
				claim.DeletionTimestamp, claim.Finalizers = longAgo.DeepCopy(), []string{"resource.kubernetes.io/delete-protection"}
			}
		}
	}
}

// allocate gives a device of a node to a claim.
func (w *world) allocate(claim *resourcev1.ResourceClaim) {
	node := pick(w.dice, w.nodes...)
	claim.Status.Allocation = &resourcev1.AllocationResult{
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "devices", Driver: deviceDriver, Pool: node.Name, Device: claim.Namespace},
		}},
		NodeSelector: onlyNode(node.Name),
	}
}

func onlyNode(name string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{name}},
		},
	}}}
}

// claim makes a pod use a claim; one that does not exist keeps the pod out of the queue.
func (w *world) claim(pod *corev1.Pod) {
	name := pick(w.dice, "single", "double", "double", "taken")
	if w.chance(20) {
		name = pick(w.dice, "missing", "classless", "leaving")
	}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimName: &name}}
	pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "devices"}}
}
