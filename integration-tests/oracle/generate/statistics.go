package main

// Statistics of cases.

import (
	"context"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"flotilla/integration-tests/oracle/decide/cluster"
	"flotilla/integration-tests/oracle/decide/judge"
)

type statistics struct {
	cases, configured, pods, skipped      int
	none, some, all, gated, erred, nomine int
	// verdicts counts nodes by plugin and reason, without names.
	verdicts map[string]int
	errors   map[string]int
	// scored counts pods with different scores of a plugin between nodes.
	scored map[string]int
	tied   int
	// preemptions counts pods without feasible nodes by DefaultPreemption's result, without names and numbers.
	preemptions map[string]int
	candidates  int
}

func newStatistics() *statistics {
	return &statistics{verdicts: map[string]int{}, errors: map[string]int{}, scored: map[string]int{}, preemptions: map[string]int{}}
}

// names are the variable parts of reasons.
var names = regexp.MustCompile(`"[^"]*"|\b[a-z-]+/[a-z0-9-]*pod-[a-z0-9-]+`)

// numbers are what differs between messages of preemption.
var numbers = regexp.MustCompile(`node-\d+|\d+`)

// judge asks about all pending pods of a case, and has the answers confirmed.
func (s *statistics) judge(made files) error {
	cfg, err := judge.Configure(made.configuration)
	if err != nil {
		return err
	}
	given, err := cluster.Load([]string{made.cluster}, cluster.Reading{AsIs: true})
	if err != nil {
		return err
	}
	for _, warning := range given.Warnings {
		return fmt.Errorf("%s: %s", made.cluster, warning)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	asked, err := judge.New(ctx, given, cfg)
	if err != nil {
		return err
	}
	s.cases++
	if made.configuration != "" {
		s.configured++
	}
	for _, pod := range given.Pending() {
		if !asked.Handles(pod.Spec.SchedulerName) {
			s.skipped++
			continue
		}
		answer, err := asked.Judge(ctx, pod)
		if err != nil {
			return err
		}
		if err := asked.Confirm(ctx, pod, answer); err != nil {
			return err
		}
		s.count(answer)
	}
	return nil
}

func (s *statistics) count(answer *judge.Answer) {
	s.pods++
	if answer.Nominated != "" {
		s.nomine++
	}
	switch {
	case answer.Gated:
		s.gated++
		for _, reason := range answer.Reasons {
			s.verdicts["gated by "+answer.Plugin+": "+names.ReplaceAllString(reason, `"…"`)]++
		}
	case answer.Error != "":
		s.erred++
		s.errors[names.ReplaceAllString(answer.Error, `"…"`)]++
	case answer.Feasible == 0:
		s.none++
	case answer.Feasible == len(answer.Nodes):
		s.all++
	default:
		s.some++
	}
	if len(answer.Best) > 1 {
		s.tied++
	}
	if told := answer.Preemption; told != nil {
		kind, _, _ := strings.Cut(numbers.ReplaceAllString(told.Message, "…"), " are available")
		s.preemptions[fmt.Sprintf("%s: %s", told.Code, kind)]++
		if len(told.Tied) > 1 {
			s.preemptions["several nodes are equally good"]++
		}
		for _, candidate := range told.Candidates {
			s.candidates++
			if candidate.Violations > 0 {
				s.preemptions["a candidate with violations"]++
			}
			if len(candidate.Victims) > 1 {
				s.preemptions["a candidate with several victims"]++
			}
		}
	}
	scores := map[string]map[int64]bool{}
	for _, node := range answer.Nodes {
		for _, reason := range node.Reasons {
			s.verdicts[fmt.Sprintf("%s, %s: %s", node.Plugin, node.Code, names.ReplaceAllString(reason, `"…"`))]++
		}
		for plugin, score := range node.Raw {
			if scores[plugin] == nil {
				scores[plugin] = map[int64]bool{}
			}
			scores[plugin][score] = true
		}
	}
	for plugin, values := range scores {
		if len(values) > 1 {
			s.scored[plugin]++
		}
	}
}

func (s *statistics) print(out io.Writer) {
	fmt.Fprintf(out, "cases    %d, %d with a configuration\n", s.cases, s.configured)
	fmt.Fprintf(out, "pods     %d: no node %s, some %s, all %s, gated %s, error %s; %d of unknown schedulers\n",
		s.pods, s.share(s.none), s.share(s.some), s.share(s.all), s.share(s.gated), s.share(s.erred), s.skipped)
	fmt.Fprintf(out, "         several best nodes %s, fit where nominated %s\n", s.share(s.tied), s.share(s.nomine))
	fmt.Fprintf(out, "\nnodes by plugin, code and reason: %d distinct\n", len(s.verdicts))
	printCounts(out, s.verdicts)
	fmt.Fprintf(out, "\npods by error\n")
	printCounts(out, s.errors)
	fmt.Fprintf(out, "\npods with differing raw scores, by plugin\n")
	printCounts(out, s.scored)
	fmt.Fprintf(out, "\npods that fit no node by what preemption makes of them; %d candidates\n", s.candidates)
	printCounts(out, s.preemptions)
}

func (s *statistics) share(count int) string {
	return fmt.Sprintf("%d%%", (100*count+max(s.pods, 1)/2)/max(s.pods, 1))
}

func printCounts(out io.Writer, counts map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(out, "%8d %s\n", counts[name], name)
	}
}
