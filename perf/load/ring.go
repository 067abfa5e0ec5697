package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// firstNodePause is the interval at which a pod waits for the first node.
const firstNodePause = 5 * time.Millisecond

// ring is the names of the existing nodes, in the order of their creation.
type ring struct {
	mutex sync.Mutex
	names []string
	turn  int
}

// list reads the nodes, and returns the version from which they are watched.
func (r *ring) list(ctx context.Context, client *kubernetes.Clientset) (string, error) {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return "", fmt.Errorf("cannot list the nodes: %w", err)
	}
	for index := range nodes.Items {
		r.names = append(r.names, nodes.Items[index].Name)
	}
	return nodes.ResourceVersion, nil
}

// watch keeps the ring current until the watch fails.
func (r *ring) watch(ctx context.Context, client *kubernetes.Clientset, version string) error {
	for ctx.Err() == nil {
		events, err := client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{ResourceVersion: version})
		if err != nil {
			return fmt.Errorf("cannot watch the nodes: %w", err)
		}
		for event := range events.ResultChan() {
			node, isNode := event.Object.(*v1.Node)
			if !isNode {
				return fmt.Errorf("the watch of the nodes failed: %v", event.Object)
			}
			version = node.ResourceVersion
			r.observe(event.Type, node.Name)
		}
	}
	return nil
}

func (r *ring) observe(kind watch.EventType, name string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	switch kind {
	case watch.Added:
		r.names = append(r.names, name)
	case watch.Deleted:
		if index := slices.Index(r.names, name); index >= 0 {
			r.names = slices.Delete(r.names, index, index+1)
		}
	}
}

// next is the next node. Without nodes, it waits for one.
func (r *ring) next(ctx context.Context) string {
	for {
		if name, found := r.take(); found || ctx.Err() != nil {
			return name
		}
		select {
		case <-ctx.Done():
		case <-time.After(firstNodePause):
		}
	}
}

func (r *ring) take() (string, bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if len(r.names) == 0 {
		return "", false
	}
	r.turn++
	return r.names[r.turn%len(r.names)], true
}
