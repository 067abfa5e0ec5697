package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// setSize is the number of pods of a StatefulSet or Job. The controller processes several in parallel, and the pods of one in batches.
const setSize = 100

// submit creates StatefulSets or indexed Jobs; their controllers create pods, each with a distinct label.
func submit(ctx context.Context, client *kubernetes.Clientset, controller string, s settings) error {
	sets := (s.pods + setSize - 1) / setSize
	return inParallel(ctx, sets, s.creators, func(ctx context.Context, index int) error {
		name := fmt.Sprintf("%s-%04d", controller, index)
		size := int32(min(setSize, s.pods-index*setSize))
		var err error
		if controller == "statefulset" {
			_, err = client.AppsV1().StatefulSets("default").Create(ctx, statefulSet(name, size), metav1.CreateOptions{})
		} else {
			_, err = client.BatchV1().Jobs("default").Create(ctx, indexedJob(name, size), metav1.CreateOptions{})
		}
		if err != nil {
			return fmt.Errorf("cannot create %s: %w", name, err)
		}
		return nil
	})
}

func template(labels map[string]string) v1.PodTemplateSpec {
	return v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec(small())}
}

func statefulSet(name string, size int32) *appsv1.StatefulSet {
	labels := map[string]string{roleLabel: roleMeasured, "app": name}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &size, PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template(labels),
		},
	}
}

func indexedJob(name string, size int32) *batchv1.Job {
	indexed := batchv1.IndexedCompletion
	made := template(map[string]string{roleLabel: roleMeasured, "app": name})
	made.Spec.RestartPolicy = v1.RestartPolicyNever
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: batchv1.JobSpec{
			Completions: &size, Parallelism: &size, CompletionMode: &indexed, Template: made,
		},
	}
}
