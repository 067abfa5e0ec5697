package judge

// A scheduling cycle: the order of kube-scheduler's schedulePod and findNodesThatFitPod, with every node filtered and every feasible node
// scored.

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// cycle is one attempt at a pod.
type cycle struct {
	pod       *corev1.Pod
	framework framework.Framework
	extenders []fwk.Extender
	state     fwk.CycleState
	// nodes are all nodes of the snapshot, sorted by name.
	nodes     []fwk.NodeInfo
	diagnosis framework.Diagnosis
	answer    *Answer
}

func (j *Judge) newCycle(pod *corev1.Pod) (*cycle, error) {
	profile, ok := j.sched.Profiles[pod.Spec.SchedulerName]
	if !ok {
		return nil, fmt.Errorf("profile not found for scheduler name %q", pod.Spec.SchedulerName)
	}
	nodes, err := j.snapshot.ListNodesInPlacement()
	if err != nil {
		return nil, err
	}
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b fwk.NodeInfo) int { return strings.Compare(a.Node().Name, b.Node().Name) })
	return &cycle{
		pod:       pod,
		framework: profile,
		extenders: j.sched.Extenders,
		state:     framework.NewCycleState(),
		nodes:     nodes,
		diagnosis: framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()},
		answer: &Answer{
			Pod:           pod.Namespace + "/" + pod.Name,
			SchedulerName: pod.Spec.SchedulerName,
			OnNode:        pod.Spec.NodeName,
			Best:          []string{},
			Nodes:         []Node{},
		},
	}, nil
}

func (c *cycle) run(ctx context.Context, cfg *config.KubeSchedulerConfiguration) (*Answer, error) {
	if c.isGated(ctx) {
		return c.answer, nil
	}
	if len(c.nodes) == 0 {
		c.answer.Message = scheduler.ErrNoNodesAvailable.Error()
		return c.answer, nil
	}
	feasible := c.extend(c.filter(ctx))
	if c.answer.Error == "" && len(feasible) > 0 {
		c.score(ctx, feasible)
	}
	if c.answer.Error == "" && len(feasible) == 0 {
		failure := &framework.FitError{Pod: c.pod, NumAllNodes: len(c.nodes), Diagnosis: c.diagnosis}
		c.answer.Message = failure.Error()
		if err := c.preempt(ctx, cfg); err != nil {
			return nil, err
		}
	}
	c.answer.Feasible = len(feasible)
	return c.answer, nil
}

// isGated runs the PreEnqueue plugins, like the queue when a pod is added.
func (c *cycle) isGated(ctx context.Context) bool {
	for _, plugin := range c.framework.PreEnqueuePlugins() {
		status := plugin.PreEnqueue(ctx, c.pod)
		if !status.IsSuccess() {
			c.answer.Gated, c.answer.Plugin, c.answer.Reasons = true, plugin.Name(), status.Reasons()
			return true
		}
	}
	return false
}

// filter finds the feasible nodes, and records upstream's diagnosis of the others.
func (c *cycle) filter(ctx context.Context) []fwk.NodeInfo {
	allowed, status, plugins := c.framework.RunPreFilterPlugins(ctx, c.state, c.pod)
	c.diagnosis.UnschedulablePlugins = plugins
	if !status.IsSuccess() {
		c.refuseAll(status)
		return nil
	}
	c.tryNominated(ctx)
	if !allowed.AllNodes() {
		message := fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(plugins))
		c.diagnosis.NodeToStatus.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, message))
	}
	var feasible []fwk.NodeInfo
	for _, node := range c.nodes {
		name := node.Node().Name
		if !allowed.AllNodes() && !allowed.NodeNames.Has(name) {
			c.answer.Nodes = append(c.answer.Nodes, noted(name, c.diagnosis.NodeToStatus.Get(name)))
			continue
		}
		status := c.framework.RunFilterPluginsWithNominatedPods(ctx, c.state, c.pod, node)
		c.answer.Nodes = append(c.answer.Nodes, noted(name, status))
		switch {
		case status.IsSuccess():
			feasible = append(feasible, node)
		case status.IsRejected():
			c.diagnosis.NodeToStatus.Set(name, status)
			c.diagnosis.AddPluginStatus(status)
		case c.answer.Error == "" && c.answer.Nominated == "":
			c.answer.Error = status.AsError().Error()
		}
	}
	return feasible
}

// refuseAll records a PreFilter rejection of all nodes, or its error.
func (c *cycle) refuseAll(status *fwk.Status) {
	if !status.IsRejected() {
		c.answer.Error = status.AsError().Error()
	} else {
		c.diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
		c.diagnosis.PreFilterMsg = status.Message()
		c.diagnosis.AddPluginStatus(status)
	}
	for _, node := range c.nodes {
		c.answer.Nodes = append(c.answer.Nodes, noted(node.Node().Name, status))
	}
}

// tryNominated evaluates the nominated node, which upstream chooses if it is feasible. Its rejection stays in the diagnosis even if
// PreFilter excludes the node.
func (c *cycle) tryNominated(ctx context.Context) {
	for _, node := range c.nodes {
		name := node.Node().Name
		if name != c.pod.Status.NominatedNodeName {
			continue
		}
		status := c.framework.RunFilterPluginsWithNominatedPods(ctx, c.state, c.pod, node)
		if status.IsSuccess() {
			c.answer.Nominated = name
		} else if status.IsRejected() {
			c.diagnosis.NodeToStatus.Set(name, status)
			c.diagnosis.AddPluginStatus(status)
		}
	}
}

// score scores the feasible nodes, even a single one, which upstream does not score.
func (c *cycle) score(ctx context.Context, feasible []fwk.NodeInfo) {
	if c.pod.Spec.NodeName != "" {
		c.takeOwnNode(feasible)
		return
	}
	scored, err := c.prioritise(ctx, feasible)
	switch {
	case err != nil && len(feasible) == 1:
		c.answer.Best = []string{feasible[0].Node().Name}
		return
	case err != nil && c.answer.Nominated == "":
		c.answer.Error = err.Error()
		return
	case err != nil:
		return
	}
	byNode := make(map[string]fwk.NodePluginScores, len(scored))
	highest := scored[0].TotalScore
	for _, node := range scored {
		byNode[node.Name] = node
		highest = max(highest, node.TotalScore)
	}
	for i := range c.answer.Nodes {
		node := &c.answer.Nodes[i]
		if scores, isFeasible := byNode[node.Node]; isFeasible {
			node.score(scores)
			if scores.TotalScore == highest {
				c.answer.Best = append(c.answer.Best, node.Node)
			}
		}
	}
}

// takeOwnNode records the only feasible node of a pod with a deferred resize. The scores of some plugins fail for such a pod.
func (c *cycle) takeOwnNode(feasible []fwk.NodeInfo) {
	for i := range c.answer.Nodes {
		node := &c.answer.Nodes[i]
		if slices.ContainsFunc(feasible, func(info fwk.NodeInfo) bool { return info.Node().Name == node.Node }) {
			node.Total = new(int64)
			c.answer.Best = append(c.answer.Best, node.Node)
		}
	}
}

// prioritise is upstream's prioritizeNodes.
func (c *cycle) prioritise(ctx context.Context, feasible []fwk.NodeInfo) ([]fwk.NodePluginScores, error) {
	if len(c.extenders) == 0 && !c.framework.HasScorePlugins() {
		same := make([]fwk.NodePluginScores, 0, len(feasible))
		for _, node := range feasible {
			same = append(same, fwk.NodePluginScores{Name: node.Node().Name, TotalScore: 1})
		}
		return same, nil
	}
	if status := c.framework.RunPreScorePlugins(ctx, c.state, c.pod, feasible); !status.IsSuccess() {
		return nil, status.AsError()
	}
	scored, status := c.framework.RunScorePlugins(ctx, c.state, c.pod, feasible)
	if !status.IsSuccess() {
		return nil, status.AsError()
	}
	c.addExtenders(scored, feasible)
	return scored, nil
}
