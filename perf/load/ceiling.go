package main

import (
	"context"
	"fmt"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// waitingLimit is the queue's capacity: more than the 100,000 pods of the largest run, at 32 bytes each.
const waitingLimit = 1 << 18

// target is the content of a binding.
type target struct {
	namespace, name string
	uid             types.UID
}

// ceiling binds pods round-robin without scheduling, and writes only bindings: no scheduler that binds pods one by one can be faster. With
// events it also writes each pod's event, like every scheduler.
func ceiling(ctx context.Context, client *kubernetes.Clientset, s settings) error {
	parent := ctx
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	nodes := &ring{}
	version, err := nodes.list(ctx, client)
	if err != nil {
		return err
	}
	go func() { cancel(nodes.watch(ctx, client, version)) }()
	waiting := make(chan target, waitingLimit)
	for range s.inFlight {
		go func() {
			for target := range waiting {
				node := nodes.next(ctx)
				err := bind(ctx, client, target, node)
				if err == nil && s.events {
					err = scheduled(ctx, client, target, node)
				}
				if err != nil && ctx.Err() == nil {
					fmt.Fprintf(os.Stderr, "cannot bind %s/%s, or write its event: %v\n", target.namespace, target.name, err)
				}
			}
		}()
	}
	if err := watchUnbound(ctx, client, waiting); err != nil {
		return err
	}
	if parent.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

func bind(ctx context.Context, client *kubernetes.Clientset, target target, node string) error {
	binding := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: target.namespace, Name: target.name, UID: target.uid},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}
	return client.CoreV1().Pods(target.namespace).Bind(ctx, binding, metav1.CreateOptions{})
}

// scheduled writes kube-scheduler's event of a bound pod.
func scheduled(ctx context.Context, client *kubernetes.Clientset, target target, node string) error {
	name := fmt.Sprintf("%s.%x", target.name, time.Now().UnixNano())
	event := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: target.namespace, Name: name},
		EventTime:           metav1.NowMicro(),
		ReportingController: "ceiling", ReportingInstance: "ceiling-0",
		Action: "Binding", Reason: "Scheduled", Type: v1.EventTypeNormal,
		Regarding: v1.ObjectReference{
			Kind: "Pod", APIVersion: "v1", Namespace: target.namespace, Name: target.name, UID: target.uid,
		},
		Note: fmt.Sprintf("Successfully assigned %s/%s to %s", target.namespace, target.name, node),
	}
	_, err := client.EventsV1().Events(target.namespace).Create(ctx, event, metav1.CreateOptions{})
	return err
}

// watchUnbound sends each pod without a node and without scheduling gates once. Infeasible pods are ignored.
func watchUnbound(ctx context.Context, client *kubernetes.Clientset, waiting chan<- target) error {
	unbound := fields.OneTermEqualSelector("spec.nodeName", "").String()
	pods := client.CoreV1().Pods("")
	list, err := pods.List(ctx, metav1.ListOptions{FieldSelector: unbound})
	if err != nil {
		return fmt.Errorf("cannot list the pods: %w", err)
	}
	gated := map[types.UID]bool{}
	send := func(pod *v1.Pod) {
		if len(pod.Spec.SchedulingGates) > 0 {
			gated[pod.UID] = true
			return
		}
		delete(gated, pod.UID)
		if pod.Labels[roleLabel] != roleNowhere {
			waiting <- target{pod.Namespace, pod.Name, pod.UID}
		}
	}
	for index := range list.Items {
		send(&list.Items[index])
	}
	version := list.ResourceVersion
	for ctx.Err() == nil {
		events, err := pods.Watch(ctx, metav1.ListOptions{FieldSelector: unbound, ResourceVersion: version})
		if err != nil {
			return fmt.Errorf("cannot watch the pods: %w", err)
		}
		for event := range events.ResultChan() {
			pod, isPod := event.Object.(*v1.Pod)
			if !isPod {
				return fmt.Errorf("the watch of the pods failed: %v", event.Object)
			}
			version = pod.ResourceVersion
			switch {
			case event.Type == watch.Added, event.Type == watch.Modified && gated[pod.UID]:
				send(pod)
			case event.Type == watch.Deleted:
				delete(gated, pod.UID)
			}
		}
	}
	return nil
}
