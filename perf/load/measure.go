package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// progressPause is the interval of progress lines.
const progressPause = time.Second

// warm waits until a few unmeasured pods are bound, which shows that the scheduler works.
func warm(ctx context.Context, client *kubernetes.Clientset, s settings) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	book, err := startBook(ctx, client, roleWarm)
	if err != nil {
		return err
	}
	err = inParallel(ctx, s.pods, s.creators, func(ctx context.Context, index int) error {
		// Small enough for shapes with little free capacity.
		return create(ctx, client, pod("default", fmt.Sprintf("warm-%05d", index), roleWarm, room("1m", "1Mi")))
	})
	if err != nil {
		return err
	}
	if err := book.wait(ctx, s.pods, nil); err != nil {
		return fmt.Errorf("the scheduler has bound %d of the %d pods that warm it up: %w", book.count(), s.pods, err)
	}
	return nil
}

// measure creates the pods, waits until all are bound, and writes the times of their creations and bindings.
func measure(ctx context.Context, client *kubernetes.Clientset, s settings) error {
	shape, err := shapeOf(s.shape)
	if err != nil {
		return err
	}
	if s.facts == "" {
		return errors.New("--facts is missing: where are the facts to be written?")
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	book, err := startBook(ctx, client, roleMeasured)
	if err != nil {
		return err
	}
	book.begin()
	failed := make(chan error, 2)
	go func() {
		if err := load(ctx, client, shape, s, book); err != nil {
			failed <- err
		}
	}()
	if shape.nowhere != nil {
		go disturb(ctx, client, shape, failed)
	}
	err = book.wait(ctx, s.pods, failed)
	// Report bound pods even if some are not.
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		fmt.Fprintf(os.Stderr, "gave up after %v: %d of %d pods are bound\n", s.timeout, book.count(), s.pods)
		err = nil
	}
	if err != nil {
		return err
	}
	return book.write(s.facts)
}

// load creates the measured pods: unlimited, or at a rate.
func load(ctx context.Context, client *kubernetes.Clientset, shape shape, s settings, book *book) error {
	if shape.controller != "" {
		return submit(ctx, client, shape.controller, s)
	}
	one := func(ctx context.Context, index int) error {
		made := shape.measured(index)
		if shape.volumes {
			claimed(made)
		}
		book.sent(made.Namespace, made.Name)
		if err := create(ctx, client, made); err != nil {
			return err
		}
		book.answered(made.Namespace, made.Name)
		return nil
	}
	if s.rate == 0 {
		return inParallel(ctx, s.pods, s.creators, one)
	}
	// Each pod is created when it is due, regardless of creations in flight: slow responses do not reduce the load.
	began := time.Now()
	return inParallel(ctx, s.pods, s.pods, func(ctx context.Context, index int) error {
		due := began.Add(time.Duration(index) * time.Second / time.Duration(s.rate))
		select {
		case <-time.After(time.Until(due)):
			return one(ctx, index)
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// nowhereBefore is the number of infeasible pods before the scheduler starts.
const nowhereBefore = 500

// nowherePause is the interval between two more of them, as in scheduler_perf's Unschedulable.
const nowherePause = 200 * time.Millisecond

// disturb creates infeasible pods until the measurement ends.
func disturb(ctx context.Context, client *kubernetes.Clientset, shape shape, failed chan<- error) {
	pauses := time.NewTicker(nowherePause)
	defer pauses.Stop()
	for index := nowhereBefore; ; index++ {
		select {
		case <-pauses.C:
		case <-ctx.Done():
			return
		}
		if err := create(ctx, client, shape.nowhere(index)); err != nil && ctx.Err() == nil {
			failed <- err
			return
		}
	}
}

// fact is a line of the facts: a pod's times in microseconds of the client's monotonic clock since the start of the measurement. Unknown
// times are absent.
type fact struct {
	Pod string `json:"pod"`
	// SentUs is the time of the create request.
	SentUs *int64 `json:"sent_us,omitempty"`
	// AnsweredUs is the time of its response.
	AnsweredUs *int64 `json:"answered_us,omitempty"`
	// SeenUs is the time of the pod's first watch event.
	SeenUs *int64 `json:"seen_us,omitempty"`
	// BoundUs is the time of the first watch event with a node.
	BoundUs *int64 `json:"bound_us,omitempty"`
	Node    string `json:"node,omitempty"`
}

// head is the first line of the facts: this process's usage.
type head struct {
	ClientCPUS float64 `json:"client_cpu_s"`
}

func seconds(time syscall.Timeval) float64 { return float64(time.Sec) + float64(time.Usec)/1e6 }

func (b *book) write(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("cannot write the facts: %w", err)
	}
	defer file.Close()
	buffered := bufio.NewWriter(file)
	lines := json.NewEncoder(buffered)
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return fmt.Errorf("cannot read the usage of this process: %w", err)
	}
	if err := lines.Encode(head{seconds(used.Utime) + seconds(used.Stime)}); err != nil {
		return fmt.Errorf("cannot write the facts: %w", err)
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, fact := range b.facts {
		if err := lines.Encode(fact); err != nil {
			return fmt.Errorf("cannot write the facts: %w", err)
		}
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("cannot write the facts: %w", err)
	}
	return nil
}

// ofRole selects the pods of a role.
func ofRole(role string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: roleLabel + "=" + role}
}

func key(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }
