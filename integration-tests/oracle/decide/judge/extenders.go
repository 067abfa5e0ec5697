package judge

// Calls of extenders by kube-scheduler's code, in the order of findNodesThatPassExtenders and prioritizeNodes, which are not exported.

import (
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// extend calls the filtering extenders, and records their rejections.
func (c *cycle) extend(feasible []fwk.NodeInfo) []fwk.NodeInfo {
	left := feasible
	for _, extender := range c.extenders {
		if len(left) == 0 || c.answer.Error != "" {
			break
		}
		if !extender.IsInterested(c.pod) {
			continue
		}
		kept, failed, unresolvable, err := extender.Filter(c.pod, left)
		switch {
		case err != nil && extender.IsIgnorable():
			continue
		case err != nil:
			c.answer.Error = err.Error()
			return feasible
		}
		for name, message := range unresolvable {
			c.diagnosis.NodeToStatus.Set(name, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, message))
		}
		for name, message := range failed {
			if _, both := unresolvable[name]; !both {
				c.diagnosis.NodeToStatus.Set(name, fwk.NewStatus(fwk.Unschedulable, message))
			}
		}
		left = kept
	}
	c.noteTaken(feasible, left)
	return left
}

// noteTaken replaces the success of nodes that extenders removed by their rejection.
func (c *cycle) noteTaken(feasible, left []fwk.NodeInfo) {
	taken := make(map[string]bool, len(feasible))
	for _, node := range feasible {
		taken[node.Node().Name] = true
	}
	for _, node := range left {
		delete(taken, node.Node().Name)
	}
	for i := range c.answer.Nodes {
		if name := c.answer.Nodes[i].Node; taken[name] {
			c.answer.Nodes[i] = noted(name, c.diagnosis.NodeToStatus.Get(name))
			c.answer.Nodes[i].Plugin = framework.ExtenderName
		}
	}
}

// addExtenders calls the scoring extenders sequentially for a fixed order, and adds their scores. Failed extenders add nothing.
func (c *cycle) addExtenders(scored []fwk.NodePluginScores, feasible []fwk.NodeInfo) {
	places := make(map[string]int, len(feasible))
	for place, node := range feasible {
		places[node.Node().Name] = place
	}
	for _, extender := range c.extenders {
		if !extender.IsPrioritizer() || !extender.IsInterested(c.pod) {
			continue
		}
		priorities, weight, err := extender.Prioritize(c.pod, feasible)
		if err != nil {
			continue
		}
		for _, priority := range *priorities {
			place, isFeasible := places[priority.Host]
			if !isFeasible {
				continue
			}
			node := &scored[place]
			final := priority.Score * weight * (fwk.MaxNodeScore / extenderv1.MaxExtenderPriority)
			node.RawScores = append(node.RawScores, fwk.PluginScore{Name: extender.Name(), Score: priority.Score})
			node.Scores = append(node.Scores, fwk.PluginScore{Name: extender.Name(), Score: final})
			node.TotalScore += final
		}
	}
}
