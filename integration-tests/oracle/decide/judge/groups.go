package judge

// Pod groups: runs kube-scheduler's cycle for a pod group with every node evaluated. kube-scheduler chooses any of a pod's best nodes, so
// an answer is correct if some choice leads to it.

import (
	"cmp"
	"context"
	"errors"
	"slices"
	locks "sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// Placed is the given result of one pod: its node, or its message.
type Placed struct {
	Pod     string `json:"pod"`
	Node    string `json:"node"`
	Message string `json:"message"`
	// Nominated is the node to which the pod is nominated after the attempt.
	Nominated string `json:"nominatedNode,omitempty"`
}

// Evicted is a victim of the group.
type Evicted struct {
	Pod string `json:"pod"`
}

// Verdict is the result of a comparison.
type Verdict struct {
	// Result is agrees, differs, or unknown if there are too many choices among equal nodes.
	Result string `json:"result"`
	// Outcome is the kind of answer: placed, refused or gated.
	Outcome string `json:"outcome"`
	// Found is kube-scheduler's result if it differs.
	Found []Placed `json:"found,omitempty"`
	// Victims are kube-scheduler's if the result differs.
	Victims []string `json:"victims,omitempty"`
}

// mostChoices is the maximum number of tried choices.
const mostChoices = 400

// gatedAfter is the maximum time until the queue pops a group that is not gated.
const gatedAfter = 300 * time.Millisecond

// placements is a profile that tries placements in the order of their names, and selects the given one of several best placements.
// kube-scheduler does both at random.
type placements struct {
	framework.Framework
	attempt *attempt
	// chosen are the nodes of the pods that are bound. Permit runs only for these.
	chosen map[string]string
}

// RunPermitPlugins stores the node.
func (p *placements) RunPermitPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) (map[string]time.Duration, *fwk.Status) {
	p.chosen[key(pod)] = node
	return p.Framework.RunPermitPlugins(ctx, state, pod, node)
}

// RunPlacementGeneratePlugins sorts the placements.
func (p *placements) RunPlacementGeneratePlugins(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, nodes []fwk.NodeInfo) ([]*fwk.Placement, *fwk.Status) {
	all, status := p.Framework.RunPlacementGeneratePlugins(ctx, state, group, nodes)
	slices.SortFunc(all, func(a, b *fwk.Placement) int { return cmp.Compare(a.Name, b.Name) })
	return all, status
}

// RunPlacementScorePlugins adds one to the score of the given placement if no other has a higher score.
func (p *placements) RunPlacementScorePlugins(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, assigned []*fwk.PodGroupAssignments, states []fwk.PlacementCycleState) ([]fwk.PlacementPluginScores, *fwk.Status) {
	scores, status := p.Framework.RunPlacementScorePlugins(ctx, state, group, assigned, states)
	var best int64
	for _, score := range scores {
		best = max(best, score.TotalScore)
	}
	for i := range scores {
		if scores[i].TotalScore == best && p.isSaid(group, scores[i].Placement) {
			scores[i].TotalScore++
		}
	}
	return scores, status
}

// RunPodGroupPostFilterPlugins records the victims of DefaultPreemption, and evicts none.
func (p *placements) RunPodGroupPostFilterPlugins(ctx context.Context, state *framework.CycleState, group fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	for _, plugin := range p.PodGroupPostFilterPlugins() {
		if plugin, ok := plugin.(*defaultpreemption.DefaultPreemption); ok {
			plugin.Executor.PreemptPod = p.attempt.evict
		}
	}
	p.attempt.preempts = true
	defer func() { p.attempt.preempts = false }()
	return p.Framework.RunPodGroupPostFilterPlugins(ctx, state, group, schedule)
}

// isSaid is whether a placement has the given node of a pod of the group.
func (p *placements) isSaid(group fwk.PodGroupInfo, placement *fwk.Placement) bool {
	return slices.ContainsFunc(placement.Nodes, func(node fwk.NodeInfo) bool {
		return slices.ContainsFunc(group.GetUnscheduledPods(), func(pod *corev1.Pod) bool {
			return p.attempt.nodeSaid(pod) == node.Node().Name
		})
	})
}

// WithoutPreemption disables PodGroupPostFilter in all profiles: no pod is evicted, and a group can be tried again.
func WithoutPreemption(cfg *config.KubeSchedulerConfiguration) {
	for i := range cfg.Profiles {
		if cfg.Profiles[i].Plugins == nil {
			cfg.Profiles[i].Plugins = &config.Plugins{}
		}
		cfg.Profiles[i].Plugins.PodGroupPostFilter.Disabled = []config.Plugin{{Name: "*"}}
	}
}

