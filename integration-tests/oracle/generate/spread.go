package main

// Topology spread constraints as the API server stores them.

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// spread adds constraints with unique pairs of topology key and action.
func (w *world) spread(pod *corev1.Pod) {
	type pair struct {
		key    string
		action corev1.UnsatisfiableConstraintAction
	}
	seen := map[pair]bool{}
	for range w.between(1, 3) {
		constraint := corev1.TopologySpreadConstraint{
			MaxSkew:           int32(pick(w.dice, 1, 1, 2, 5)),
			TopologyKey:       w.topologyKey(),
			WhenUnsatisfiable: pick(w.dice, corev1.DoNotSchedule, corev1.ScheduleAnyway),
			LabelSelector:     w.selector(pod),
		}
		chosen := pair{constraint.TopologyKey, constraint.WhenUnsatisfiable}
		if seen[chosen] {
			continue
		}
		seen[chosen] = true
		if constraint.WhenUnsatisfiable == corev1.DoNotSchedule && w.chance(25) {
			constraint.MinDomains = pointer(int32(w.between(1, 5)))
		}
		if w.chance(25) {
			constraint.NodeAffinityPolicy = pointer(pick(w.dice, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore))
		}
		if w.chance(25) {
			constraint.NodeTaintsPolicy = pointer(pick(w.dice, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore))
		}
		keys := 20
		if w.has["operators"] {
			keys = 60
		}
		if constraint.LabelSelector != nil && w.chance(keys) {
			constraint.MatchLabelKeys = w.unused(constraint.LabelSelector)
		}
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, constraint)
	}
}

// mergeLabelKeys merges matchLabelKeys and mismatchLabelKeys into the selectors, as the API server does for new pods. A scheduler reads
// only the selectors.
func mergeLabelKeys(pod *corev1.Pod) {
	merge := func(selector *metav1.LabelSelector, keys []string, operator metav1.LabelSelectorOperator) {
		for _, key := range keys {
			if value, has := pod.Labels[key]; has && selector != nil {
				selector.MatchExpressions = append(selector.MatchExpressions,
					metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}})
			}
		}
	}
	for _, constraint := range pod.Spec.TopologySpreadConstraints {
		merge(constraint.LabelSelector, constraint.MatchLabelKeys, metav1.LabelSelectorOpIn)
	}
	for _, term := range podTerms(pod) {
		merge(term.LabelSelector, term.MatchLabelKeys, metav1.LabelSelectorOpIn)
		merge(term.LabelSelector, term.MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
	}
}

func podTerms(pod *corev1.Pod) []corev1.PodAffinityTerm {
	var terms []corev1.PodAffinityTerm
	take := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		terms = append(terms, required...)
		for _, weighted := range preferred {
			terms = append(terms, weighted.PodAffinityTerm)
		}
	}
	if affinity := pod.Spec.Affinity; affinity != nil {
		if with := affinity.PodAffinity; with != nil {
			take(with.RequiredDuringSchedulingIgnoredDuringExecution, with.PreferredDuringSchedulingIgnoredDuringExecution)
		}
		if apart := affinity.PodAntiAffinity; apart != nil {
			take(apart.RequiredDuringSchedulingIgnoredDuringExecution, apart.PreferredDuringSchedulingIgnoredDuringExecution)
		}
	}
	return terms
}
