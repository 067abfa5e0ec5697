// Program decide evaluates the pending pods of a cluster in files with kube-scheduler's code: the feasible nodes, the reasons
// of the others, and each plugin's scores. Every node is evaluated, and each pod as if it was the only pending one. Only the
// extenders of the configuration are contacted.
//
//	decide [--config FILE] [--as-is] FILE...   one JSON object per pending pod, in the order of the files
//	decide [--as-is] --cases FOLDER            one JSON object per case: a cluster, and maybe a configuration
//
// The oracle's README.md describes the format, and cluster/defaults.go the defaults of hand-written objects.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"

	"flotilla/integration-tests/oracle/decide/cluster"
	"flotilla/integration-tests/oracle/decide/judge"
)

const usage = `Tells what kube-scheduler makes of each pending pod of a cluster, one JSON object per line.

Usage: decide [--config FILE] [--as-is] FILE...
       decide [--as-is] --cases FOLDER [--groups FILE [--preemption]] [--feature-gates GATES]

FILE holds Kubernetes objects in YAML or JSON, in several documents or lists; - is standard input.

  --config FILE   the KubeSchedulerConfiguration; without it, kube-scheduler's own
  --cases FOLDER  judge each NAME.yaml by itself, with NAME.config.yaml where that is there; one JSON object per case
  --groups FILE   compare the groups of the cases with these answers, one JSON object per case: "case" and "placements" as
                  flotilla simulate prints them
  --preemption    groups may preempt pods: the answers have "preemptions" too
  --feature-gates GATES
                  the feature gates of kube-scheduler, as Name=true,Other=false
  --as-is         fill nothing in: the objects are as an API server gave them

Exit codes: 0 all judged, 1 kube-scheduler or the API server would refuse the input, 2 wrong usage.
`

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit code.
func run(arguments []string, out, problems io.Writer) int {
	flags := flag.NewFlagSet("decide", flag.ContinueOnError)
	flags.SetOutput(problems)
	flags.Usage = func() {}
	configuration := flags.String("config", "", "")
	cases := flags.String("cases", "", "")
	groups := flags.String("groups", "", "")
	asIs := flags.Bool("as-is", false, "")
	preempts := flags.Bool("preemption", false, "")
	gates := flags.String("feature-gates", "", "")
	switch err := flags.Parse(arguments); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, usage)
		return 0
	case err != nil:
		return 2
	case (*cases == "") == (flags.NArg() == 0), *cases != "" && *configuration != "", *cases == "" && *groups != "", *groups == "" && *preempts:
		fmt.Fprint(problems, usage)
		return 2
	}
	if err := cluster.SetGates(*gates); err != nil {
		fmt.Fprintf(problems, "decide: --feature-gates: %v\n", err)
		return 2
	}
	// Discard kube-scheduler's log.
	klog.SetLogger(klog.New(nil))
	reading := cluster.Reading{AsIs: *asIs}
	var err error
	if *groups != "" {
		err = compareAll(*cases, *groups, *preempts, reading, out)
	} else if *cases != "" {
		err = decideAll(*cases, reading, out)
	} else {
		err = decide(flags.Args(), *configuration, reading, out, problems)
	}
	if err != nil {
		fmt.Fprintf(problems, "decide: %v\n", err)
		return 1
	}
	return 0
}

func decide(files []string, configuration string, reading cluster.Reading, out, problems io.Writer) error {
	cfg, err := judge.Configure(configuration)
	if err != nil {
		return err
	}
	given, err := cluster.Load(files, reading)
	if err != nil {
		return err
	}
	for _, warning := range given.Warnings {
		fmt.Fprintf(problems, "warning: %s\n", warning)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	asked, err := judge.New(ctx, given, cfg)
	if err != nil {
		return err
	}
	lines := bufio.NewWriter(out)
	encoder := json.NewEncoder(lines)
	encoder.SetEscapeHTML(false)
	for _, pod := range given.Pending() {
		if !asked.Handles(pod.Spec.SchedulerName) {
			fmt.Fprintf(problems, "warning: pod %s/%s asks for scheduler %q, and no profile has this name; it is left out\n",
				pod.Namespace, pod.Name, pod.Spec.SchedulerName)
			continue
		}
		answer, err := asked.Judge(ctx, pod)
		if err != nil {
			return err
		}
		if err := encoder.Encode(answer); err != nil {
			return err
		}
	}
	return lines.Flush()
}
