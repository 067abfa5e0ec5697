package main

// Pod groups: some of the pending pods are one group, or some groups below a composite group.

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
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
	w.standGangs()
	var pending []*corev1.Pod
	for _, pod := range w.pods {
		if pod.Spec.NodeName == "" {
			pending = append(pending, pod)
		}
	}
	left := w.between(leastMembers, mostMembers)
	first := pending[0]
	if w.has["evictions"] && w.chance(80) {
		first.Spec.PriorityClassName = "urgent"
	}
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
	if w.has["composite"] {
		w.compose(first.Namespace)
		return
	}
	w.gang(first.Namespace, groupName, w.members, nil)
}

// standGangs makes groups of pods with a node, which are preempted as a group or one by one.
func (w *world) standGangs() {
	if !w.has["evictions"] {
		return
	}
	for i := range w.between(0, 3) {
		var pods []*corev1.Pod
		for _, pod := range w.pods {
			isOther := pod.Spec.NodeName == "" || pod.Spec.SchedulingGroup != nil
			isOther = isOther || len(pods) > 0 && (pod.Namespace != pods[0].Namespace || pod.Spec.PriorityClassName != pods[0].Spec.PriorityClassName)
			if !isOther && len(pods) < 4 && w.chance(60) {
				pods = append(pods, pod)
			}
		}
		if len(pods) == 0 {
			return
		}
		name := "standing-" + string(rune('a'+i))
		group := add(w, "scheduling.k8s.io/v1beta1", "PodGroup", &schedulingv1beta1.PodGroup{ObjectMeta: within(pods[0].Namespace, name)})
		group.Spec.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
		switch {
		case w.chance(60):
			group.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
		case w.chance(50):
			group.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{Single: &schedulingv1beta1.SingleDisruptionMode{}}
		}
		for _, pod := range pods {
			pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: pointer(name)}
		}
		w.standing = append(w.standing, standing{group, pods[0]})
	}
}

// standing is a group of pods with a node, and one of them.
type standing struct {
	group *schedulingv1beta1.PodGroup
	pod   *corev1.Pod
}

// gang adds a pod group for some of the members.
func (w *world) gang(namespace, name string, members []*corev1.Pod, parent *string) {
	group := add(w, "scheduling.k8s.io/v1beta1", "PodGroup", &schedulingv1beta1.PodGroup{
		ObjectMeta: within(namespace, name),
		Spec:       schedulingv1beta1.PodGroupSpec{ParentCompositePodGroupName: parent},
	})
	w.gangs = append(w.gangs, group)
	for _, pod := range members {
		pod.Spec.SchedulingGroup.PodGroupName = pointer(name)
	}
	w.share(group, members)
	if key := w.constraint(); key != "" {
		group.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{
			Topology: []schedulingv1beta1.TopologyConstraint{{Key: key}},
		}
	}
	if w.chance(15) {
		group.Spec.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
		return
	}
	least := max(1, len(members))
	if w.chance(40) {
		least = w.between(1, least)
	}
	group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(least)}
}

// constraint is the topology key of a group's constraint; empty for none.
func (w *world) constraint() string {
	if !w.has["topology"] || !w.chance(80) {
		return ""
	}
	return pick(w.dice, "rack", "rack", corev1.LabelTopologyZone, "generation", corev1.LabelHostname, "nowhere")
}

// compose adds a composite group with some pod groups below it, half of them below another one between.
func (w *world) compose(namespace string) {
	root, between := "root", "between"
	children := map[string]int{root: 0}
	groups := w.between(1, 3)
	for i := range groups {
		parent := root
		if w.chance(40) {
			parent = between
		}
		children[parent]++
		name := groupName + string(rune('a'+i))
		w.gang(namespace, name, w.members[i*len(w.members)/groups:(i+1)*len(w.members)/groups], &parent)
	}
	if children[between] > 0 {
		children[root]++
		w.composite(namespace, between, children[between], &root)
	}
	w.composite(namespace, root, children[root], nil)
}

func (w *world) composite(namespace, name string, children int, parent *string) {
	group := add(w, "scheduling.k8s.io/v1alpha3", "CompositePodGroup", &schedulingv1alpha3.CompositePodGroup{
		ObjectMeta: within(namespace, name),
		Spec: schedulingv1alpha3.CompositePodGroupSpec{
			ParentCompositePodGroupName: parent,
			WorkloadRef:                 &schedulingv1alpha3.WorkloadReference{WorkloadName: "workload", TemplateName: name},
		},
	})
	w.composites = append(w.composites, group)
	if key := w.constraint(); key != "" && w.chance(60) {
		group.Spec.SchedulingConstraints = &schedulingv1alpha3.CompositePodGroupSchedulingConstraints{
			Topology: []schedulingv1alpha3.TopologyConstraint{{Key: key}},
		}
	}
	if w.chance(15) {
		group.Spec.SchedulingPolicy.Basic = &schedulingv1alpha3.CompositeBasicSchedulingPolicy{}
		return
	}
	least := children
	if w.chance(50) {
		least = w.between(1, least)
	}
	group.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: int32(least)}
}

// rank sets the priority of the groups to that of their pods.
func (w *world) rank() {
	for _, group := range w.gangs {
		group.Spec.Priority = w.members[0].Spec.Priority
	}
	for _, standing := range w.standing {
		standing.group.Spec.Priority = standing.pod.Spec.Priority
	}
	for _, group := range w.composites {
		group.Spec.Priority = w.members[0].Spec.Priority
	}
}
