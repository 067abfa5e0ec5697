package judge

// This file knows preemption: kube-scheduler's own DefaultPreemption is run where no node fits, and what it learns of each
// node on the way is noted. It evicts no pod and takes back no nomination.

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

// Preemption is what DefaultPreemption makes of a pod that fits no node.
type Preemption struct {
	// Code is Success, Unschedulable or Error.
	Code string `json:"code"`
	// Message is what is told of it.
	Message string `json:"message"`
	// Node is the one that the pod is nominated to: the first of Tied.
	Node string `json:"node,omitempty"`
	// Clears tells that a nomination that the pod has is taken back.
	Clears bool `json:"clears,omitempty"`
	// Tied are the nodes of which upstream takes any, sorted: Message names one of them.
	Tied []string `json:"tied,omitempty"`
	// Candidates are the nodes on which preemption would help, sorted.
	Candidates []Candidate `json:"candidates,omitempty"`
}

// Candidate is a node with the pods that would have to go there.
type Candidate struct {
	Node string `json:"node"`
	// Victims are namespace/name, the most important first.
	Victims []string `json:"victims"`
	// Violations counts the victims whose going violates a budget.
	Violations int `json:"violations"`
}

// quiet is a framework that can read everything and write nothing.
type quiet struct {
	framework.Framework
	nowhere clientset.Interface
}

func (q quiet) ClientSet() clientset.Interface { return q.nowhere }

// APICacher would have the queue forget a nomination.
func (q quiet) APICacher() fwk.APICacher { return nil }

// witness is the plugin, with a note made of each node that it looks at.
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

// candidate is one that the plugin's own code can choose from.
type candidate struct {
	node    string
	victims *extenderv1.Victims
}

func (c candidate) Victims() *extenderv1.Victims { return c.victims }
func (c candidate) Name() string                 { return c.node }
func (c candidate) NumPodGroupDisruptions() int  { return 0 }

// SelectVictimsOnNode gives the pods of a node to the plugin in the order of their names, which counts where they are
// alike in all else: upstream takes them as they come, and a pod that has not started is one that starts when it is looked
// at.
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

// sorted are budgets by namespace and name, which upstream takes as a map has them.
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

// preempt runs the plugin, where the profile has it at PostFilter.
func (c *cycle) preempt(ctx context.Context, cfg *config.KubeSchedulerConfiguration) error {
	args := argsOf(cfg, c.pod.Spec.SchedulerName)
	isOn := slices.ContainsFunc(c.framework.ListPlugins().PostFilter.Enabled, func(plugin config.Plugin) bool {
		return plugin.Name == defaultpreemption.Name
	})
	if !isOn || args == nil {
		return nil
	}
	features := plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	// Else it would go on in the background.
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

// byImportance orders victims as the plugin does, and those that are alike by name: the plugin leaves open which comes
// first.
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

// draws is how often upstream chooses between two candidates before they are taken for different ones.
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
