package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// nobody is never dialled, because no informer is started.
const nobody = "http://127.0.0.1:1"

// construct builds what kube-scheduler builds before it runs: clients, the election's lock, the scheduler with its frameworks, and the
// elector. It returns the profiles as configured and as they run.
func construct(cfg *config.KubeSchedulerConfiguration) ([]config.KubeSchedulerProfile, []running, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	kubeConfig := &restclient.Config{
		Host:               nobody,
		DisableCompression: true,
		ContentConfig: restclient.ContentConfig{
			AcceptContentTypes: cfg.ClientConnection.AcceptContentTypes,
			ContentType:        cfg.ClientConnection.ContentType,
		},
		QPS:   cfg.ClientConnection.QPS,
		Burst: int(cfg.ClientConnection.Burst),
	}
	client, err := clientset.NewForConfig(restclient.AddUserAgent(kubeConfig, "scheduler"))
	if err != nil {
		return nil, nil, err
	}
	broadcaster := events.NewEventBroadcasterAdapterWithContext(ctx, client)
	defer broadcaster.Shutdown()
	election, err := makeElection(cfg, kubeConfig, broadcaster)
	if err != nil {
		return nil, nil, err
	}
	completed := make([]config.KubeSchedulerProfile, 0)
	capture := func(profile config.KubeSchedulerProfile) { completed = append(completed, profile) }
	recorders := func(name string) events.EventRecorderLogger { return broadcaster.NewRecorder(name) }
	sched, err := newScheduler(ctx, cfg, kubeConfig, client, recorders, capture)
	if err != nil {
		return nil, nil, err
	}
	if election != nil {
		if _, err := leaderelection.NewLeaderElector(*election); err != nil {
			return nil, nil, err
		}
	}
	return completed, listRunning(cfg, sched), nil
}

func newScheduler(
	ctx context.Context,
	cfg *config.KubeSchedulerConfiguration,
	kubeConfig *restclient.Config,
	client clientset.Interface,
	recorders profile.RecorderFactory,
	capture scheduler.FrameworkCapturer,
) (*scheduler.Scheduler, error) {
	dynamicClient, err := dynamic.NewForConfig(kubeConfig)
	if err != nil {
		return nil, err
	}
	return scheduler.New(ctx,
		client,
		scheduler.NewInformerFactory(client, 0, nil),
		dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamicClient, 0, corev1.NamespaceAll, nil),
		recorders,
		scheduler.WithComponentConfigVersion(cfg.TypeMeta.APIVersion),
		scheduler.WithKubeConfig(kubeConfig),
		scheduler.WithProfiles(cfg.Profiles...),
		scheduler.WithPercentageOfNodesToScore(cfg.PercentageOfNodesToScore),
		scheduler.WithPodMaxBackoffSeconds(cfg.PodMaxBackoffSeconds),
		scheduler.WithPodInitialBackoffSeconds(cfg.PodInitialBackoffSeconds),
		scheduler.WithPodMaxInUnschedulablePodsDuration(5*time.Minute),
		scheduler.WithExtenders(cfg.Extenders...),
		scheduler.WithParallelism(cfg.Parallelism),
		scheduler.WithBuildFrameworkCapturer(capture),
	)
}

// makeElection is kube-scheduler's makeLeaderElectionConfig; it returns nil without an election.
func makeElection(
	cfg *config.KubeSchedulerConfiguration,
	kubeConfig *restclient.Config,
	broadcaster events.EventBroadcasterAdapter,
) (*leaderelection.LeaderElectionConfig, error) {
	written := cfg.LeaderElection
	if !written.LeaderElect {
		return nil, nil
	}
	recorder := broadcaster.DeprecatedNewLegacyRecorder(cfg.Profiles[0].SchedulerName)
	lock, err := resourcelock.NewFromKubeconfig(
		written.ResourceLock,
		written.ResourceNamespace,
		written.ResourceName,
		resourcelock.ResourceLockConfig{Identity: "oracle", EventRecorder: recorder},
		kubeConfig,
		written.RenewDeadline.Duration,
	)
	if err != nil {
		return nil, err
	}
	return &leaderelection.LeaderElectionConfig{
		Lock:          lock,
		LeaseDuration: written.LeaseDuration.Duration,
		RenewDeadline: written.RenewDeadline.Duration,
		RetryPeriod:   written.RetryPeriod.Duration,
		Name:          "kube-scheduler",
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {},
			OnStoppedLeading: func() {},
		},
	}, nil
}

// listRunning lists the plugins of each extension point, in the order of the profiles.
func listRunning(cfg *config.KubeSchedulerConfiguration, sched *scheduler.Scheduler) []running {
	var profiles []running
	for _, profile := range cfg.Profiles {
		listed := sched.Profiles[profile.SchedulerName].ListPlugins()
		points := map[string]config.PluginSet{
			"preEnqueue":         listed.PreEnqueue,
			"queueSort":          listed.QueueSort,
			"preFilter":          listed.PreFilter,
			"filter":             listed.Filter,
			"postFilter":         listed.PostFilter,
			"preScore":           listed.PreScore,
			"score":              listed.Score,
			"reserve":            listed.Reserve,
			"permit":             listed.Permit,
			"preBind":            listed.PreBind,
			"bind":               listed.Bind,
			"postBind":           listed.PostBind,
			"placementGenerate":  listed.PlacementGenerate,
			"placementScore":     listed.PlacementScore,
			"podGroupPostFilter": listed.PodGroupPostFilter,
		}
		one := running{profile.SchedulerName, map[string][]plugin{}}
		for point, set := range points {
			for _, enabled := range set.Enabled {
				one.Plugins[point] = append(one.Plugins[point], plugin{enabled.Name, enabled.Weight})
			}
		}
		profiles = append(profiles, one)
	}
	return profiles
}
