package main

// Devices and their claims.

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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
	w.extend(class)
	for _, node := range w.nodes {
		if !w.chance(60) {
			continue
		}
		slice := add(w, "resource.k8s.io/v1", "ResourceSlice", &resourcev1.ResourceSlice{ObjectMeta: named(node.Name + "-devices")})
		slice.Spec.Driver, slice.Spec.NodeName = deviceDriver, &node.Name
		slice.Spec.Pool = resourcev1.ResourcePool{Name: node.Name, Generation: 1, ResourceSliceCount: 1}
		if w.chance(5) {
			// One slice of the pool is not published yet.
			slice.Spec.Pool.ResourceSliceCount = 2
		}
		for _, device := range some(w.dice, 1, 3, "zero", "one", "two") {
			slice.Spec.Devices = append(slice.Spec.Devices, w.device(device))
		}
		if w.has["gated"] {
			w.gateSlice(slice)
		}
	}
	w.addSharedDevices()
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
		if w.has["gated"] {
			w.addGatedClaims(namespace)
		}
		if w.has["amounts"] {
			w.addAmountClaims(namespace)
		}
		for _, name := range slices.Sorted(maps.Keys(demanding)) {
			claim := add(w, "resource.k8s.io/v1", "ResourceClaim", &resourcev1.ResourceClaim{ObjectMeta: within(namespace, name)})
			claim.Spec.Devices.Requests = demanding[name]
			if name == "alike" {
				attribute := resourcev1.FullyQualifiedName(deviceDriver + "/model")
				claim.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: &attribute}}
			}
		}
	}
}

// extend lets devices of a class serve an extended resource, which pods request without a claim.
func (w *world) extend(class *resourcev1.DeviceClass) {
	if !w.has["extended"] || !w.chance(60) {
		return
	}
	name := string(pick(w.dice, gpu, gpu, fpga))
	class.Spec.ExtendedResourceName = &name
	if !w.chance(30) {
		return
	}
	w.hasRivals = true
	// Of two classes the younger one counts, and of equally old ones the first by name.
	other := add(w, "resource.k8s.io/v1", "DeviceClass", &resourcev1.DeviceClass{ObjectMeta: named("another")})
	other.Spec.ExtendedResourceName = &name
	other.Spec.Selectors = selecting(largeModel)
	if w.chance(50) {
		class.CreationTimestamp = *longAgo.DeepCopy()
	}
}

// askClass requests a device by its class's extended resource name. kube-scheduler does not find the class by that name if it was added
// after one that is preferred for its other name.
func (w *world) askClass(pod *corev1.Pod) {
	if w.hasRivals {
		return
	}
	name := corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix + "device")
	container := &pod.Spec.Containers[w.between(0, len(pod.Spec.Containers)-1)]
	if container.Resources.Requests == nil {
		container.Resources.Requests = corev1.ResourceList{}
	}
	withLimit(&container.Resources, name, pick(w.dice, "1", "1", "2"))
}

// device creates a device, sometimes with attributes, capacity and taints.
func (w *world) device(name string) resourcev1.Device {
	device := resourcev1.Device{Name: name}
	if w.chance(80) {
		model := pick(w.dice, "small", "large")
		device.Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: &model}}
		device.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
			"memory": {Value: resource.MustParse(pick(w.dice, "20Gi", "40Gi", "80Gi"))},
		}
	}
	if w.has["amounts"] {
		w.takeAmounts(&device)
	}
	if w.chance(15) {
		device.Taints = []resourcev1.DeviceTaint{{Key: "broken", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
	}
	return device
}

// addSharedDevices adds devices that several nodes reach.
func (w *world) addSharedDevices() {
	if !w.chance(40) {
		return
	}
	slice := add(w, "resource.k8s.io/v1", "ResourceSlice", &resourcev1.ResourceSlice{ObjectMeta: named("shared-devices")})
	everywhere := true
	slice.Spec.Driver, slice.Spec.AllNodes = deviceDriver, &everywhere
	slice.Spec.Pool = resourcev1.ResourcePool{Name: "shared", Generation: 1, ResourceSliceCount: 1}
	slice.Spec.Devices = []resourcev1.Device{w.device("near"), w.device("far")}
}

const (
	largeModel = `device.attributes["` + deviceDriver + `"].?model.orValue("") == "large"`
	// Fails for devices without the attribute.
	anyModel   = `device.attributes["` + deviceDriver + `"].model != "huge"`
	muchMemory = `"memory" in device.capacity["` + deviceDriver + `"] && ` +
		`device.capacity["` + deviceDriver + `"].memory.isGreaterThan(quantity("30Gi"))`
)

// demanding are requests that not every device satisfies, by claim.
var demanding = map[string][]resourcev1.DeviceRequest{
	"large":   {exactly("devices", 1, largeModel)},
	"strict":  {exactly("devices", 1, anyModel)},
	"roomy":   {exactly("devices", 2, muchMemory)},
	"alike":   {exactly("devices", 2), exactly("more", 1)},
	"all":     {{Name: "devices", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "device", AllocationMode: resourcev1.DeviceAllocationModeAll}}},
	"patient": {tolerant(exactly("devices", 2))},
	"picky": {{Name: "devices", FirstAvailable: []resourcev1.DeviceSubRequest{
		{Name: "best", DeviceClassName: "device", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 2, Selectors: selecting(largeModel)},
		{Name: "good", DeviceClassName: "device", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1, Selectors: selecting(largeModel)},
		{Name: "any", DeviceClassName: "device", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
	}}},
}

func exactly(name string, count int64, expressions ...string) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Name: name, Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "device", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count,
		Selectors: selecting(expressions...),
	}}
}

func tolerant(request resourcev1.DeviceRequest) resourcev1.DeviceRequest {
	request.Exactly.Tolerations = []resourcev1.DeviceToleration{{Key: "broken", Operator: resourcev1.DeviceTolerationOpExists}}
	return request
}

func selecting(expressions ...string) []resourcev1.DeviceSelector {
	var selectors []resourcev1.DeviceSelector
	for _, expression := range expressions {
		selectors = append(selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: expression}})
	}
	return selectors
}

// allocate allocates a node's device to a claim.
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

// claim adds a claim to a pod; a missing claim gates the pod.
func (w *world) claim(pod *corev1.Pod) {
	name := pick(w.dice, "single", "double", "double", "taken")
	if w.chance(50) {
		name = pick(w.dice, "large", "roomy", "alike", "all", "patient", "picky", "picky", "strict")
	}
	if w.chance(15) {
		name = pick(w.dice, "missing", "classless", "leaving")
	}
	if w.has["gated"] && w.chance(60) {
		name = pick(w.dice, gatedClaims...)
	}
	if w.has["amounts"] && w.chance(70) {
		name = pick(w.dice, amountClaims...)
	}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimName: &name}}
	pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "devices"}}
	if w.has["amounts"] {
		w.useClaims(pod)
	}
	if other := pick(w.dice, "single", "picky", "taken"); w.chance(20) && other != name {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "other", ResourceClaimName: &other})
	}
}
