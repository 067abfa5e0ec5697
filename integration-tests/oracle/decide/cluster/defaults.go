package cluster

// Defaults of the API server: API defaults, the admission plugins that affect scheduling, and a kubelet's status of its node.
// `flotilla simulate` sets the same defaults; the oracle's README.md lists the differences.
//
//   - All objects: the API server's defaults of their kind (SetObjectDefaults), such as schedulerName, requests from
//     limits, host ports of the host's network, protocol TCP, and the label kubernetes.io/metadata.name of a namespace.
//   - Namespaced objects without a namespace are in "default". Objects without a UID get their name as UID.
//   - Pods: pod-level requests (DefaultPodLevelResources), priority and preemptionPolicy of the priority class if the pod has
//     no priority (admission plugin Priority), and tolerations of 300 seconds for nodes that are not ready or unreachable
//     (admission plugin DefaultTolerationSeconds).
//   - Nodes: the label kubernetes.io/hostname, allocatable from capacity, and 110 pods.
//
// With --as-is only namespace, UID and kind are set.

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"

	// Registers the defaults of these groups.
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
)

// clusterWide are the cluster-scoped kinds.
var clusterWide = map[string]bool{
	"Node":             true,
	"Namespace":        true,
	"PersistentVolume": true,
	"StorageClass":     true,
	"CSINode":          true,
	"CSIDriver":        true,
	"VolumeAttachment": true,
	"PriorityClass":    true,
	"ResourceSlice":    true,
	"DeviceClass":      true,
}

func typeOf(version, kind string) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(version, kind)
}

// fillIn completes all objects.
func fillIn(objects []runtime.Object, reading Reading) error {
	for _, object := range objects {
		// name sets a UID.
		isNew := isOfNoCluster(object)
		if err := name(object); err != nil {
			return err
		}
		if !reading.AsIs {
			fillObject(object, isNew)
		}
	}
	if reading.AsIs {
		return nil
	}
	known, err := collectPriorities(objects)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			if err := prioritise(pod, known); err != nil {
				return err
			}
		}
	}
	return nil
}

// Complete applies an API server's defaults for new objects in place.
func Complete(objects []runtime.Object) error {
	return fillIn(objects, Reading{})
}

// name sets an object's identifying fields.
func name(object runtime.Object) error {
	metadata, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	key := metadata.GetName()
	if !clusterWide[object.GetObjectKind().GroupVersionKind().Kind] {
		if metadata.GetNamespace() == "" {
			metadata.SetNamespace(corev1.NamespaceDefault)
		}
		key = metadata.GetNamespace() + "/" + key
	}
	if metadata.GetUID() == "" {
		metadata.SetUID(types.UID(key))
	}
	return nil
}

func isOfNoCluster(object runtime.Object) bool {
	metadata, err := meta.Accessor(object)
	return err == nil && metadata.GetUID() == "" && metadata.GetResourceVersion() == ""
}

func fillObject(object runtime.Object, isNew bool) {
	legacyscheme.Scheme.Default(object)
	switch object := object.(type) {
	case *corev1.Pod:
		fillPod(object)
	case *corev1.Node:
		fillNode(object, isNew)
	}
}

func fillPod(pod *corev1.Pod) {
	if pod.Spec.Resources != nil {
		// The API server sets these on its internal type, after all admission plugins.
		var internal core.Pod
		var filled corev1.Pod
		if legacyscheme.Scheme.Convert(pod, &internal, nil) == nil {
			podutil.DefaultPodLevelResources(&internal)
			if legacyscheme.Scheme.Convert(&internal, &filled, nil) == nil {
				pod.Spec.Resources = filled.Spec.Resources
			}
		}
	}
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !tolerates(pod, key) {
			seconds := int64(300)
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key:               key,
				Operator:          corev1.TolerationOpExists,
				Effect:            corev1.TaintEffectNoExecute,
				TolerationSeconds: &seconds,
			})
		}
	}
}

func tolerates(pod *corev1.Pod, key string) bool {
	for _, toleration := range pod.Spec.Tolerations {
		isForKey := toleration.Key == key || toleration.Key == ""
		isForEffect := toleration.Effect == corev1.TaintEffectNoExecute || toleration.Effect == ""
		if isForKey && isForEffect {
			return true
		}
	}
	return false
}

func prioritise(pod *corev1.Pod, known priorities) error {
	if pod.Spec.Priority != nil {
		return nil
	}
	if pod.Spec.PriorityClassName == "" && known.global != nil {
		pod.Spec.PriorityClassName = known.global.Name
	}
	value, isKnown := int32(0), true
	if class := pod.Spec.PriorityClassName; class != "" {
		value, isKnown = known.values[class]
	}
	if !isKnown {
		return fmt.Errorf("pod %s/%s: no PriorityClass with name %s was found",
			pod.Namespace, pod.Name, pod.Spec.PriorityClassName)
	}
	pod.Spec.Priority = &value
	if policy := known.policies[pod.Spec.PriorityClassName]; pod.Spec.PreemptionPolicy == nil && policy != nil {
		pod.Spec.PreemptionPolicy = policy
	} else if pod.Spec.PreemptionPolicy == nil {
		lower := corev1.PreemptLowerPriority
		pod.Spec.PreemptionPolicy = &lower
	}
	return nil
}

// fillNode adds the label and the number of pods that the kubelet would report, if no cluster has had the node.
func fillNode(node *corev1.Node, isNew bool) {
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	if _, has := node.Labels[corev1.LabelHostname]; !has && isNew {
		node.Labels[corev1.LabelHostname] = node.Name
	}
	if len(node.Status.Allocatable) == 0 {
		node.Status.Allocatable = node.Status.Capacity.DeepCopy()
	}
	if node.Status.Allocatable == nil || !isNew {
		return
	}
	if _, has := node.Status.Allocatable[corev1.ResourcePods]; !has {
		pods, isTold := node.Status.Capacity[corev1.ResourcePods]
		if !isTold {
			pods = resource.MustParse("110")
		}
		node.Status.Allocatable[corev1.ResourcePods] = pods
	}
}
