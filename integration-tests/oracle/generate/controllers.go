package main

// Objects related to pods: controllers, Services, priority classes and disruption budgets.

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func (w *world) addControllers() {
	if !w.has["controllers"] {
		return
	}
	template := func(labels map[string]string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "busybox:latest"}}},
		}
	}
	// No controller creates further pods.
	none := pointer(int32(0))
	for _, namespace := range w.namespaces {
		web, db, cache := map[string]string{"app": "web"}, map[string]string{"app": "db"}, map[string]string{"app": "cache"}
		if w.chance(60) {
			service := add(w, "v1", "Service", &corev1.Service{ObjectMeta: within(namespace, "web")})
			service.Spec.Selector = map[string]string{"app": pick(w.dice, "web", "db")}
		}
		if w.chance(20) {
			add(w, "v1", "Service", &corev1.Service{ObjectMeta: within(namespace, "without-selector")})
		}
		set := add(w, "apps/v1", "ReplicaSet", &appsv1.ReplicaSet{ObjectMeta: within(namespace, "web")})
		set.Spec.Replicas, set.Spec.Selector, set.Spec.Template = none, &metav1.LabelSelector{MatchLabels: web}, template(web)
		stateful := add(w, "apps/v1", "StatefulSet", &appsv1.StatefulSet{ObjectMeta: within(namespace, "db")})
		stateful.Spec.Replicas, stateful.Spec.Template = none, template(db)
		stateful.Spec.Selector = &metav1.LabelSelector{MatchLabels: db}
		old := add(w, "v1", "ReplicationController", &corev1.ReplicationController{ObjectMeta: within(namespace, "cache")})
		old.Spec.Replicas, old.Spec.Selector, old.Spec.Template = none, cache, pointer(template(cache))
	}
}

// own makes a controller the owner of a pod.
func (w *world) own(pod *corev1.Pod) {
	owners := map[string]metav1.OwnerReference{
		"web":   {APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web"},
		"db":    {APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db"},
		"cache": {APIVersion: "v1", Kind: "ReplicationController", Name: "cache"},
	}
	owner, has := owners[pod.Labels["app"]]
	if !has {
		return
	}
	owner.UID, owner.Controller = types.UID(pod.Namespace+"/"+owner.Name), pointer(true)
	pod.OwnerReferences = []metav1.OwnerReference{owner}
}

func (w *world) addPriorities() {
	if !w.has["priorities"] {
		return
	}
	add(w, "scheduling.k8s.io/v1", "PriorityClass", &schedulingv1.PriorityClass{ObjectMeta: named("high"), Value: 1000})
	low := add(w, "scheduling.k8s.io/v1", "PriorityClass", &schedulingv1.PriorityClass{ObjectMeta: named("low"), Value: -5})
	if w.chance(30) {
		never := corev1.PreemptNever
		low.GlobalDefault, low.PreemptionPolicy = true, &never
	}
	budget := add(w, "policy/v1", "PodDisruptionBudget", &policyv1.PodDisruptionBudget{ObjectMeta: within("default", "web")})
	budget.Spec.MinAvailable = pointer(intstr.FromInt32(1))
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
}

func (w *world) prioritise(pod *corev1.Pod) {
	pod.Spec.PriorityClassName = pick(w.dice, "", "", "high", "low")
	if w.chance(5) {
		pod.Spec.PriorityClassName = "system-cluster-critical"
	}
}
