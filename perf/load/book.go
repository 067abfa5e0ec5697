package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// book records the events of each pod of a role. All times are of one monotonic clock.
type book struct {
	mutex sync.Mutex
	began time.Time
	facts map[string]*fact
	bound int
	// changed has a capacity of one, and is filled at each binding.
	changed chan struct{}
	// broken is why the watch ended.
	broken chan error
}

// startBook watches the pods of a role.
func startBook(ctx context.Context, client *kubernetes.Clientset, role string) (*book, error) {
	b := &book{
		began: time.Now(), facts: map[string]*fact{}, changed: make(chan struct{}, 1), broken: make(chan error, 1),
	}
	pods := client.CoreV1().Pods("")
	options := ofRole(role)
	list, err := pods.List(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("cannot list the pods: %w", err)
	}
	if len(list.Items) > 0 {
		return nil, fmt.Errorf("there are %d pods of the role %s already; each run needs a fresh cluster", len(list.Items), role)
	}
	options.ResourceVersion = list.ResourceVersion
	go func() {
		for ctx.Err() == nil {
			events, err := pods.Watch(ctx, options)
			if err != nil {
				b.broken <- fmt.Errorf("cannot watch the pods: %w", err)
				return
			}
			for event := range events.ResultChan() {
				pod, isPod := event.Object.(*v1.Pod)
				if !isPod {
					b.broken <- fmt.Errorf("the watch of the pods failed: %v", event.Object)
					return
				}
				options.ResourceVersion = pod.ResourceVersion
				b.seen(pod)
			}
		}
	}()
	return b, nil
}

// begin sets the zero of all times.
func (b *book) begin() { b.began = time.Now() }

func (b *book) now() *int64 {
	now := time.Since(b.began).Microseconds()
	return &now
}

// of is the fact of a pod. The caller holds the mutex.
func (b *book) of(name string) *fact {
	found := b.facts[name]
	if found == nil {
		found = &fact{Pod: name}
		b.facts[name] = found
	}
	return found
}

func (b *book) sent(namespace, name string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.of(namespace + "/" + name).SentUs = b.now()
}

func (b *book) answered(namespace, name string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.of(namespace + "/" + name).AnsweredUs = b.now()
}

func (b *book) seen(pod *v1.Pod) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	fact := b.of(key(pod))
	if fact.SeenUs == nil {
		fact.SeenUs = b.now()
	}
	if fact.BoundUs == nil && pod.Spec.NodeName != "" {
		fact.BoundUs, fact.Node = b.now(), pod.Spec.NodeName
		b.bound++
		select {
		case b.changed <- struct{}{}:
		default:
		}
	}
}

// count is the number of bound pods.
func (b *book) count() int {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.bound
}

// wait returns when this many pods are bound, and prints their number every second. It returns errors of `failed` or the watch.
func (b *book) wait(ctx context.Context, pods int, failed <-chan error) error {
	ticks := time.NewTicker(progressPause)
	defer ticks.Stop()
	for b.count() < pods {
		select {
		case <-b.changed:
		case <-ticks.C:
			fmt.Printf("bound %d of %d\n", b.count(), pods)
		case err := <-failed:
			return err
		case err := <-b.broken:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
