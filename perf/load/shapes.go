package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// shape is what the cluster and the measured pods look like. The workload of scheduler_perf that each is modelled on is named
// in perf/src/shape.rs.
type shape struct {
	namespaces []string
	zones      []string
	service    *v1.Service
	// standing is the pod of this index that is on a node before the scheduler starts; the node is set by the caller.
	standing func(index int) *v1.Pod
	// measured is the pod of this index that the scheduler binds, nil where a controller makes the pods.
	measured func(index int) *v1.Pod
	// priorities are the PriorityClasses that the pods name.
	priorities map[string]int32
	// nowhere is the pod of this index that fits nowhere, nil where there are none.
	nowhere func(index int) *v1.Pod
	// volumes says that each pod has a claim, which is bound to a CSI volume of its own.
	volumes bool
	// turn is how many standing pods in a row are on the same node, 1 where it is 0.
	turn int
	// controller is what makes the pods: statefulset, job, or nothing for the client itself.
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
				// pod-with-label.yaml asks for no resources.
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
				// They go at once, as no kubelet is there to end them.
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

// nowherePod asks for more than any node has.
func nowherePod(index int) *v1.Pod {
	made := pod("default", fmt.Sprintf("nowhere-%05d", index), roleNowhere, room("9", "500Mi"))
	made.Spec.PriorityClassName = highPriority
	return made
}

// mixedStanding is, in turn, a plain pod and one with each kind of wish about others. Each node gets the pods of one turn,
// so that no two pods that are to be apart are on a node.
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

// nodeOf is the node on which a standing pod is.
func (s shape) nodeOf(index, nodes int) int {
	return index / max(s.turn, 1) % nodes
}
