package main

// Devices and claims with fields that feature gates enable.

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// gatedClaims are the names of claims with such fields.
var gatedClaims = []string{"fraction", "whole", "linked", "distinct", "derived", "part", "parts", "skipping"}

const (
	linksAttribute   = "links.example.com/links"
	derivedAttribute = "derived/model"
)

// gateSlice adds such fields to a node's slice, and sometimes a slice with shared counters to its pool.
func (w *world) gateSlice(slice *resourcev1.ResourceSlice) {
	if w.chance(25) {
		slice.Spec.SkipNodeOperations = []resourcev1.SkipNodeOperation{"NodePrepareResources"}
	}
	hasCounters, hasGroups := w.chance(35), w.chance(50)
	if hasCounters {
		slice.Spec.Pool.ResourceSliceCount++
		counters := add(w, "resource.k8s.io/v1", "ResourceSlice", &resourcev1.ResourceSlice{ObjectMeta: named(slice.Name + "-counters")})
		counters.Spec.Driver, counters.Spec.NodeName, counters.Spec.Pool = slice.Spec.Driver, slice.Spec.NodeName, slice.Spec.Pool
		counters.Spec.SharedCounters = []resourcev1.CounterSet{{
			Name: "set", Counters: map[string]resourcev1.Counter{"units": {Value: resource.MustParse("3")}},
		}}
	}
	for index := range slice.Spec.Devices {
		device := &slice.Spec.Devices[index]
		w.gateDevice(device)
		if hasCounters {
			consumption := resourcev1.DeviceCounterConsumption{
				CounterSet: "set",
				Counters:   map[string]resourcev1.Counter{"units": {Value: resource.MustParse(pick(w.dice, "1", "2"))}},
			}
			if hasGroups {
				consumption.CompatibilityGroups = some(w.dice, 0, 2, "group-1", "group-2")
			}
			device.ConsumesCounters = []resourcev1.DeviceCounterConsumption{consumption}
		}
	}
}

func (w *world) gateDevice(device *resourcev1.Device) {
	if device.Attributes == nil {
		device.Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}
	}
	if w.chance(80) {
		links := resourcev1.DeviceAttribute{IntValues: some(w.dice, 1, 2, int64(0), 1, 2)}
		if w.chance(25) {
			one := int64(w.between(0, 2))
			links = resourcev1.DeviceAttribute{IntValue: &one}
		}
		device.Attributes[linksAttribute] = links
	}
	if device.Capacity == nil {
		device.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{}
	}
	least, step := resource.MustParse("500m"), resource.MustParse(pick(w.dice, "250m", "300m", "1"))
	device.Capacity["slots"] = resourcev1.DeviceCapacity{
		Value: resource.MustParse(pick(w.dice, "2", "3")),
		RequestPolicy: &resourcev1.CapacityRequestPolicy{
			Default:    &least,
			ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: &least, Step: &step},
		},
	}
	if w.chance(60) {
		multiple := true
		device.AllowMultipleAllocations = &multiple
	}
	if w.chance(15) {
		device.BindingConditions, device.BindingFailureConditions = []string{"Ready"}, []string{"Failed"}
	}
	if w.chance(15) {
		binds := true
		device.BindsToNode = &binds
	}
}

// addGatedClaims adds claims that need feature gates.
func (w *world) addGatedClaims(namespace string) {
	links, derived := resourcev1.FullyQualifiedName(linksAttribute), resourcev1.FullyQualifiedName(derivedAttribute)
	for _, name := range gatedClaims {
		claim := add(w, "resource.k8s.io/v1", "ResourceClaim", &resourcev1.ResourceClaim{ObjectMeta: within(namespace, name)})
		devices := &claim.Spec.Devices
		request := exactly("devices", 1)
		switch name {
		case "fraction", "whole":
			size := resource.MustParse(pick(w.dice, "600m", "700m", "1100m", "1700m"))
			if name == "whole" {
				size = resource.MustParse(pick(w.dice, "1", "2"))
			}
			request.Exactly.Capacity = &resourcev1.CapacityRequirements{
				Requests: map[resourcev1.QualifiedName]resource.Quantity{"slots": size},
			}
		case "linked":
			request.Exactly.Count = 2
			devices.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: &links}}
		case "distinct":
			request.Exactly.Count = 2
			devices.Constraints = []resourcev1.DeviceConstraint{{DistinctAttribute: &links}}
		case "derived":
			request.Exactly.Count = 2
			request.Exactly.DerivedAttributes = []resourcev1.DeviceDerivedAttribute{{
				Name:       derived,
				Expression: `device.attributes["` + deviceDriver + `"].?model.orValue("none")`,
			}}
			devices.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: &derived}}
		case "parts":
			request.Exactly.Count = 2
		case "skipping":
			if len(w.nodes) > 0 && w.chance(50) {
				w.allocate(claim)
				claim.Status.Allocation.NodeSelector = nil
				claim.Status.Allocation.Devices.Results[0].SkipNodeOperations = []resourcev1.SkipNodeOperation{"NodePrepareResources"}
			}
		}
		devices.Requests = []resourcev1.DeviceRequest{request}
	}
}
