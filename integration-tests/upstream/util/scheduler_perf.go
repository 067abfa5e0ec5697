package util

import (
	"fmt"
	"net"
	"os"
	"sync"

	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	baseversion "k8s.io/component-base/version"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"
)

// clientLimit is the number of requests per second of the measured scheduler, as in scheduler_perf.
const clientLimit = 5000

// measured holds the processes of the scheduler that StartMeasured has started.
var measured struct {
	sync.Mutex
	ids map[string]int
}

// MeasuredProcesses are the process ids of the measured scheduler, by name.
func MeasuredProcesses() map[string]int {
	measured.Lock()
	defer measured.Unlock()
	return measured.ids
}

// StartMeasured starts the scheduler that FLOTILLA_SCHEDULER names, and returns when it is ready. StartSchedulerWithDone of the copied
// package calls it instead of Scheduler.Run. The processes end with tCtx; then done is closed.
//
// Environment: FLOTILLA_KUBE_SCHEDULER and FLOTILLA_CEILING are the paths of the other schedulers; flotilla.go describes Flotilla's.
func StartMeasured(tCtx ktesting.TContext, configuration *config.KubeSchedulerConfiguration, done chan<- struct{}) {
	tCtx.Helper()
	name := os.Getenv("FLOTILLA_SCHEDULER")
	if name == "flotilla" {
		skipRefusedGates(tCtx)
	}
	files := write(tCtx, tCtx.RESTConfig(), settings(configuration), func(written *config.KubeSchedulerConfiguration, kubeconfig string) {
		written.ClientConnection.Kubeconfig = kubeconfig
		written.ClientConnection.QPS, written.ClientConnection.Burst = clientLimit, clientLimit
		written.LeaderElection.LeaderElect = false
		written.Parallelism = configuration.Parallelism
	})
	instance := &instance{t: tCtx, folder: files.folder}
	switch name {
	case "flotilla":
		instance.arguments = files.ofFlotilla("-v=2")
		instance.up(tCtx)
	case "kube-scheduler":
		address := freeAddress(tCtx)
		instance.run(tCtx, name, "FLOTILLA_KUBE_SCHEDULER", files.ofKubeScheduler(address), "https://"+address+"/readyz")
	case "ceiling":
		instance.run(tCtx, name, "FLOTILLA_CEILING", []string{"ceiling", "--kubeconfig=" + files.kubeconfig}, "")
	case "ceiling-events":
		instance.run(tCtx, name, "FLOTILLA_CEILING", []string{"ceiling", "--events", "--kubeconfig=" + files.kubeconfig}, "")
	default:
		tCtx.Fatalf("FLOTILLA_SCHEDULER names no scheduler: %q", name)
	}
	instance.watch(tCtx, done)
}

// ofKubeScheduler are the arguments of kube-scheduler.
func (f files) ofKubeScheduler(address string) []string {
	host, port, _ := net.SplitHostPort(address)
	arguments := []string{"--config=" + f.configuration, "--bind-address=" + host, "--secure-port=" + port, "-v=2"}
	if gates := gates(); gates != "" {
		arguments = append(arguments, "--feature-gates="+gates)
	}
	versions, isVersioned := utilfeature.DefaultMutableFeatureGate.(featuregate.MutableVersionedFeatureGate)
	if isVersioned && !versions.EmulationVersion().EqualTo(version.MustParse(baseversion.DefaultKubeBinaryVersion)) {
		arguments = append(arguments, "--emulated-version="+versions.EmulationVersion().String())
	}
	return arguments
}

// watch publishes the ids of the processes, cancels the workload if one of them ends early, and closes done when all have ended.
func (i *instance) watch(tCtx ktesting.TContext, done chan<- struct{}) {
	measured.Lock()
	defer measured.Unlock()
	measured.ids = map[string]int{}
	var ended sync.WaitGroup
	for _, process := range i.processes {
		measured.ids[process.name] = process.id
		ended.Go(func() {
			<-process.exited
			if tCtx.Err() == nil {
				tCtx.Cancel(fmt.Sprintf("%s ended during the workload; see its log in %s", process.name, i.folder))
			}
		})
	}
	go func() {
		ended.Wait()
		close(done)
	}()
}
