package main

// Resource requests of pods.

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func (w *world) size(pod *corev1.Pod) {
	main := &pod.Spec.Containers[0]
	if !w.has["resources"] {
		if w.chance(60) {
			main.Resources.Requests = corev1.ResourceList{
				corev1.ResourceCPU:    quantity(pick(w.dice, "100m", "250m", "500m", "1")),
				corev1.ResourceMemory: quantity(pick(w.dice, "64Mi", "256Mi", "1Gi")),
			}
		}
		return
	}
	main.Resources = w.resources()
	for i := range w.between(0, 2) {
		more := corev1.Container{Name: fmt.Sprintf("more-%d", i), Image: "busybox:latest"}
		if w.chance(70) {
			more.Resources = w.resources()
		}
		pod.Spec.Containers = append(pod.Spec.Containers, more)
	}
	w.addInitContainers(pod)
	if w.chance(12) {
		pod.Spec.RuntimeClassName = pointer("sandboxed")
		pod.Spec.Overhead = corev1.ResourceList{
			corev1.ResourceCPU:    quantity(pick(w.dice, "50m", "250m")),
			corev1.ResourceMemory: quantity(pick(w.dice, "64Mi", "120Mi")),
		}
	}
	if w.chance(12) {
		w.sizeWhole(pod)
	}
}

func (w *world) addInitContainers(pod *corev1.Pod) {
	for i := range w.between(-3, 3) {
		container := corev1.Container{Name: fmt.Sprintf("init-%d", i), Image: "busybox:latest"}
		if w.chance(80) {
			container.Resources = w.resources()
		}
		if w.chance(50) {
			container.RestartPolicy = pointer(corev1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
	}
}

func (w *world) resources() corev1.ResourceRequirements {
	list := corev1.ResourceList{}
	if w.chance(85) {
		list[corev1.ResourceCPU] = quantity(pick(w.dice, "10m", "100m", "250m", "500m", "1", "2"))
	}
	if w.chance(85) {
		list[corev1.ResourceMemory] = quantity(pick(w.dice, "32Mi", "128Mi", "256Mi", "1Gi", "2Gi", "500M"))
	}
	if w.chance(10) {
		list[corev1.ResourceEphemeralStorage] = quantity(pick(w.dice, "100Mi", "20Gi"))
	}
	if w.has["odd"] && w.chance(8) {
		list[corev1.ResourceMemory] = quantity(pick(w.dice, "0", "134217728500m", "1", "1e3", "1E"))
	}
	if w.has["odd"] && w.chance(5) {
		list[corev1.ResourceCPU] = quantity(pick(w.dice, "0", "1u", "1000001n", "100k"))
	}
	needed := corev1.ResourceRequirements{Requests: list}
	if len(list) > 0 && w.chance(15) {
		needed = corev1.ResourceRequirements{Limits: list}
	}
	if w.chance(8) {
		withLimit(&needed, gpu, pick(w.dice, "1", "2"))
	}
	if w.chance(3) {
		withLimit(&needed, pick(w.dice, fpga, corev1.ResourceName("example.com/nowhere")), "1")
	}
	_, hasCPU := list[corev1.ResourceCPU]
	_, hasMemory := list[corev1.ResourceMemory]
	if (hasCPU || hasMemory) && w.chance(5) {
		withLimit(&needed, hugepages, pick(w.dice, "32Mi", "64Mi"))
	}
	return needed
}

// withLimit requests a resource that cannot be overcommitted.
func withLimit(needed *corev1.ResourceRequirements, name corev1.ResourceName, amount string) {
	if needed.Limits == nil {
		needed.Limits = corev1.ResourceList{}
	}
	needed.Limits[name] = quantity(amount)
	if needed.Requests != nil {
		needed.Requests[name] = quantity(amount)
	}
}

// sizeWhole sets pod-level resources. The API server requires at least the sum of the containers.
func (w *world) sizeWhole(pod *corev1.Pod) {
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].Resources = w.small()
	}
	for i := range pod.Spec.InitContainers {
		pod.Spec.InitContainers[i].Resources = w.small()
	}
	whole := &corev1.ResourceRequirements{}
	names := some(w.dice, 1, 2, corev1.ResourceCPU, corev1.ResourceMemory)
	amounts := corev1.ResourceList{corev1.ResourceCPU: quantity("2"), corev1.ResourceMemory: quantity("3Gi")}
	list := corev1.ResourceList{}
	for _, name := range names {
		list[name] = amounts[name]
	}
	if w.chance(40) {
		whole.Limits = list
	} else {
		whole.Requests = list
	}
	pod.Spec.Resources = whole
}

func (w *world) small() corev1.ResourceRequirements {
	if w.chance(40) {
		return corev1.ResourceRequirements{}
	}
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU:    quantity(pick(w.dice, "10m", "100m")),
		corev1.ResourceMemory: quantity(pick(w.dice, "32Mi", "64Mi")),
	}}
}

// resize puts a bound pod into a resize: the kubelet's allocation differs from the spec.
func (w *world) resize(pod *corev1.Pod) {
	condition := pick(w.dice, corev1.PodResizePending, corev1.PodResizeInProgress, "")
	if condition != "" {
		reason := ""
		if condition == corev1.PodResizePending {
			reason = pick(w.dice, corev1.PodReasonDeferred, corev1.PodReasonInfeasible)
		}
		pod.Status.Conditions = append(pod.Status.Conditions,
			corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue, Reason: reason})
	}
	for _, container := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, w.resizedStatus(container))
	}
	for _, container := range pod.Spec.InitContainers {
		if container.RestartPolicy != nil {
			pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, w.resizedStatus(container))
		}
	}
}

// deferResize defers a resize of a running pod, which the scheduler then tries on the pod's node. Many of them fill their node.
func (w *world) deferResize(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodRunning
	pod.Spec.SchedulerName = pick(w.dice, w.schedulers...)
	main := &pod.Spec.Containers[0]
	if w.chance(70) && main.Resources.Limits == nil && pod.Spec.Resources == nil {
		main.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: quantity(pick(w.dice, "500m", "1", "2", "4"))}
		if w.chance(50) {
			main.Resources.Requests[corev1.ResourceMemory] = quantity(pick(w.dice, "256Mi", "1Gi", "4Gi"))
		}
		pod.Status.ContainerStatuses = nil
	}
	if pod.Status.ContainerStatuses == nil && w.chance(80) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{w.resizedStatus(*main)}
	}
	pod.Status.Conditions = append([]corev1.PodCondition{
		{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred},
	}, pod.Status.Conditions...)
	if w.has["preemption"] && w.chance(60) {
		pod.Spec.PriorityClassName = pick(w.dice, "urgent", "urgent", "polite", "normal")
	}
}

func (w *world) resizedStatus(container corev1.Container) corev1.ContainerStatus {
	given := container.Resources.Requests.DeepCopy()
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if amount, has := given[name]; has && w.chance(70) && amount.Value() < 1<<40 {
			if w.chance(50) {
				amount.Add(amount.DeepCopy())
			} else {
				amount = *resource.NewMilliQuantity(amount.MilliValue()/2, amount.Format)
			}
			given[name] = amount
		}
	}
	status := corev1.ContainerStatus{Name: container.Name, Image: container.Image, AllocatedResources: given}
	status.State.Running = &corev1.ContainerStateRunning{StartedAt: longAgo}
	if w.chance(70) {
		status.Resources = &corev1.ResourceRequirements{Requests: given.DeepCopy()}
	}
	return status
}