// attempt is one cycle of a group.
type attempt struct {
	judge *Judge
	said  map[string]Placed
	// path are the choices as indices of the best nodes, followed by zeros.
	path []int
	// widths are the numbers of best nodes at each choice.
	widths  []int
	isWrong bool
	// preempts is set during the search for victims.
	preempts bool
	mutex    locks.Mutex
	failed   map[string]string
	// nominated and victims are the results of preemption.
	nominated map[string]string
	victims   []string
}

// evict records a victim. Pods that are terminating already are not passed.
func (a *attempt) evict(_ context.Context, _ preemption.Candidate, _ preemption.ExecutorPreemptor, victim *corev1.Pod, _ string) (bool, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.victims = append(a.victims, key(victim))
	return false, nil
}

// nodeSaid is the given node of a pod: where it is nominated during the search for victims.
func (a *attempt) nodeSaid(pod *corev1.Pod) string {
	if a.preempts {
		return a.said[key(pod)].Nominated
	}
	return a.said[key(pod)].Node
}

// CompareGroup compares the given results of a cluster's group; order are all pending pods in order.
func (j *Judge) CompareGroup(ctx context.Context, order []*corev1.Pod, said []Placed, evicted []Evicted) (*Verdict, error) {
	var victims []string
	for _, one := range evicted {
		victims = append(victims, one.Pod)
	}
	slices.Sort(victims)
	known := map[string]Placed{}
	for _, placed := range said {
		known[placed.Pod] = placed
	}
	group := j.nextGroup()
	if group == nil {
		verdict := &Verdict{Result: "agrees", Outcome: "gated"}
		for _, pod := range order {
			if known[key(pod)].Node != "" {
				verdict.Result = "differs"
			}
		}
		return verdict, nil
	}
	sortAs(group, order)
	members := pods(group)
	verdict := &Verdict{Result: "unknown", Outcome: "refused"}
	for _, pod := range members {
		if known[key(pod)].Node != "" {
			verdict.Outcome = "placed"
		}
	}
	if len(victims) > 0 {
		verdict.Outcome = "preempting"
	}
	var path []int
	for range mostChoices {
		tried := &attempt{judge: j, said: known, path: path, failed: map[string]string{}, nominated: map[string]string{}}
		nodes := tried.run(ctx, group, order)
		found, agrees := tried.compare(members, nodes)
		slices.Sort(tried.victims)
		agrees = agrees && slices.Equal(tried.victims, victims)
		if agrees {
			verdict.Result, verdict.Found, verdict.Victims = "agrees", nil, nil
			return verdict, nil
		}
		if verdict.Found == nil {
			verdict.Found, verdict.Victims = found, tried.victims
		}
		if path = tried.next(); path == nil || len(nodes) > 0 {
			// All choices are tried, or pods were bound and the cluster has changed.
			verdict.Result = "differs"
			if len(nodes) > 0 && verdict.Outcome == "refused" && path != nil {
				verdict.Result = "unknown"
			}
			return verdict, nil
		}
	}
	return verdict, nil
}

// next is the following path; nil after the last one.
func (a *attempt) next() []int {
	full := make([]int, len(a.widths))
	copy(full, a.path)
	for i := len(full) - 1; i >= 0; i-- {
		if full[i]+1 < a.widths[i] {
			full[i]++
			return full[:i+1]
		}
	}
	return nil
}

func (j *Judge) nextGroup() *framework.QueuedPodGroupInfo {
	popped := make(chan *framework.QueuedPodGroupInfo, 1)
	go func() {
		entity, err := j.sched.SchedulingQueue.Pop(j.logger)
		group, isGroup := entity.(*framework.QueuedPodGroupInfo)
		if err == nil && isGroup {
			popped <- group
		}
	}()
	select {
	case group := <-popped:
		return group
	case <-time.After(gatedAfter):
		return nil
	}
}

// sortAs orders a group's pods; upstream's order is that of its informer.
func sortAs(group *framework.QueuedPodGroupInfo, order []*corev1.Pod) {
	place := map[string]int{}
	for i, pod := range order {
		place[key(pod)] = i
	}
	for _, queued := range group.QueuedPodInfos {
		slices.SortFunc(queued, func(a, b *framework.QueuedPodInfo) int {
			return cmp.Compare(place[key(a.Pod)], place[key(b.Pod)])
		})
	}
}

func pods(group *framework.QueuedPodGroupInfo) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, queued := range group.QueuedPodInfos {
		for _, info := range queued {
			pods = append(pods, info.Pod)
		}
	}
	return pods
}

