package cluster

// The API server's validation.

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
)

// SetGates sets feature gates of this process, as --feature-gates of kube-scheduler and of the API server.
func SetGates(gates string) error {
	return utilfeature.DefaultMutableFeatureGate.Set(gates)
}

// Validate returns the API server's error for a new pod, node, volume or claim; other kinds are accepted.
func Validate(object runtime.Object) error {
	switch object := object.(type) {
	case *corev1.Pod:
		var pod core.Pod
		if err := legacyscheme.Scheme.Convert(object, &pod, nil); err != nil {
			return err
		}
		options := podutil.GetValidationOptionsFromPodSpecAndMeta(&pod.Spec, nil, &pod.ObjectMeta, nil)
		options.ResourceIsPod = true
		return validation.ValidatePodCreate(&pod, options).ToAggregate()
	case *corev1.Node:
		return check(object, &core.Node{}, validation.ValidateNode)
	case *corev1.Namespace:
		return check(object, &core.Namespace{}, validation.ValidateNamespace)
	case *corev1.PersistentVolume:
		return check(object, &core.PersistentVolume{}, func(volume *core.PersistentVolume) field.ErrorList {
			return validation.ValidatePersistentVolume(volume, validation.ValidationOptionsForPersistentVolume(volume, nil))
		})
	case *corev1.PersistentVolumeClaim:
		return check(object, &core.PersistentVolumeClaim{}, func(claim *core.PersistentVolumeClaim) field.ErrorList {
			options := validation.ValidationOptionsForPersistentVolumeClaimCreate()
			return validation.ValidatePersistentVolumeClaim(claim, options)
		})
	}
	return nil
}

func check[T any](object, internal any, validate func(T) field.ErrorList) error {
	if err := legacyscheme.Scheme.Convert(object, internal, nil); err != nil {
		return err
	}
	return validate(internal.(T)).ToAggregate()
}

func invalid(objects []runtime.Object) []string {
	var warnings []string
	for _, object := range objects {
		if err := Validate(object); err != nil {
			kind := object.GetObjectKind().GroupVersionKind().Kind
			warnings = append(warnings, fmt.Sprintf("an API server would refuse this %s: %v", kind, err))
		}
	}
	return warnings
}
