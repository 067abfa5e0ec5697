// Prints the answers of kube-scheduler-wasm-extension's host for guests: the results of each guest's functions for one pod and some
// nodes, in kube-scheduler's order of calls.
//
// Build it within a checkout of that project at 9b2791f1bbea8ad75871433ca0a201d03edee714, as scheduler/cmd/answers/main.go:
//
//	go build -o upstream-host ./cmd/answers
//	upstream-host cluster.json GUEST.wasm... > answers.json
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	wasm "sigs.k8s.io/kube-scheduler-wasm-extension/scheduler/plugin"
	"sigs.k8s.io/kube-scheduler-wasm-extension/scheduler/test"
)

// Cluster is the pod and the nodes for guests.
type Cluster struct {
	Pod    *v1.Pod    `json:"pod"`
	Nodes  []*v1.Node `json:"nodes"`
	Config string     `json:"config"`
}

// Status is a framework.Status.
type Status struct {
	Code   string `json:"code"`
	Reason string `json:"reason,omitempty"`
}

// Score is a score, or the status without one.
type Score struct {
	Score  int64   `json:"score"`
	Status *Status `json:"status,omitempty"`
}

// Answers are the answers of one guest. Functions after a failure are absent.
type Answers struct {
	Error      string            `json:"error,omitempty"`
	PreFilter  *Status           `json:"preFilter,omitempty"`
	Only       []string          `json:"only,omitempty"`
	Filter     map[string]Status `json:"filter,omitempty"`
	PreScore   *Status           `json:"preScore,omitempty"`
	Score      map[string]Score  `json:"score,omitempty"`
	Normalize  *Status           `json:"normalize,omitempty"`
	Normalized map[string]int64  `json:"normalized,omitempty"`
}

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(file string, guests []string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var cluster Cluster
	if err := json.Unmarshal(text, &cluster); err != nil {
		return err
	}
	all := map[string]*Answers{}
	for _, guest := range guests {
		name := strings.TrimSuffix(filepath.Base(guest), ".wasm")
		all[name] = ask(&cluster, guest)
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", " ")
	return encoder.Encode(all)
}

// Without the stack trace, which has the guest's function names.
func status(status *framework.Status) *Status {
	if status == nil {
		return &Status{Code: framework.Success.String()}
	}
	reason, _, _ := strings.Cut(strings.Join(status.Reasons(), ", "), "\nwasm stack trace:")
	// Only known codes have names.
	if status.Code() > framework.Pending {
		return &Status{Code: "Unknown", Reason: reason}
	}
	return &Status{Code: status.Code().String(), Reason: reason}
}

func ask(cluster *Cluster, file string) (answers *Answers) {
	answers = &Answers{}
	defer func() {
		// Upstream's host panics if a guest returns fewer scores than nodes.
		if panicked := recover(); panicked != nil {
			answers.Error = fmt.Sprint("panic: ", panicked)
		}
	}()
	ctx := context.Background()
	path, err := filepath.Abs(file)
	if err != nil {
		answers.Error = err.Error()
		return answers
	}
	config := wasm.PluginConfig{GuestURL: "file://" + path, GuestConfig: cluster.Config}
	handle := &test.FakeHandle{Recorder: &test.FakeRecorder{}, SharedLister: cache.NewSnapshot(nil, cluster.Nodes)}
	plugin, err := wasm.NewFromConfig(ctx, "Guest", config, handle)
	if err != nil {
		answers.Error, _, _ = strings.Cut(err.Error(), "\nwasm stack trace:")
		return answers
	}
	infos := make([]*framework.NodeInfo, len(cluster.Nodes))
	for index, node := range cluster.Nodes {
		infos[index] = framework.NewNodeInfo()
		infos[index].SetNode(node)
	}
	if infos = answers.filter(ctx, plugin, cluster.Pod, infos); len(infos) > 0 {
		answers.score(ctx, plugin, cluster.Pod, infos)
	}
	return answers
}

// Returns the feasible nodes.
func (answers *Answers) filter(ctx context.Context, plugin framework.Plugin, pod *v1.Pod, nodes []*framework.NodeInfo) []*framework.NodeInfo {
	skips := false
	if pre, ok := plugin.(framework.PreFilterPlugin); ok {
		result, said := pre.PreFilter(ctx, nil, pod)
		answers.PreFilter = status(said)
		if !said.IsSuccess() && !said.IsSkip() {
			return nil
		}
		skips = said.IsSkip()
		if !result.AllNodes() {
			answers.Only = result.NodeNames.UnsortedList()
			sort.Strings(answers.Only)
			var only []*framework.NodeInfo
			for _, node := range nodes {
				if result.NodeNames.Has(node.Node().Name) {
					only = append(only, node)
				}
			}
			nodes = only
		}
	}
	filter, ok := plugin.(framework.FilterPlugin)
	if !ok || skips {
		return nodes
	}
	answers.Filter = map[string]Status{}
	var left []*framework.NodeInfo
	for _, node := range nodes {
		said := filter.Filter(ctx, nil, pod, node)
		answers.Filter[node.Node().Name] = *status(said)
		if said.IsSuccess() {
			left = append(left, node)
		}
	}
	return left
}

func (answers *Answers) score(ctx context.Context, plugin framework.Plugin, pod *v1.Pod, nodes []*framework.NodeInfo) {
	if pre, ok := plugin.(framework.PreScorePlugin); ok {
		said := pre.PreScore(ctx, nil, pod, nodes)
		answers.PreScore = status(said)
		if !said.IsSuccess() {
			return
		}
	}
	score, ok := plugin.(framework.ScorePlugin)
	if !ok {
		return
	}
	answers.Score = map[string]Score{}
	list := framework.NodeScoreList{}
	for _, node := range nodes {
		raw, said := score.Score(ctx, nil, pod, node)
		if !said.IsSuccess() {
			answers.Score[node.Node().Name] = Score{Status: status(said)}
			return
		}
		answers.Score[node.Node().Name] = Score{Score: raw}
		list = append(list, framework.NodeScore{Name: node.Node().Name, Score: raw})
	}
	if extensions := score.ScoreExtensions(); extensions != nil {
		said := extensions.NormalizeScore(ctx, nil, pod, list)
		answers.Normalize = status(said)
		answers.Normalized = map[string]int64{}
		for _, entry := range list {
			answers.Normalized[entry.Name] = entry.Score
		}
	}
}