func key(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

// run returns the nodes of the placed pods; none if the group is not placed.
func (a *attempt) run(ctx context.Context, group *framework.QueuedPodGroupInfo, order []*corev1.Pod) map[string]string {
	sched := a.judge.sched
	chosen := map[string]string{}
	for name, profile := range sched.Profiles {
		defer func() { sched.Profiles[name] = profile }()
		sched.Profiles[name] = &placements{Framework: profile, attempt: a, chosen: chosen}
	}
	sched.NextEntity = func(klog.Logger) (framework.QueuedEntityInfo, error) { return group, nil }
	sched.FailureHandler = func(_ context.Context, _ framework.Framework, info *framework.QueuedPodInfo, status *fwk.Status, nomination *fwk.NominatingInfo, _ time.Time) {
		a.mutex.Lock()
		defer a.mutex.Unlock()
		a.nominated[key(info.Pod)] = info.Pod.Status.NominatedNodeName
		if nomination != nil && nomination.NominatingMode == fwk.ModeOverride {
			a.nominated[key(info.Pod)] = nomination.NominatedNodeName
		}
		a.failed[key(info.Pod)] = status.AsError().Error()
	}
	sched.SchedulePod = func(ctx context.Context, profile framework.Framework, state fwk.CycleState, info *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
		return a.schedule(ctx, profile, state, info.Pod)
	}
	sched.ScheduleOne(ctx)
	// A nomination is removed while a pod is assumed, and not restored when the assumption is reverted.
	for _, pod := range order {
		if info, err := framework.NewPodInfo(pod); err == nil && pod.Status.NominatedNodeName != "" {
			sched.SchedulingQueue.AddNominatedPod(a.judge.logger, info, nil)
		}
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for pod := range a.failed {
		delete(chosen, pod)
	}
	return chosen
}

// schedule is schedulePod with every node evaluated.
func (a *attempt) schedule(ctx context.Context, profile framework.Framework, state fwk.CycleState, pod *corev1.Pod) (scheduler.ScheduleResult, error) {
	none := scheduler.ScheduleResult{}
	cycle, err := a.judge.newCycle(pod)
	if err != nil {
		return none, err
	}
	cycle.framework, cycle.state = profile, state
	if len(cycle.nodes) == 0 {
		return none, scheduler.ErrNoNodesAvailable
	}
	feasible := cycle.extend(cycle.filter(ctx))
	if cycle.answer.Error == "" && len(feasible) > 0 {
		cycle.score(ctx, feasible)
	}
	switch {
	case cycle.answer.Error != "":
		return none, errors.New(cycle.answer.Error)
	case cycle.answer.Nominated != "":
		return scheduler.ScheduleResult{SuggestedHost: cycle.answer.Nominated, EvaluatedNodes: 1, FeasibleNodes: 1}, nil
	case len(feasible) == 0:
		return none, &framework.FitError{Pod: pod, NumAllNodes: len(cycle.nodes), Diagnosis: cycle.diagnosis}
	}
	host := a.choose(pod, cycle.nodes, cycle.answer.Best)
	return scheduler.ScheduleResult{SuggestedHost: host, EvaluatedNodes: len(cycle.nodes), FeasibleNodes: len(feasible)}, nil
}

// choose returns the given node if it is among the best; without a given one, or if it is in another placement, the path's.
func (a *attempt) choose(pod *corev1.Pod, nodes []fwk.NodeInfo, best []string) string {
	said := a.nodeSaid(pod)
	isNamed := func(node fwk.NodeInfo) bool { return node.Node().Name == said }
	if said != "" && slices.ContainsFunc(nodes, isNamed) {
		if slices.Contains(best, said) {
			return said
		}
		if !a.preempts {
			a.isWrong = true
			return best[0]
		}
		// The nomination may be older than the attempt.
	}
	choice := 0
	if at := len(a.widths); at < len(a.path) {
		choice = min(a.path[at], len(best)-1)
	}
	a.widths = append(a.widths, len(best))
	return best[choice]
}

// compare returns the results, and whether they equal the given ones. The message of a pod that had a node during its group's attempt is
// upstream's, and not compared.
func (a *attempt) compare(members []*corev1.Pod, nodes map[string]string) ([]Placed, bool) {
	agrees := !a.isWrong
	var found []Placed
	for _, pod := range members {
		name := key(pod)
		placed := Placed{Pod: name, Node: nodes[name], Message: a.failed[name], Nominated: a.nominated[name]}
		found = append(found, placed)
		said := a.said[name]
		agrees = agrees && placed.Node == said.Node && (placed.Node != "" || placed.Nominated == said.Nominated)
		isOwn := len(placed.Message) > 2 && placed.Message[:2] == "0/"
		agrees = agrees && (!isOwn || placed.Message == said.Message)
	}
	return found, agrees
}
