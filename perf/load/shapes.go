package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// shape defines the cluster and the measured pods. perf/src/shape.rs names the corresponding workload of scheduler_perf.
type shape struct {
	namespaces []string
	zones      []string
	service    *v1.Service
	// standing is the existing pod of an index; the caller sets its node.
	standing func(index int) *v1.Pod
	// measured is the measured pod of an index; nil if a controller creates the pods.
	measured func(index int) *v1.Pod
	// priorities are the pods' PriorityClasses.
	priorities map[string]int32
	// nowhere is the infeasible pod of an index; nil if there are none.
	nowhere func(index int) *v1.Pod
	// volumes is whether each pod has a claim with a bound CSI volume.
	volumes bool
	// turn is the number of consecutive standing pods on a node; 0 means 1.
	turn int
	// controller creates the pods: statefulset, job, or nothing for the client.
	controller string
}

const highPriority = "high"

var threeZones = []string{"moon-1", "moon-2", "moon-3"}

func standingPod(namespace string) func(int) *v1.Pod {
	return func(index int) *v1.Pod {
		return pod(namespace, fmt.Sprintf("standing-%05d", index), roleStanding, small())
	}
}

func measuredPod(namespace string, change func(*v1.Pod)) func(int) *v1.Pod {
	return func(index int) *v1.Pod {
		made := pod(namespace, measuredName(index), roleMeasured, small())
		if change != nil {
			change(made)
		}
		return made
	}
}

func measuredName(index int) string { return fmt.Sprintf("pod-%06d", index) }

func with(pods func(int) *v1.Pod, change func(*v1.Pod)) func(int) *v1.Pod {
	return func(index int) *v1.Pod {
		made := pods(index)
		change(made)
		return made
	}
}

func shapeOf(name string) (shape, error) {
	both := []string{"sched-0", "sched-1"}
	switch name {
	case "basic":
		return shape{standing: standingPod("default"), measured: measuredPod("default", nil)}, nil
	case "spread", "steady-50", "steady-200":
		return shape{
			namespaces: []string{"service-ns"}, zones: threeZones, service: service("service-ns"),
			standing: standingPod("default"),
			measured: func(index int) *v1.Pod {
				// pod-with-label.yaml has no requests.
				made := pod("service-ns", measuredName(index), roleMeasured, nil)
				made.Labels["app"] = "scheduler-perf"
				return made
			},
		}, nil
	case "anti-affinity":
		return shape{
			namespaces: both, standing: with(standingPod("sched-0"), apart), measured: measuredPod("sched-1", apart),
		}, nil
	case "affinity":
		return shape{
			namespaces: both, zones: []string{"zone1"},
			standing: with(standingPod("sched-0"), near), measured: measuredPod("sched-1", near),
		}, nil
	case "mixed":
		return shape{
			namespaces: both, zones: []string{"zone1"},
			standing: mixedStanding, turn: 5, measured: measuredPod("sched-0", nil),
		}, nil
	case "preemption":
		return shape{
			priorities: map[string]int32{highPriority: 9_999_999},
			standing: func(index int) *v1.Pod {
				made := pod("default", fmt.Sprintf("standing-%05d", index), roleStanding, room("900m", "500Mi"))
				// Deleted immediately, because no kubelet ends them.
				made.Spec.TerminationGracePeriodSeconds = new(int64)
				return made
			},
			measured: func(index int) *v1.Pod {
				made := pod("default", measuredName(index), roleMeasured, room("3000m", "500Mi"))
				made.Spec.PriorityClassName = highPriority
				return made
			},
		}, nil
	case "unschedulable":
		return shape{
			priorities: map[string]int32{highPriority: 10},
			standing:   standingPod("default"), measured: measuredPod("default", nil), nowhere: nowherePod,
		}, nil
	case "volumes":
		return shape{standing: standingPod("default"), measured: measuredPod("default", nil), volumes: true}, nil
	case "statefulset", "job":
		return shape{standing: standingPod("default"), controller: name}, nil
	default:
		return shape{}, fmt.Errorf("no shape is called %q", name)
	}
}

// nowherePod requests more than any node has.
func nowherePod(index int) *v1.Pod {
	made := pod("default", fmt.Sprintf("nowhere-%05d", index), roleNowhere, room("9", "500Mi"))
	made.Spec.PriorityClassName = highPriority
	return made
}

// mixedStanding alternates a plain pod and one with each kind of affinity. Each node gets the pods of one turn, so that no two pods with
// anti-affinity share a node.
func mixedStanding(index int) *v1.Pod {
	made := standingPod("sched-0")(index)
	changes := []func(*v1.Pod){func(*v1.Pod) {}, near, apart, ratherNear, ratherApart}
	changes[index%len(changes)](made)
	return made
}

func service(namespace string) *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "service"},
		Spec: v1.ServiceSpec{
			Selector: map[string]string{"app": "scheduler-perf"},
			Ports:    []v1.ServicePort{{Port: 80, Protocol: v1.ProtocolTCP, TargetPort: intstr.FromInt32(8000)}},
		},
	}
}

// nodeOf is the node of a standing pod.
func (s shape) nodeOf(index, nodes int) int {
	return index / max(s.turn, 1) % nodes
}
