package main

// Claims that pods share with their pod group.

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// share adds up to two claims to a group, by name or from a template, and to most of its members. Some members list a claim of the group
// under another name, so that it is reserved for the pod. A member has at most one claim without an allocation: upstream confuses the
// devices of a shared claim with those of a later one.
func (w *world) share(group *schedulingv1beta1.PodGroup, members []*corev1.Pod) {
	if !w.has["shared"] || !w.has["claims"] || !w.chance(90) {
		return
	}
	for _, pod := range members {
		pod.Spec.ResourceClaims, pod.Spec.Containers[0].Resources.Claims = nil, nil
	}
	for i, name := range some(w.dice, 1, 2, "first", "second") {
		entry := schedulingv1beta1.PodGroupResourceClaim{Name: name}
		var made *string
		if w.chance(60) {
			made = &w.generated(group, name, i > 0 || w.chance(30)).Name
			entry.ResourceClaimTemplateName = pointer("template")
			group.Status.ResourceClaimStatuses = append(group.Status.ResourceClaimStatuses,
				schedulingv1beta1.PodGroupResourceClaimStatus{Name: name, ResourceClaimName: made})
		} else {
			entry.ResourceClaimName = pointer("taken")
			if i == 0 {
				entry.ResourceClaimName = pointer(pick(w.dice, "single", "double", "taken", "large", "picky"))
			}
		}
		group.Spec.ResourceClaims = append(group.Spec.ResourceClaims, entry)
		for _, pod := range members {
			if w.chance(15) {
				continue
			}
			own := corev1.PodResourceClaim{
				Name: name, ResourceClaimName: entry.ResourceClaimName, ResourceClaimTemplateName: entry.ResourceClaimTemplateName,
			}
			if w.chance(10) {
				own.Name = "own-" + name
			}
			pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, own)
			claims := &pod.Spec.Containers[0].Resources.Claims
			*claims = append(*claims, corev1.ResourceClaim{Name: own.Name})
			if made != nil {
				pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses,
					corev1.PodResourceClaimStatus{Name: own.Name, ResourceClaimName: made})
			}
		}
	}
}

// generated is the claim that the resource claim controller creates for a group. A few belong to another object.
func (w *world) generated(group *schedulingv1beta1.PodGroup, name string, isAllocated bool) *resourcev1.ResourceClaim {
	claim := add(w, "resource.k8s.io/v1", "ResourceClaim", &resourcev1.ResourceClaim{
		ObjectMeta: within(group.Namespace, group.Name+"-"+name),
	})
	claim.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: schedulingv1beta1.SchemeGroupVersion.String(), Kind: "PodGroup", Name: group.Name,
		UID: types.UID(group.Namespace + "/" + group.Name), Controller: pointer(true),
	}}
	if w.chance(3) {
		claim.OwnerReferences[0].Name = "former"
	}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{exactly("devices", int64(w.between(1, 2)))}
	if w.chance(30) {
		claim.Spec.Devices.Requests = demanding[pick(w.dice, "large", "roomy", "all", "patient", "picky")]
	}
	if isAllocated && len(w.nodes) > 0 {
		w.allocate(claim)
		claim.Status.Allocation.Devices.Results[0].Device = claim.Name
		if w.chance(60) {
			claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{
				APIGroup: schedulingv1beta1.GroupName, Resource: "podgroups", Name: group.Name, UID: types.UID(group.Namespace + "/" + group.Name),
			}}
		}
	}
	return claim
}
