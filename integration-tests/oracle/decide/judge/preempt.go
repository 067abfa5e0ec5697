package judge

// Preemption: runs kube-scheduler's DefaultPreemption if no node is feasible, and records its result per node. It evicts no pod and clears
// no nomination.

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	locks "sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	policylisters "k8s.io/client-go/listers/policy/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	plfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// Preemption is DefaultPreemption's result for a pod without feasible nodes.
type Preemption struct {
	// Code is Success, Unschedulable or Error.
	Code string `json:"code"`
	// Message is the status message.
	Message string `json:"message"`
	// Node is the nominated node: the first of Tied.
	Node string `json:"node,omitempty"`
	// Clears is whether the pod's nomination is cleared.
	Clears bool `json:"clears,omitempty"`
	// Tied are the nodes of which upstream chooses any, sorted; Message names one of them.
	Tied []string `json:"tied,omitempty"`
	// Candidates are the candidate nodes, sorted.
	Candidates []Candidate `json:"candidates,omitempty"`
}

// Candidate is a node with its victims.
type Candidate struct {
	Node string `json:"node"`
	// Victims are namespace/name, the most important first.
	Victims []string `json:"victims"`
	// Violations is the number of victims that violate a budget.
	Violations int `json:"violations"`
}

// quiet is a read-only framework.
type quiet struct {
	framework.Framework
	nowhere clientset.Interface
}

func (q quiet) ClientSet() clientset.Interface { return q.nowhere }

// APICacher would clear a nomination in the queue.
func (q quiet) APICacher() fwk.APICacher { return nil }

// witness is the plugin with a record of each evaluated node.
type witness struct {
	*defaultpreemption.DefaultPreemption
	mutex locks.Mutex
	found []found
}

type found struct {
	node       string
	pods       []*corev1.Pod
	violations int
}

func (f found) candidate() candidate {
	return candidate{f.node, &extenderv1.Victims{Pods: f.pods, NumPDBViolations: int64(f.violations)}}
}

// candidate is one for the plugin's choice.
type candidate struct {
	node    string
	victims *extenderv1.Victims
}

func (c candidate) Victims() *extenderv1.Victims { return c.victims }
func (c candidate) Name() string                 { return c.node }
func (c candidate) NumPodGroupDisruptions() int  { return 0 }

// SelectVictimsOnNode passes a node's pods to the plugin by name, which matters for otherwise equal pods. Upstream's order is arbitrary,
// and the start time of a pod that has not started is the current time.
func (w *witness) SelectVictimsOnNode(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo,
	possible []*preemption.DomainVictim, budgets []*policyv1.PodDisruptionBudget) ([]*corev1.Pod, int, *fwk.Status) {
	key := func(victim *preemption.DomainVictim) string {
		pod := victim.Pods()[0].GetPod()
		return pod.Name + " " + string(pod.UID)
	}
	slices.SortFunc(possible, func(a, b *preemption.DomainVictim) int { return cmp.Compare(key(a), key(b)) })
	for _, victim := range possible {
		victim.Victim = preemption.NewPodVictim(victim.Pods()[0], nil, nil)
	}
	pods, violations, status := w.DefaultPreemption.SelectVictimsOnNode(ctx, state, pod, node, possible, budgets)
	if status.IsSuccess() && len(pods) > 0 {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.found = append(w.found, found{node.Node().Name, pods, violations})
	}
	return pods, violations, status
}

// sorted returns budgets by namespace and name, which upstream returns in map order.
type sorted struct {
	policylisters.PodDisruptionBudgetLister
}

func (s sorted) List(selector labels.Selector) ([]*policyv1.PodDisruptionBudget, error) {
	budgets, err := s.PodDisruptionBudgetLister.List(selector)
	slices.SortFunc(budgets, func(a, b *policyv1.PodDisruptionBudget) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return budgets, err
}

// preempt runs the plugin if the profile has it at PostFilter.
func (c *cycle) preempt(ctx context.Context, cfg *config.KubeSchedulerConfiguration) error {
	args := argsOf(cfg, c.pod.Spec.SchedulerName)
	isOn := slices.ContainsFunc(c.framework.ListPlugins().PostFilter.Enabled, func(plugin config.Plugin) bool {
		return plugin.Name == defaultpreemption.Name
	})
	if !isOn || args == nil {
		return nil
	}
	features := plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	// Otherwise it would continue in the background.
	features.EnableAsyncPreemption = false
	plugin, err := defaultpreemption.New(ctx, args, quiet{c.framework, fake.NewClientset()}, features)
	if err != nil {
		return err
	}
	plugin.Executor.PreemptPod = func(context.Context, preemption.Candidate, preemption.ExecutorPreemptor, *corev1.Pod, string) (bool, error) {
		return false, nil
	}
	watched := &witness{DefaultPreemption: plugin}
	plugin.Evaluator.Interface = watched
	plugin.Evaluator.PdbLister = sorted{plugin.Evaluator.PdbLister}
	result, status := plugin.PostFilter(ctx, c.state, c.pod, c.diagnosis.NodeToStatus)
	c.answer.Preemption = watched.told(ctx, result, status)
	return nil
}

func argsOf(cfg *config.KubeSchedulerConfiguration, name string) *config.DefaultPreemptionArgs {
	for _, profile := range cfg.Profiles {
		for _, plugin := range profile.PluginConfig {
			if args, ok := plugin.Args.(*config.DefaultPreemptionArgs); ok && profile.SchedulerName == name {
				return args
			}
		}
	}
	return nil
}

// byImportance orders victims like the plugin, and equal ones by name, which the plugin leaves open.
func byImportance(a, b *corev1.Pod) int {
	started := func(pod *corev1.Pod) int64 {
		if pod.Status.StartTime == nil {
			return math.MaxInt64
		}
		return pod.Status.StartTime.UnixNano()
	}
	return cmp.Or(
		cmp.Compare(corev1helpers.PodPriority(b), corev1helpers.PodPriority(a)),
		cmp.Compare(started(a), started(b)),
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.UID, b.UID),
	)
}

// draws is the number of choices between two candidates before they count as different.
const draws = 64

func (w *witness) told(ctx context.Context, result *fwk.PostFilterResult, status *fwk.Status) *Preemption {
	told := &Preemption{Code: status.Code().String(), Message: status.Message()}
	slices.SortFunc(w.found, func(a, b found) int { return cmp.Compare(a.node, b.node) })
	for _, found := range w.found {
		slices.SortStableFunc(found.pods, byImportance)
		victims := make([]string, 0, len(found.pods))
		for _, pod := range found.pods {
			victims = append(victims, pod.Namespace+"/"+pod.Name)
		}
		told.Candidates = append(told.Candidates, Candidate{found.node, victims, found.violations})
	}
	if result == nil || result.NominatingInfo == nil {
		return told
	}
	chosen := result.NominatedNodeName
	told.Clears = chosen == ""
	place := slices.IndexFunc(w.found, func(found found) bool { return found.node == chosen })
	if place < 0 {
		return told
	}
	best := w.found[place].candidate()
	for _, found := range w.found {
		other := found.candidate()
		for range draws {
			if other.node == chosen || w.Evaluator.SelectCandidate(ctx, []preemption.Candidate{best, other}).Name() == other.node {
				told.Tied = append(told.Tied, other.node)
				break
			}
		}
	}
	told.Node = told.Tied[0]
	told.Message = strings.Replace(told.Message, fmt.Sprintf(" on node %s, ", chosen), fmt.Sprintf(" on node %s, ", told.Node), 1)
	return told
}
