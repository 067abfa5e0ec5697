package judge

// The format of the answers.

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
)

// Answer is kube-scheduler's result for one pending pod on all nodes.
type Answer struct {
	// Pod is namespace/name.
	Pod           string `json:"pod"`
	SchedulerName string `json:"schedulerName"`
	// OnNode is the node of a pod with a deferred resize.
	OnNode string `json:"onNode,omitempty"`
	// Gated is whether a PreEnqueue plugin gates the pod; Plugin and Reasons have the details.
	Gated   bool     `json:"gated,omitempty"`
	Plugin  string   `json:"plugin,omitempty"`
	Reasons []string `json:"reasons,omitempty"`
	// Nominated is the pod's status.nominatedNodeName if that is feasible: kube-scheduler chooses it without evaluating others.
	Nominated string `json:"nominated,omitempty"`
	// Error is why kube-scheduler's attempt fails with an error; of several, that of the first node.
	Error string `json:"error,omitempty"`
	// Feasible is the number of feasible nodes.
	Feasible int `json:"feasible"`
	// Best are the feasible nodes with the highest total, sorted.
	Best []string `json:"best"`
	// Message is the FitError's message if no node is feasible, without that of preemption.
	Message string `json:"message"`
	// Preemption is DefaultPreemption's result if no node is feasible and the profile has the plugin.
	Preemption *Preemption `json:"preemption,omitempty"`
	// Nodes are all nodes, sorted by name.
	Nodes []Node `json:"nodes"`
}

// Node is kube-scheduler's result for one node.
type Node struct {
	Node string `json:"node"`
	// Code is Success, Unschedulable, UnschedulableAndUnresolvable or Error.
	Code string `json:"code"`
	// Plugin is the rejecting plugin; empty if upstream records none.
	Plugin string `json:"plugin"`
	// Reasons are in upstream's order, or sorted if upstream's is random.
	Reasons []string `json:"reasons"`
	// Raw are the scores before NormalizeScore, without skipped plugins.
	Raw map[string]int64 `json:"raw,omitempty"`
	// Scores are the scores after NormalizeScore, times the plugin's weight.
	Scores map[string]int64 `json:"scores,omitempty"`
	// Total is the sum of the scores.
	Total *int64 `json:"total,omitempty"`
}

// noted returns a node's result from a status; nil is success, as upstream.
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

// ordered are NodeResourcesFit's reasons that come first, in this order.
var ordered = []string{"Too many pods", "Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage"}

// sortScalars sorts the reasons of other resources, which upstream returns in random map order.
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
		// Extenders are named by URL, which is not unique.
		named[score.Name] += score.Score
	}
	return named
}
