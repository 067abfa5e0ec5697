package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	zoneLabel = "topology.kubernetes.io/zone"
	hostLabel = "kubernetes.io/hostname"
	// roleLabel is the role of a pod: standing, warm-up, measured, or infeasible.
	roleLabel    = "perf.flotilla.dev/role"
	roleStanding = "standing"
	roleWarm     = "warm"
	roleMeasured = "measured"
	roleNowhere  = "nowhere"
	// ownLabel has a different value on each pod, like the labels of a StatefulSet and of an indexed Job.
	ownLabel = "perf.flotilla.dev/pod"
	image    = "registry.k8s.io/pause:3.10.2"
)

// node is scheduler_perf's node-default.yaml, with a name and labels.
func node(index int, zones []string) *v1.Node {
	name := nodeName(index)
	labels := map[string]string{hostLabel: name}
	if len(zones) > 0 {
		labels[zoneLabel] = zones[index%len(zones)]
	}
	room := v1.ResourceList{
		v1.ResourcePods:   resource.MustParse("110"),
		v1.ResourceCPU:    resource.MustParse("4"),
		v1.ResourceMemory: resource.MustParse("32Gi"),
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status: v1.NodeStatus{
			Capacity: room, Allocatable: room,
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	}
}

func nodeName(index int) string { return fmt.Sprintf("node-%05d", index) }

// pod returns a pod with a distinct label. The resources are requests and limits, as in scheduler_perf.
func pod(namespace, name, role string, resources v1.ResourceList) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{roleLabel: role, ownLabel: name},
		},
		Spec: podSpec(resources),
	}
}

func podSpec(resources v1.ResourceList) v1.PodSpec {
	return v1.PodSpec{Containers: []v1.Container{{
		Name: "pause", Image: image,
		Ports:     []v1.ContainerPort{{ContainerPort: 80}},
		Resources: v1.ResourceRequirements{Requests: resources, Limits: resources},
	}}}
}

func room(cpu, memory string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
}

// small are the requests of most pods in scheduler_perf.
func small() v1.ResourceList { return room("100m", "500Mi") }

// term selects pods of a colour in both namespaces, as in scheduler_perf.
func term(color, topology string) v1.PodAffinityTerm {
	return v1.PodAffinityTerm{
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"color": color}},
		TopologyKey:   topology,
		Namespaces:    []string{"sched-1", "sched-0"},
	}
}

func weighted(term v1.PodAffinityTerm) []v1.WeightedPodAffinityTerm {
	return []v1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: term}}
}

// near, apart, ratherNear and ratherApart set a pod's colour and its affinity to that colour.

func near(pod *v1.Pod) {
	pod.Labels["color"] = "blue"
	pod.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term("blue", zoneLabel)},
	}}
}

func apart(pod *v1.Pod) {
	pod.Labels["color"] = "green"
	pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term("green", hostLabel)},
	}}
}

func ratherNear(pod *v1.Pod) {
	pod.Labels["color"] = "red"
	pod.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: weighted(term("red", hostLabel)),
	}}
}

func ratherApart(pod *v1.Pod) {
	pod.Labels["color"] = "yellow"
	pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: weighted(term("yellow", hostLabel)),
	}}
}
