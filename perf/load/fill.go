package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// inParallel calls work for 0 to count-1 with limited concurrency, until one fails.
func inParallel(ctx context.Context, count, atOnce int, work func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(atOnce, count) {
		workers.Go(func() {
			for {
				index := int(next.Add(1)) - 1
				if index >= count || ctx.Err() != nil {
					return
				}
				if err := work(ctx, index); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// fill creates all objects before the scheduler starts. Existing pods are created on their nodes round-robin, so that every scheduler finds
// the same cluster.
func fill(ctx context.Context, client *kubernetes.Clientset, s settings) error {
	shape, err := shapeOf(s.shape)
	if err != nil {
		return err
	}
	for _, name := range shape.namespaces {
		namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("cannot create the namespace %s: %w", name, err)
		}
	}
	for name, value := range shape.priorities {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		if _, err := client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("cannot create the PriorityClass %s: %w", name, err)
		}
	}
	if shape.service != nil {
		services := client.CoreV1().Services(shape.service.Namespace)
		if _, err := services.Create(ctx, shape.service, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("cannot create the Service: %w", err)
		}
	}
	if err := fillNodes(ctx, client, shape, s); err != nil {
		return err
	}
	if shape.volumes {
		if err := fillVolumes(ctx, client, s); err != nil {
			return err
		}
	}
	if err := fillStanding(ctx, client, shape, s); err != nil {
		return err
	}
	if shape.nowhere == nil {
		return nil
	}
	return inParallel(ctx, nowhereBefore, s.creators, func(ctx context.Context, index int) error {
		return create(ctx, client, shape.nowhere(index))
	})
}

func fillNodes(ctx context.Context, client *kubernetes.Clientset, shape shape, s settings) error {
	return inParallel(ctx, s.nodes, s.creators, func(ctx context.Context, index int) error {
		_, err := client.CoreV1().Nodes().Create(ctx, node(index, shape.zones), metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("cannot create a node: %w", err)
		}
		return nil
	})
}

func fillStanding(ctx context.Context, client *kubernetes.Clientset, shape shape, s settings) error {
	return inParallel(ctx, s.standing, s.creators, func(ctx context.Context, index int) error {
		made := shape.standing(index)
		if shape.volumes {
			claimed(made)
		}
		made.Spec.NodeName = nodeName(shape.nodeOf(index, s.nodes))
		return create(ctx, client, made)
	})
}

func create(ctx context.Context, client *kubernetes.Clientset, made *v1.Pod) error {
	if _, err := client.CoreV1().Pods(made.Namespace).Create(ctx, made, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("cannot create the pod %s/%s: %w", made.Namespace, made.Name, err)
	}
	return nil
}
