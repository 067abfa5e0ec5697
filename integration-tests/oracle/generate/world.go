package main

// The parts of a case and their random order.

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flotilla/integration-tests/oracle/decide/cluster"
)

// world is a case under construction.
type world struct {
	dice
	// has are the features of this case: some of the requested ones.
	has        map[string]bool
	nodes      []*corev1.Node
	pods       []*corev1.Pod
	objects    []runtime.Object
	namespaces []string
	// claims are the claim names of each namespace.
	claims map[string][]string
	// hasRivals: two device classes serve one extended resource.
	hasRivals bool
	// schedulers are the names of the profiles of this case.
	schedulers    []string
	configuration *configuration
	// gangs and composites are the pod groups of this case, with all their pods.
	gangs      []*schedulingv1beta1.PodGroup
	standing   []standing
	composites []*schedulingv1alpha3.CompositePodGroup
	members    []*corev1.Pod
}

// add stores an object.
func add[T runtime.Object](w *world, version, kind string, object T) T {
	object.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(version, kind))
	w.objects = append(w.objects, object)
	return object
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func within(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// generate makes the case of a seed, complete as an API server stores it. It fails if the API server would reject an object.
func generate(seed int64, asked []string) (*world, error) {
	w := &world{dice: newDice(seed), has: map[string]bool{}, claims: map[string][]string{}}
	w.chooseFeatures(asked)
	w.addNamespaces()
	w.addNodes()
	w.addPriorities()
	w.addPreemption()
	w.addControllers()
	w.addStorage()
	w.addDevices()
	w.addConfiguration()
	w.addPods()
	w.group()
	if err := w.complete(); err != nil {
		return nil, fmt.Errorf("seed %d: %w", seed, err)
	}
	return w, nil
}

// chooseFeatures takes each requested feature in more than half of the cases, and sometimes only a few of them; if few are requested, all.
func (w *world) chooseFeatures(asked []string) {
	if len(asked) > 3 && w.chance(15) && !slices.Contains(asked, "groups") {
		for _, feature := range some(w.dice, 1, 2, asked...) {
			w.has[feature] = true
		}
		return
	}
	for _, feature := range asked {
		if slices.Contains(apart, feature) {
			w.has[feature] = true
			continue
		}
		isTaken := w.chance(60)
		w.has[feature] = isTaken || len(asked) <= 3
	}
	w.has["preemption"] = w.has["preemption"] || w.has["evictions"]
	if w.has["configuration"] && len(asked) > 3 {
		w.has["configuration"] = w.chance(55)
	}
}

func (w *world) addNamespaces() {
	w.namespaces = []string{"default"}
	if w.chance(75) {
		w.namespaces = append(w.namespaces, "team-a", "team-b")
	}
	for _, name := range w.namespaces {
		namespace := add(w, "v1", "Namespace", &corev1.Namespace{ObjectMeta: named(name)})
		if w.chance(80) {
			namespace.Labels = map[string]string{"env": pick(w.dice, "prod", "dev"), "team": name}
		}
	}
}

// complete applies the API server's defaults for new objects, and its validation.
func (w *world) complete() error {
	for _, pod := range w.pods {
		// An older API server leaves matchLabelKeys to the scheduler.
		if !w.has["operators"] || w.chance(50) {
			mergeLabelKeys(pod)
		}
	}
	if err := cluster.Complete(w.objects); err != nil {
		return err
	}
	w.rank()
	for _, node := range w.nodes {
		// A kubelet always sets the label; users may remove it.
		if node.Annotations["oracle/hostname"] == "missing" {
			delete(node.Labels, corev1.LabelHostname)
		}
		node.Annotations = nil
	}
	for _, object := range w.objects {
		if err := cluster.Validate(object); err != nil {
			return fmt.Errorf("%s: %w", object.GetObjectKind().GroupVersionKind().Kind, err)
		}
	}
	return nil
}
