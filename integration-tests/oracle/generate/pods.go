package main

// Pods: their number, nodes and features.

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var longAgo = metav1.NewTime(time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC))

func (w *world) addPods() {
	bound, pending := w.between(2, 14), w.between(3, 16)
	if len(w.nodes) == 0 {
		bound = 0
	}
	for i := range bound {
		pod := w.newPod(fmt.Sprintf("on-%d", i))
		pod.Spec.NodeName = pick(w.dice, w.nodes...).Name
		w.equip(pod)
		w.live(pod)
	}
	w.crowd()
	w.tellApart()
	for i := range pending {
		pod := w.newPod(fmt.Sprintf("pod-%d", i))
		w.equip(pod)
		w.wait(pod)
	}
}

func (w *world) newPod(name string) *corev1.Pod {
	pod := add(w, "v1", "Pod", &corev1.Pod{ObjectMeta: within(pick(w.dice, w.namespaces...), name)})
	w.pods = append(w.pods, pod)
	pod.Labels = w.podLabels()
	if w.chance(50) {
		// As for pods of a StatefulSet or an indexed Job.
		if pod.Labels == nil {
			pod.Labels = map[string]string{}
		}
		pod.Labels["index"] = name
	}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "registry.example.com/web:v1"}}
	return pod
}

func (w *world) podLabels() map[string]string {
	if w.chance(8) {
		return nil
	}
	labels := map[string]string{"app": pick(w.dice, "web", "web", "db", "cache")}
	if w.chance(60) {
		labels["tier"] = pick(w.dice, "front", "back", "")
	}
	if w.chance(50) {
		labels["version"] = pick(w.dice, "v1", "v2")
	}
	return labels
}

// equip sets fields of both bound and pending pods.
func (w *world) equip(pod *corev1.Pod) {
	w.size(pod)
	if w.has["images"] {
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].Image = w.image()
		}
	}
	if w.has["ports"] && w.chance(35) {
		w.openPorts(pod)
		w.makeRoom(pod)
	}
	if w.has["interpod"] && w.chance(45) {
		w.befriend(pod)
	}
	if w.has["spread"] && w.chance(45) {
		w.spread(pod)
	}
	if w.has["volumes"] && w.chance(45) {
		w.mount(pod)
	}
	if w.has["controllers"] && w.chance(50) {
		w.own(pod)
	}
	if w.has["priorities"] {
		w.prioritise(pod)
	}
	if w.has["preemption"] {
		w.outrank(pod)
	}
}

// live sets a kubelet's status of a bound pod.
func (w *world) live(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodRunning
	pod.Status.StartTime = longAgo.DeepCopy()
	if w.chance(10) {
		pod.Status.Phase = pick(w.dice, corev1.PodSucceeded, corev1.PodFailed, corev1.PodPending)
	}
	if w.chance(12) {
		pod.DeletionTimestamp = longAgo.DeepCopy()
		pod.DeletionGracePeriodSeconds = pointer[int64](30)
		pod.Finalizers = []string{"example.com/wait"}
	}
	if w.has["resources"] && w.chance(25) {
		w.resize(pod)
	}
	if w.has["resizes"] && w.chance(50) {
		w.deferResize(pod)
	}
	if w.has["amounts"] && w.chance(40) {
		w.haveDevices(pod)
	}
	if w.has["preemption"] {
		w.begin(pod)
	}
}

// wait sets fields that restrict the nodes of a pending pod.
func (w *world) wait(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodPending
	if w.has["taints"] && w.chance(60) {
		w.tolerate(pod)
	}
	if w.has["nodeaffinity"] && w.chance(50) {
		w.attract(pod)
	}
	if w.has["gates"] && w.chance(10) {
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/first"}, {Name: "example.com/second"}}
	}
	if w.has["priorities"] && len(w.nodes) > 0 && w.chance(20) {
		pod.Status.NominatedNodeName = pick(w.dice, w.nodes...).Name
		if w.chance(5) {
			pod.Status.NominatedNodeName = "gone"
		}
	}
	if w.has["claims"] && w.chance(30) {
		w.claim(pod)
	}
	if w.has["claims"] && w.has["extended"] && w.chance(10) {
		w.askClass(pod)
	}
	if w.has["declared"] && w.chance(25) {
		w.require(pod)
	}
	pod.Spec.SchedulerName = pick(w.dice, w.schedulers...)
	if w.chance(2) {
		pod.Spec.SchedulerName = "somebody-else"
	}
}

// require requests a declared node feature.
func (w *world) require(pod *corev1.Pod) {
	always := corev1.ContainerRestartPolicyNever
	pod.Spec.Containers[0].RestartPolicy = &always
	pod.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{
		Action: corev1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
			Operator: corev1.ContainerRestartRuleOnExitCodesOpIn,
			Values:   []int32{42},
		},
	}}
}

// image is an image that nodes may have, in equivalent or different spellings.
func (w *world) image() string {
	image := pick(w.dice, images...).name
	if w.chance(15) {
		return pick(w.dice, "busybox", "registry.example.com/model", "registry.example.com/web", "nowhere.example.com/none:v0")
	}
	return image
}

func (w *world) openPorts(pod *corev1.Pod) {
	if w.chance(12) {
		pod.Spec.HostNetwork = true
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: int32(w.between(8080, 8082))}}
		pod.Spec.Containers[0].Ports[0].HostPort = pod.Spec.Containers[0].Ports[0].ContainerPort
		return
	}
	for _, port := range some(w.dice, 1, 2, 8080, 8081, 8082) {
		pod.Spec.Containers[0].Ports = append(pod.Spec.Containers[0].Ports, corev1.ContainerPort{
			ContainerPort: 80,
			HostPort:      int32(port),
			HostIP:        pick(w.dice, "", "", "0.0.0.0", "127.0.0.1", "10.0.0.1"),
			Protocol:      pick(w.dice, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP),
		})
	}
}

func (w *world) tolerate(pod *corev1.Pod) {
	for _, key := range some(w.dice, 1, 3, "dedicated", "spot", "gpu", corev1.TaintNodeUnschedulable, corev1.TaintNodeMemoryPressure) {
		toleration := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists}
		if w.chance(40) {
			toleration.Operator = pick(w.dice, corev1.TolerationOpEqual, "")
			toleration.Value = pick(w.dice, "", "a", "b", "true")
		}
		toleration.Effect = pick(w.dice, "", "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
		if toleration.Effect == corev1.TaintEffectNoExecute && w.chance(50) {
			toleration.TolerationSeconds = pointer[int64](60)
		}
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, toleration)
	}
	if w.has["operators"] && w.chance(70) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key:      pick(w.dice, "level", "level", "level", "dedicated"),
			Operator: pick(w.dice, corev1.TolerationOpGt, corev1.TolerationOpLt),
			Value:    pick(w.dice, "0", "1", "2", "3", "10", "-1", "9223372036854775807"),
			Effect:   pick(w.dice, "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule),
		})
	}
	if w.chance(10) {
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
}
