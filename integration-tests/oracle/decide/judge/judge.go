// Package judge runs a real kube-scheduler on a cluster from files, and evaluates each pending pod with its frameworks.
package judge

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	backendcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"flotilla/integration-tests/oracle/decide/cluster"
)

// Judge is a kube-scheduler with a whole cluster that schedules nothing.
type Judge struct {
	sched    *scheduler.Scheduler
	snapshot *backendcache.Snapshot
	logger   klog.Logger
	cfg      *config.KubeSchedulerConfiguration
}

// syncLimit is the timeout of informers, which read from memory.
const syncLimit = time.Minute

// New builds the scheduler like its Setup function, with a fake client instead of an API server, and waits until all informers and handlers
// are synced. It ends with the context.
func New(ctx context.Context, given *cluster.Cluster, cfg *config.KubeSchedulerConfiguration) (*Judge, error) {
	client := fake.NewSimpleClientset(objectsOf(given)...)
	factory := scheduler.NewInformerFactory(client, 0, nil)
	snapshot := backendcache.NewEmptySnapshot()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	recorders := func(name string) events.EventRecorderLogger {
		return broadcaster.NewRecorder(clientscheme.Scheme, name)
	}
	sched, err := scheduler.New(ctx, client, factory, nil, recorders,
		scheduler.WithComponentConfigVersion(cfg.TypeMeta.APIVersion),
		scheduler.WithProfiles(cfg.Profiles...),
		scheduler.WithParallelism(cfg.Parallelism),
		scheduler.WithExtenders(cfg.Extenders...),
		scheduler.WithNodeInfoSnapshot(snapshot),
	)
	if err != nil {
		return nil, err
	}
	if err := sync(ctx, factory, sched); err != nil {
		return nil, err
	}
	return &Judge{sched: sched, snapshot: snapshot, logger: klog.FromContext(ctx), cfg: cfg}, nil
}

// Handles returns whether a profile has this scheduler name.
func (j *Judge) Handles(schedulerName string) bool {
	return j.sched.Profiles.HandlesSchedulerName(schedulerName)
}

func objectsOf(given *cluster.Cluster) []runtime.Object {
	objects := make([]runtime.Object, 0, len(given.Objects)+len(given.Pods))
	for _, object := range given.Objects {
		objects = append(objects, object.DeepCopyObject())
	}
	for _, pod := range given.Pods {
		objects = append(objects, pod.DeepCopy())
	}
	return objects
}

func sync(ctx context.Context, factory informers.SharedInformerFactory, sched *scheduler.Scheduler) error {
	ctx, cancel := context.WithTimeout(ctx, syncLimit)
	defer cancel()
	factory.StartWithContext(context.WithoutCancel(ctx))
	for kind, isSynced := range factory.WaitForCacheSync(ctx.Done()) {
		if !isSynced {
			return fmt.Errorf("the informer of %v has not read all objects in %v", kind, syncLimit)
		}
	}
	return sched.WaitForHandlersSync(ctx)
}

// Judge evaluates one pending pod.
func (j *Judge) Judge(ctx context.Context, pod *corev1.Pod) (*Answer, error) {
	if err := j.sched.Cache.UpdateSnapshot(j.logger, j.snapshot); err != nil {
		return nil, err
	}
	cycle, err := j.newCycle(pod)
	if err != nil {
		return nil, err
	}
	return cycle.run(ctx, j.cfg)
}
