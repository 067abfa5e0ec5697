package judge

// This file knows the format of the answers.

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
)

// Answer is what kube-scheduler makes of one pending pod, all nodes looked at.
type Answer struct {
	// Pod is namespace/name.
	Pod           string `json:"pod"`
	SchedulerName string `json:"schedulerName"`
	// Gated: a PreEnqueue plugin keeps the pod out of the queue. Plugin and Reasons say which and why.
	Gated   bool     `json:"gated,omitempty"`
	Plugin  string   `json:"plugin,omitempty"`
	Reasons []string `json:"reasons,omitempty"`
	// Nominated is the pod's status.nominatedNodeName where the pod fits there: kube-scheduler would take that node
	// without a look at the others.
	Nominated string `json:"nominated,omitempty"`
	// Error is why kube-scheduler would give up on this attempt without an answer; of several, that of the first node.
	Error string `json:"error,omitempty"`
	// Feasible counts the nodes that the pod fits.
	Feasible int `json:"feasible"`
	// Best are the feasible nodes of the highest total, sorted.
	Best []string `json:"best"`
	// Message is what kube-scheduler tells where no node fits: that of a FitError, without what preemption would add.
	Message string `json:"message"`
	// Preemption is what DefaultPreemption makes of a pod that fits no node, where the profile has the plugin.
	Preemption *Preemption `json:"preemption,omitempty"`
	// Nodes are all nodes, sorted by name.
	Nodes []Node `json:"nodes"`
}

// Node is what kube-scheduler makes of one node for the pod.
type Node struct {
	Node string `json:"node"`
	// Code is Success, Unschedulable, UnschedulableAndUnresolvable or Error.
	Code string `json:"code"`
	// Plugin is the one that rejected the node; empty where upstream notes none.
	Plugin string `json:"plugin"`
	// Reasons are in upstream's order; where that has none, they are sorted.
	Reasons []string `json:"reasons"`
	// Raw are the scores before NormalizeScore, of the plugins that did not skip the pod.
	Raw map[string]int64 `json:"raw,omitempty"`
	// Scores are the scores after NormalizeScore, times the plugin's weight.
	Scores map[string]int64 `json:"scores,omitempty"`
	// Total is the sum of the scores.
	Total *int64 `json:"total,omitempty"`
}

// noted gives what a status says of a node; nil stands for success, as upstream has it.
func noted(name string, status *fwk.Status) Node {
	node := Node{Node: name, Code: status.Code().String(), Reasons: []string{}}
	if status != nil {
		node.Plugin, node.Reasons = status.Plugin(), append(node.Reasons, status.Reasons()...)
	}
	if node.Plugin == noderesources.Name {
		sortScalars(node.Reasons)
	}
	return node
}

// ordered are the reasons of NodeResourcesFit that come first, in this order.
var ordered = []string{"Too many pods", "Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage"}

// sortScalars sorts the reasons for other resources, which upstream gives in the order of a map: in none.
func sortScalars(reasons []string) {
	first := 0
	for first < len(reasons) && slices.Contains(ordered, reasons[first]) {
		first++
	}
	slices.Sort(reasons[first:])
}

func (n *Node) score(scored fwk.NodePluginScores) {
	n.Raw, n.Scores = byName(scored.RawScores), byName(scored.Scores)
	n.Total = &scored.TotalScore
}

func byName(scores []fwk.PluginScore) map[string]int64 {
	named := make(map[string]int64, len(scores))
	for _, score := range scores {
		// Extenders are named by their URLs, which two of them may share.
		named[score.Name] += score.Score
	}
	return named
}
