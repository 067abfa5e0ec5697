package judge

// Comparison with kube-scheduler's schedulePod, to confirm that our loop over nodes changes no result.

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Confirm returns an error if schedulePod disagrees with an answer. schedulePod evaluates all nodes of clusters with at most 100.
func (j *Judge) Confirm(ctx context.Context, pod *corev1.Pod, answer *Answer) error {
	if answer.Gated {
		return nil
	}
	if err := j.sched.Cache.UpdateSnapshot(j.logger, j.snapshot); err != nil {
		return err
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return err
	}
	profile := j.sched.Profiles[pod.Spec.SchedulerName]
	queued := &framework.QueuedPodInfo{PodInfo: info}
	result, err := j.sched.SchedulePod(ctx, profile, framework.NewCycleState(), queued)
	if difference := compare(answer, result.SuggestedHost, err); difference != nil {
		return fmt.Errorf("pod %s: %w", answer.Pod, difference)
	}
	return nil
}

func compare(answer *Answer, host string, err error) error {
	var unfit *framework.FitError
	switch {
	case errors.As(err, &unfit) || errors.Is(err, scheduler.ErrNoNodesAvailable):
		if answer.Message != err.Error() {
			return fmt.Errorf("schedulePod says %q, the answer %q", err, answer.Message)
		}
	case err != nil:
		if answer.Error == "" {
			return fmt.Errorf("schedulePod fails, and the answer does not: %w", err)
		}
	case answer.Error != "":
		return fmt.Errorf("schedulePod takes node %s, the answer is an error: %s", host, answer.Error)
	case answer.Nominated != "":
		if host != answer.Nominated {
			return fmt.Errorf("schedulePod takes node %s, the answer the nominated %s", host, answer.Nominated)
		}
	case !slices.Contains(answer.Best, host):
		return fmt.Errorf("schedulePod takes node %s, the answer %v", host, answer.Best)
	}
	return nil
}
