package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// The driver and its volume limit per node are those of scheduler_perf's SchedulingCSIPVs.
const (
	driver         = "ebs.csi.aws.com"
	volumesPerNode = 39
	// boundMark is the volume controller's annotation on a bound claim.
	boundMark = "pv.kubernetes.io/bind-completed"
)

// fillVolumes creates the nodes' volume limits, and a bound volume and claim for each pod.
func fillVolumes(ctx context.Context, client *kubernetes.Clientset, s settings) error {
	err := inParallel(ctx, s.nodes, s.creators, func(ctx context.Context, index int) error {
		count := int32(volumesPerNode)
		node := &storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: nodeName(index)},
			Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
				Name: driver, NodeID: nodeName(index), Allocatable: &storagev1.VolumeNodeResources{Count: &count},
			}}},
		}
		_, err := client.StorageV1().CSINodes().Create(ctx, node, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot create a CSINode: %w", err)
	}
	err = inParallel(ctx, s.standing+s.pods, s.creators, func(ctx context.Context, index int) error {
		name := fmt.Sprintf("standing-%05d", index)
		if index >= s.standing {
			name = measuredName(index - s.standing)
		}
		return createVolume(ctx, client, name)
	})
	if err != nil {
		return fmt.Errorf("cannot create a volume and its claim: %w", err)
	}
	return nil
}

func createVolume(ctx context.Context, client *kubernetes.Clientset, name string) error {
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany}
	noClass := ""
	claim := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{boundMark: "true"}},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: modes, VolumeName: name, StorageClassName: &noClass,
			Resources: v1.VolumeResourceRequirements{Requests: size},
		},
	}
	made, err := client.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	volume := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			AccessModes: modes, Capacity: size, PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: v1.PersistentVolumeSource{
				CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name},
			},
			ClaimRef: &v1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "default", Name: name, UID: made.UID,
			},
		},
	}
	_, err = client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	return err
}

// claimed adds the claim of the pod's name.
func claimed(pod *v1.Pod) {
	source := &v1.PersistentVolumeClaimVolumeSource{ClaimName: pod.Name, ReadOnly: true}
	pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: source}}}
}
