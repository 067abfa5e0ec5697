package main

// This file knows pod groups: some of the pending pods are one group, and the other pods take no part.

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

// important are classes of a priority above 0. Of other groups no member is nominated: while a group is tried, upstream's
// nominator has its members as pods without a spec and of priority 0, and counts them one to a node.
var important = []string{"high", "urgent", "system-cluster-critical"}

// group makes one group of pending pods: they share a namespace, a scheduler, a priority and a preemption policy, as
// kube-scheduler demands. All other pending pods wait behind a gate, so that only their nominations count.
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

// rank gives the group the priority that the API server has found for its pods.
func (w *world) rank() {
	if w.gang != nil {
		w.gang.Spec.Priority = w.members[0].Spec.Priority
	}
}
