package main

// Configurations: profiles, weights and plugin arguments.

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// configuration is a KubeSchedulerConfiguration as a map, so that only chosen fields are written.
type configuration = map[string]any

func (w *world) addConfiguration() {
	w.schedulers = []string{corev1.DefaultSchedulerName}
	if !w.has["configuration"] {
		return
	}
	var profiles []any
	count := w.between(1, 3)
	w.schedulers = nil
	for i := range count {
		name := corev1.DefaultSchedulerName
		if i > 0 {
			name = fmt.Sprintf("scheduler-%d", i)
		}
		w.schedulers = append(w.schedulers, name)
		profiles = append(profiles, w.profile(name))
	}
	w.configuration = &configuration{
		"apiVersion": "kubescheduler.config.k8s.io/v1",
		"kind":       "KubeSchedulerConfiguration",
		"profiles":   profiles,
	}
}

func (w *world) profile(name string) map[string]any {
	profile := map[string]any{"schedulerName": name}
	if plugins := w.plugins(); len(plugins) > 0 {
		profile["plugins"] = plugins
	}
	var arguments []any
	argue := func(plugin string, args map[string]any) {
		arguments = append(arguments, map[string]any{"name": plugin, "args": args})
	}
	if w.chance(35) {
		argue("NodeAffinity", map[string]any{"addedAffinity": w.addedAffinity()})
	}
	if w.chance(50) {
		argue("PodTopologySpread", w.spreadArguments())
	}
	if w.chance(50) {
		argue("InterPodAffinity", map[string]any{
			"hardPodAffinityWeight":              pick(w.dice, 0, 1, 50, 100),
			"ignorePreferredTermsOfExistingPods": w.chance(50),
		})
	}
	if w.chance(60) {
		argue("NodeResourcesFit", w.fitArguments())
	}
	if w.chance(30) {
		argue("NodeResourcesBalancedAllocation", map[string]any{"resources": w.weights(1, w.balanced()...)})
	}
	if w.chance(20) {
		argue("VolumeBinding", map[string]any{"shape": []any{
			map[string]any{"utilization": 0, "score": pick(w.dice, 0, 10)},
			map[string]any{"utilization": 100, "score": pick(w.dice, 0, 10)},
		}})
	}
	if w.has["preemption"] && w.chance(10) {
		// More candidates than nodes, so that all are evaluated.
		argue("DefaultPreemption", map[string]any{"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": w.between(30, 200)})
	}
	if len(arguments) > 0 {
		profile["pluginConfig"] = arguments
	}
	return profile
}

// balanced are resources for NodeResourcesBalancedAllocation. kube-scheduler 1.37.2 panics with a nil pointer if one of them is served by a
// class with selectors.
func (w *world) balanced() []string {
	resources := []string{"cpu", "memory"}
	if !w.has["extended"] {
		resources = append(resources, string(gpu))
	}
	return resources
}

// plugins changes weights and disables plugins.
func (w *world) plugins() map[string]any {
	plugins := map[string]any{}
	if w.chance(50) {
		plugin := pick(w.dice, "NodeAffinity", "TaintToleration", "InterPodAffinity", "PodTopologySpread", "NodeResourcesFit", "ImageLocality")
		enabled := map[string]any{"name": plugin, "weight": pick(w.dice, 1, 5, 100)}
		plugins["score"] = map[string]any{
			"disabled": []any{map[string]any{"name": plugin}},
			"enabled":  []any{enabled},
		}
	}
	if w.chance(25) {
		plugin := pick(w.dice, "NodePorts", "TaintToleration", "PodTopologySpread", "NodeUnschedulable", "VolumeZone")
		plugins["filter"] = map[string]any{"disabled": []any{map[string]any{"name": plugin}}}
	}
	if w.chance(6) {
		plugins["score"] = map[string]any{"disabled": []any{map[string]any{"name": "*"}}}
		plugins["preScore"] = map[string]any{"disabled": []any{map[string]any{"name": "*"}}}
	}
	if w.chance(10) {
		plugins["multiPoint"] = map[string]any{"disabled": []any{map[string]any{"name": pick(w.dice, "ImageLocality", "InterPodAffinity", "VolumeBinding", "VolumeRestrictions")}}}
		plugins = map[string]any{"multiPoint": plugins["multiPoint"]}
	}
	if w.has["preemption"] && w.chance(8) {
		plugins["postFilter"] = map[string]any{"disabled": []any{map[string]any{"name": pick(w.dice, "DefaultPreemption", "*")}}}
	}
	return plugins
}

func (w *world) addedAffinity() map[string]any {
	expression := map[string]any{"key": "disk", "operator": pick(w.dice, "Exists", "Exists", "DoesNotExist")}
	term := map[string]any{"matchExpressions": []any{expression}}
	affinity := map[string]any{}
	if w.chance(60) {
		affinity["requiredDuringSchedulingIgnoredDuringExecution"] = map[string]any{"nodeSelectorTerms": []any{term}}
	} else {
		affinity["preferredDuringSchedulingIgnoredDuringExecution"] = []any{map[string]any{"weight": 10, "preference": term}}
	}
	return affinity
}

func (w *world) spreadArguments() map[string]any {
	if w.chance(25) {
		return map[string]any{"defaultingType": "System"}
	}
	var constraints []any
	for _, key := range some(w.dice, 1, 2, corev1.LabelHostname, corev1.LabelTopologyZone, "rack") {
		constraints = append(constraints, map[string]any{
			"maxSkew":           w.between(1, 3),
			"topologyKey":       key,
			"whenUnsatisfiable": pick(w.dice, "ScheduleAnyway", "DoNotSchedule"),
		})
	}
	return map[string]any{"defaultingType": "List", "defaultConstraints": constraints}
}

func (w *world) fitArguments() map[string]any {
	args := map[string]any{}
	if w.chance(30) {
		args["ignoredResources"] = []any{string(gpu)}
	}
	if w.chance(20) {
		args["ignoredResourceGroups"] = []any{"example.com"}
	}
	strategy := map[string]any{"type": pick(w.dice, "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")}
	strategy["resources"] = w.weights(3, "cpu", "memory", string(gpu), "ephemeral-storage")
	if strategy["type"] == "RequestedToCapacityRatio" {
		middle := w.between(10, 90)
		strategy["requestedToCapacityRatio"] = map[string]any{"shape": []any{
			map[string]any{"utilization": 0, "score": w.between(0, 10)},
			map[string]any{"utilization": middle, "score": w.between(0, 10)},
			map[string]any{"utilization": 100, "score": w.between(0, 10)},
		}}
	}
	args["scoringStrategy"] = strategy
	return args
}

// weights weighs some resources, each with 1 or the highest weight.
func (w *world) weights(highest int, names ...string) []any {
	var weighted []any
	for _, name := range some(w.dice, 1, len(names), names...) {
		weighted = append(weighted, map[string]any{"name": name, "weight": pick(w.dice, 1, 1, highest)})
	}
	return weighted
}
