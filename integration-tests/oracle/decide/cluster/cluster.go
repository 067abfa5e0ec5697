// Package cluster reads a cluster from files, and applies the API server's defaults. It does not depend on scheduling.
package cluster

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	compresource "k8s.io/component-helpers/resource"
	"k8s.io/kubernetes/pkg/features"
)

// Cluster is the contents of the files.
type Cluster struct {
	// Objects are all objects except pods, in the order of the files, in the version of the scheduler's informers.
	Objects []runtime.Object
	// Pods are the unfinished pods in the order of the files, without ignored ones.
	Pods []*corev1.Pod
	// Warnings describe ignored or unusual objects.
	Warnings []string
}

// Reading is how files are read.
type Reading struct {
	// AsIs keeps objects unchanged, except for required names: objects from an API server are complete, including intentionally missing
	// fields.
	AsIs bool
}

// Load reads files into one cluster.
func Load(paths []string, reading Reading) (*Cluster, error) {
	loaded := &Cluster{}
	var objects []runtime.Object
	for _, path := range paths {
		found, warnings, err := readFile(path)
		if err != nil {
			return nil, err
		}
		loaded.Warnings = append(loaded.Warnings, warnings...)
		objects = append(objects, found...)
	}
	return New(objects, reading, loaded.Warnings)
}

// New creates a cluster from objects, which it changes.
func New(objects []runtime.Object, reading Reading, warnings []string) (*Cluster, error) {
	made := &Cluster{Warnings: warnings}
	if err := fillIn(objects, reading); err != nil {
		return nil, err
	}
	if err := checkNames(objects); err != nil {
		return nil, err
	}
	if !reading.AsIs {
		objects = append(objects, missingNamespaces(objects)...)
	}
	made.Warnings = append(made.Warnings, invalid(objects)...)
	nodes := nodeNames(objects)
	for _, object := range objects {
		pod, isPod := object.(*corev1.Pod)
		if !isPod {
			made.Objects = append(made.Objects, object)
			continue
		}
		if warning, isUsed := classify(pod, nodes); isUsed {
			made.Pods = append(made.Pods, pod)
		} else if warning != "" {
			made.Warnings = append(made.Warnings, warning)
		}
	}
	return made, nil
}

// classify returns whether the scheduler sees the pod, and a warning if that is unexpected. The scheduler does not watch finished pods, and
// skips terminating pending pods.
func classify(pod *corev1.Pod, nodes map[string]bool) (string, bool) {
	switch {
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return "", false
	case pod.Spec.NodeName != "" && !nodes[pod.Spec.NodeName]:
		return fmt.Sprintf("pod %s/%s is on node %q, which is not in the files; it is left out",
			pod.Namespace, pod.Name, pod.Spec.NodeName), false
	case pod.Spec.NodeName == "" && pod.DeletionTimestamp != nil:
		return fmt.Sprintf("pod %s/%s is being deleted; it is left out", pod.Namespace, pod.Name), false
	}
	return "", true
}

// Pending are the pods to schedule, in the order of the files: those without a node, and with the feature gate those with a
// deferred resize.
func (c *Cluster) Pending() []*corev1.Pod {
	triesResizes := utilfeature.DefaultFeatureGate.Enabled(features.InPlacePodVerticalScalingSchedulerPreemption)
	return slices.DeleteFunc(slices.Clone(c.Pods), func(pod *corev1.Pod) bool {
		isResized := triesResizes && pod.DeletionTimestamp == nil && compresource.IsPodResizeDeferred(pod)
		return pod.Spec.NodeName != "" && !isResized
	})
}

func nodeNames(objects []runtime.Object) map[string]bool {
	names := map[string]bool{}
	for _, object := range objects {
		if node, ok := object.(*corev1.Node); ok {
			names[node.Name] = true
		}
	}
	return names
}

// checkNames rejects objects that no API server could store: without a name, or with duplicate names or pod UIDs.
func checkNames(objects []runtime.Object) error {
	names, uids := map[string]bool{}, map[string]bool{}
	for _, object := range objects {
		metadata, err := meta.Accessor(object)
		if err != nil {
			return err
		}
		kind := object.GetObjectKind().GroupVersionKind().Kind
		if metadata.GetName() == "" {
			return fmt.Errorf("a %s has no metadata.name; expected one", kind)
		}
		key := kind + " " + metadata.GetNamespace() + "/" + metadata.GetName()
		if names[key] {
			return fmt.Errorf("a second %s; expected each name once", key)
		}
		names[key] = true
		if kind != "Pod" {
			continue
		}
		uid := string(metadata.GetUID())
		if uids[uid] {
			return fmt.Errorf("%s has the metadata.uid of another pod, %q; expected one of its own, or none", key, uid)
		}
		uids[uid] = true
	}
	return nil
}

// missingNamespaces are the namespaces of objects that are not among the objects.
func missingNamespaces(objects []runtime.Object) []runtime.Object {
	known := map[string]bool{"": true}
	for _, object := range objects {
		if namespace, ok := object.(*corev1.Namespace); ok {
			known[namespace.Name] = true
		}
	}
	var missing []runtime.Object
	for _, object := range objects {
		metadata, err := meta.Accessor(object)
		if err != nil || known[metadata.GetNamespace()] {
			continue
		}
		known[metadata.GetNamespace()] = true
		namespace := &corev1.Namespace{}
		namespace.Name = metadata.GetNamespace()
		namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		fillObject(namespace, false)
		missing = append(missing, namespace)
	}
	return missing
}

// builtIn are the priority classes of every cluster.
var builtIn = map[string]int32{
	"system-cluster-critical": 2_000_000_000,
	"system-node-critical":    2_000_001_000,
}

// priorities are the effects of priority classes on pods.
type priorities struct {
	values   map[string]int32
	policies map[string]*corev1.PreemptionPolicy
	global   *schedulingv1.PriorityClass
}

func collectPriorities(objects []runtime.Object) (priorities, error) {
	collected := priorities{values: map[string]int32{}, policies: map[string]*corev1.PreemptionPolicy{}}
	for name, value := range builtIn {
		collected.values[name] = value
	}
	for _, object := range objects {
		class, ok := object.(*schedulingv1.PriorityClass)
		if !ok {
			continue
		}
		collected.values[class.Name] = class.Value
		collected.policies[class.Name] = class.PreemptionPolicy
		if !class.GlobalDefault {
			continue
		}
		if collected.global != nil {
			return collected, fmt.Errorf("PriorityClass %s is a second globalDefault beside %s; expected one at most",
				class.Name, collected.global.Name)
		}
		collected.global = class
	}
	return collected, nil
}
