package main

// Affinity of pods to nodes and to other pods.

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// attract restricts a pod to some nodes.
func (w *world) attract(pod *corev1.Pod) {
	if w.chance(25) {
		pod.Spec.NodeSelector = map[string]string{"disk": pick(w.dice, "ssd", "hdd")}
		if w.chance(20) {
			pod.Spec.NodeSelector[corev1.LabelTopologyZone] = pick(w.dice, zones...)
		}
	}
	affinity := &corev1.NodeAffinity{}
	if w.chance(45) {
		terms := &corev1.NodeSelector{}
		for range w.between(1, 2) {
			terms.NodeSelectorTerms = append(terms.NodeSelectorTerms, w.nodeTerm())
		}
		if w.chance(25) {
			terms.NodeSelectorTerms = w.byName()
		}
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = terms
	}
	for range w.between(0, 3) {
		affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(
			affinity.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.PreferredSchedulingTerm{Weight: int32(pick(w.dice, 1, 3, 50, 100)), Preference: w.nodeTerm()})
	}
	affinityOf(pod).NodeAffinity = affinity
}

func affinityOf(pod *corev1.Pod) *corev1.Affinity {
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	return pod.Spec.Affinity
}

func (w *world) nodeTerm() corev1.NodeSelectorTerm {
	if w.has["odd"] && w.chance(6) {
		return corev1.NodeSelectorTerm{}
	}
	term := corev1.NodeSelectorTerm{}
	for range w.between(1, 2) {
		term.MatchExpressions = append(term.MatchExpressions, w.nodeRequirement())
	}
	if w.chance(10) && len(w.nodes) > 0 {
		term.MatchFields = []corev1.NodeSelectorRequirement{{
			Key:      metav1.ObjectNameField,
			Operator: pick(w.dice, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn),
			Values:   []string{pick(w.dice, w.nodes...).Name},
		}}
	}
	return term
}

func (w *world) nodeRequirement() corev1.NodeSelectorRequirement {
	switch w.Intn(8) {
	case 0:
		return corev1.NodeSelectorRequirement{Key: "generation", Operator: corev1.NodeSelectorOpGt, Values: []string{pick(w.dice, "1", "6", "0")}}
	case 1:
		return corev1.NodeSelectorRequirement{Key: "generation", Operator: corev1.NodeSelectorOpLt, Values: []string{pick(w.dice, "8", "2")}}
	case 2:
		return corev1.NodeSelectorRequirement{Key: pick(w.dice, "rack", "disk", "nowhere"), Operator: corev1.NodeSelectorOpExists}
	case 3:
		return corev1.NodeSelectorRequirement{Key: pick(w.dice, "rack", "generation"), Operator: corev1.NodeSelectorOpDoesNotExist}
	case 4:
		return corev1.NodeSelectorRequirement{Key: "rack", Operator: corev1.NodeSelectorOpNotIn, Values: []string{pick(w.dice, "a", "b", "")}}
	case 5:
		return corev1.NodeSelectorRequirement{Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{pick(w.dice, "ssd", "hdd")}}
	default:
		return corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: some(w.dice, 1, 2, zones...)}
	}
}

// byName restricts a pod to nodes by name, like a DaemonSet's pods or in unusual ways.
func (w *world) byName() []corev1.NodeSelectorTerm {
	name := func() string {
		if len(w.nodes) == 0 || w.chance(15) {
			return "gone"
		}
		return pick(w.dice, w.nodes...).Name
	}
	one := func() corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{name()}}
	}
	terms := []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{one()}}}
	if w.chance(30) {
		terms[0].MatchFields = append(terms[0].MatchFields, one())
	}
	if w.chance(40) {
		terms = append(terms, corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{one()}})
	}
	if w.chance(20) {
		terms[0].MatchExpressions = []corev1.NodeSelectorRequirement{w.nodeRequirement()}
	}
	return terms
}

var topologyKeys = []string{
	corev1.LabelHostname, corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyZone,
	corev1.LabelTopologyRegion, "rack",
}

func (w *world) topologyKey() string {
	if w.chance(5) {
		return "example.com/nowhere"
	}
	return pick(w.dice, topologyKeys...)
}

// befriend adds inter-pod affinity terms.
func (w *world) befriend(pod *corev1.Pod) {
	affinity := affinityOf(pod)
	for range w.between(1, 2) {
		switch w.Intn(7) {
		case 0, 1:
			if affinity.PodAffinity == nil {
				affinity.PodAffinity = &corev1.PodAffinity{}
			}
			affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(
				affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, w.podTerm(pod))
		case 2, 3:
			if affinity.PodAffinity == nil {
				affinity.PodAffinity = &corev1.PodAffinity{}
			}
			affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(
				affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, w.weighted(pod))
		case 4:
			if affinity.PodAntiAffinity == nil {
				affinity.PodAntiAffinity = &corev1.PodAntiAffinity{}
			}
			affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(
				affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, w.podTerm(pod))
		default:
			if affinity.PodAntiAffinity == nil {
				affinity.PodAntiAffinity = &corev1.PodAntiAffinity{}
			}
			affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(
				affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, w.weighted(pod))
		}
	}
}

func (w *world) weighted(pod *corev1.Pod) corev1.WeightedPodAffinityTerm {
	return corev1.WeightedPodAffinityTerm{
		Weight:          int32(pick(w.dice, 1, 5, 30, 100)),
		PodAffinityTerm: w.podTerm(pod),
	}
}

func (w *world) podTerm(pod *corev1.Pod) corev1.PodAffinityTerm {
	term := corev1.PodAffinityTerm{TopologyKey: w.topologyKey(), LabelSelector: w.selector(pod)}
	if w.chance(15) {
		term.Namespaces = some(w.dice, 1, 2, "default", "team-a", "team-b", "gone")
	}
	switch {
	case w.chance(8):
		term.NamespaceSelector = &metav1.LabelSelector{}
	case w.chance(10):
		term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": pick(w.dice, "prod", "dev")}}
	case w.chance(5):
		term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "team-a"}}
	}
	if term.LabelSelector != nil && w.chance(12) {
		term.MatchLabelKeys = w.unused(term.LabelSelector)
	}
	if term.LabelSelector != nil && len(term.MatchLabelKeys) == 0 && w.chance(12) {
		term.MismatchLabelKeys = w.unused(term.LabelSelector)
	}
	return term
}

// selector selects pods: often the pod's own kind, sometimes nothing (no selector) or everything (an empty one).
func (w *world) selector(pod *corev1.Pod) *metav1.LabelSelector {
	if w.chance(4) {
		return nil
	}
	if w.chance(6) {
		return &metav1.LabelSelector{}
	}
	switch w.Intn(6) {
	case 0:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: some(w.dice, 1, 2, "web", "db", "cache")},
		}}
	case 1:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "tier", Operator: metav1.LabelSelectorOpNotIn, Values: []string{pick(w.dice, "front", "back")}},
		}}
	case 2:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{
				Key:      pick(w.dice, "tier", "tier", "index"),
				Operator: pick(w.dice, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist),
			},
		}}
	case 3:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(w.dice, "web", "db", "cache")}}
	}
	app, has := pod.Labels["app"]
	if !has {
		app = "web"
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// unused are label keys outside of the selector, which pods may or may not have.
func (w *world) unused(selector *metav1.LabelSelector) []string {
	key := pick(w.dice, "version", "version", "nobody")
	if _, has := selector.MatchLabels[key]; has {
		return nil
	}
	return []string{key}
}
