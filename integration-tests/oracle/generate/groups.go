package main

// Pod groups: some of the pending pods are one group.

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
)

const (
	groupName    = "gang"
	mostMembers  = 8
	leastMembers = 2
)

// important are classes with a priority above 0. Members of other groups are not nominated: while a group is tried, upstream's nominator
// stores its members without spec and priority, and counts one per node.
var important = []string{"high", "urgent", "system-cluster-critical"}

// group makes one group of pending pods with the same namespace, scheduler, priority and preemption policy, as kube-scheduler requires. All
// other pending pods are gated, so that only their nominations count.
func (w *world) group() {
	if !w.has["groups"] {
		return
	}
	var pending []*corev1.Pod
	for _, pod := range w.pods {
		if pod.Spec.NodeName == "" {
			pending = append(pending, pod)
		}
	}
	left := w.between(leastMembers, mostMembers)
	first := pending[0]
	for _, pod := range pending {
		if left == 0 || pod.Namespace != first.Namespace {
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/apart"}}
			continue
		}
		left--
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: pointer(groupName)}
		pod.Spec.SchedulerName = corev1.DefaultSchedulerName
		pod.Spec.PriorityClassName = first.Spec.PriorityClassName
		pod.Spec.SchedulingGates = nil
		if !slices.Contains(important, first.Spec.PriorityClassName) {
			pod.Status.NominatedNodeName = ""
		}
		w.members = append(w.members, pod)
	}
	group := add(w, "scheduling.k8s.io/v1beta1", "PodGroup", &schedulingv1beta1.PodGroup{
		ObjectMeta: within(first.Namespace, groupName),
	})
	w.gang = group
	if w.has["topology"] && w.chance(80) {
		key := pick(w.dice, "rack", "rack", corev1.LabelTopologyZone, "generation", corev1.LabelHostname, "nowhere")
		group.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{
			Topology: []schedulingv1beta1.TopologyConstraint{{Key: key}},
		}
	}
	if w.chance(15) {
		group.Spec.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
		return
	}
	least := len(w.members)
	if w.chance(40) {
		least = w.between(1, least)
	}
	group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(least)}
}

// rank sets the group's priority to that of its pods.
func (w *world) rank() {
	if w.gang != nil {
		w.gang.Spec.Priority = w.members[0].Spec.Priority
	}
}
