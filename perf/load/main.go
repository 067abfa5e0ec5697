// Program load is the benchmark's client of the API server. It fills a cluster, creates the measured load, and contains the
// round-robin scheduler. `cargo xtask perf` starts it; perf/src defines the runs.
//
//	load fill    --kubeconfig FILE --shape S --nodes N --standing N --pods N
//	load warm    --kubeconfig FILE --pods N
//	load measure --kubeconfig FILE --shape S --pods N [--rate R] --facts FILE
//	load ceiling --kubeconfig FILE [--events]
//
// All requests and responses are protobuf. The client has no rate limit.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// settings are the command line's.
type settings struct {
	kubeconfig string
	shape      string
	nodes      int
	standing   int
	pods       int
	// rate is pods created per second; 0 is unlimited.
	rate int
	// creators is the number of concurrent creations.
	creators int
	// inFlight is the number of the ceiling's concurrent bindings.
	inFlight int
	// events is whether the ceiling also writes an event per pod.
	events  bool
	timeout time.Duration
	facts   string
}

const usage = "usage: load fill|warm|measure|ceiling --kubeconfig FILE [flags]; see perf/load/main.go"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) == 0 {
		return fmt.Errorf("%s", usage)
	}
	var s settings
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.StringVar(&s.kubeconfig, "kubeconfig", "", "how the API server is reached")
	flags.StringVar(&s.shape, "shape", "basic", "the shape of the cluster and the pods")
	flags.IntVar(&s.nodes, "nodes", 0, "nodes to create")
	flags.IntVar(&s.standing, "standing", 0, "pods to create on the nodes")
	flags.IntVar(&s.pods, "pods", 0, "pods to have bound")
	flags.IntVar(&s.rate, "rate", 0, "pods to create per second; 0: as fast as possible")
	flags.IntVar(&s.creators, "creators", 30, "creations under way at a time")
	flags.IntVar(&s.inFlight, "in-flight", 100, "bindings under way at a time")
	flags.BoolVar(&s.events, "events", false, "write an event for each pod that is bound")
	flags.DurationVar(&s.timeout, "timeout", 20*time.Minute, "when to give up")
	flags.StringVar(&s.facts, "facts", "", "where the facts are written, as JSON lines")
	if err := flags.Parse(arguments[1:]); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client, err := connect(s.kubeconfig)
	if err != nil {
		return err
	}
	switch arguments[0] {
	case "fill":
		return fill(ctx, client, s)
	case "warm":
		return warm(ctx, client, s)
	case "measure":
		return measure(ctx, client, s)
	case "ceiling":
		return ceiling(ctx, client, s)
	default:
		return fmt.Errorf("no command is called %q; %s", arguments[0], usage)
	}
}

func connect(kubeconfig string) (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("cannot read --kubeconfig %s: %w", kubeconfig, err)
	}
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf
	config.QPS = -1
	return kubernetes.NewForConfig(config)
}
