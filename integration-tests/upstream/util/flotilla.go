// Package util starts Flotilla for Kubernetes' integration tests of the scheduler. This file is added to the copy of
// test/integration/util, whose InitTestSchedulerWithOptions calls DescribeFlotilla; the tests call StartFlotilla instead of
// Scheduler.Run.
//
// Environment: FLOTILLA_COORDINATOR and FLOTILLA_WORKER are the paths of the programs, FLOTILLA_WORKERS is the number of workers
// (0 if unset), FLOTILLA_LOGS is the folder for logs and configurations. FLOTILLA_TLS has a folder of certificates for each role (no TLS
// if unset). framework/api_server.go describes the others.
package util

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"flotilla/integration-tests/upstream/framework"
)

// Flotilla becomes ready within a second on an idle machine; the bound allows for a machine that also builds.
const readyWithin = 60 * time.Second

// Gates of the logs of this process, which kube-scheduler's command does not have.
var ofLogs = []string{"ContextualLogging", "LoggingAlphaOptions", "LoggingBetaOptions"}

// described holds one instance per TestContext, from InitTestSchedulerWithOptions on.
var described sync.Map

// instance is one scheduler, such as a coordinator with its workers.
type instance struct {
	t         framework.T
	folder    string
	arguments []string
	processes []*process
}

// process is one running program.
type process struct {
	name   string
	id     int
	ctx    context.Context
	exited <-chan struct{}
	stop   func()
}

// running holds every process that may still be there.
var running struct {
	sync.Mutex
	processes []*process
}

// DescribeFlotilla writes the configuration that opts amount to, with the feature gates of the test. It skips the test if
// Flotilla has no equivalent.
func DescribeFlotilla(t framework.T, key any, kubeConfig *restclient.Config, opts []scheduler.Option) {
	t.Helper()
	settings := read(opts)
	if registry := *field[frameworkruntime.Registry](settings, "frameworkOutOfTreeRegistry"); len(registry) > 0 {
		names := make([]string, 0, len(registry))
		for name := range registry {
			names = append(names, name)
		}
		slices.Sort(names)
		framework.Skip(t, "registers its own plugins in kube-scheduler's process: "+strings.Join(names, ", "))
	}
	if *field[scheduler.FrameworkCapturer](settings, "frameworkCapturer") != nil {
		framework.Skip(t, "reads the framework of kube-scheduler's process")
	}
	skipRefusedGates(t)
	described.Store(key, describe(t, kubeConfig, settings))
}

// describe writes the configuration and the kubeconfig of one Flotilla.
func describe(t framework.T, kubeConfig *restclient.Config, settings reflect.Value) *instance {
	t.Helper()
	files := write(t, kubeConfig, settings, func(*config.KubeSchedulerConfiguration, string) {})
	unschedulable := field[time.Duration](settings, "podMaxInUnschedulablePodsDuration").String()
	arguments := files.ofFlotilla("-v=4", "--pod-max-in-unschedulable-pods-duration="+unschedulable)
	return &instance{t: t, folder: files.folder, arguments: arguments}
}

// files are the kubeconfig and the configuration of one scheduler, in a folder that also receives its logs.
type files struct {
	folder, kubeconfig, configuration string
}

// ofFlotilla are the arguments of the coordinator.
func (f files) ofFlotilla(more ...string) []string {
	arguments := append([]string{
		"--kubeconfig=" + f.kubeconfig, "--config=" + f.configuration, "--leader-elect=false", "--secure-port=0",
		transport("coordinator"),
	}, more...)
	if gates := gates(); gates != "" {
		arguments = append(arguments, "--feature-gates="+gates)
	}
	return arguments
}

// transport is the flag for the connections between the coordinator and the workers.
func transport(role string) string {
	if certificates := os.Getenv("FLOTILLA_TLS"); certificates != "" {
		return "--worker-tls-dir=" + filepath.Join(certificates, role+"-tls")
	}
	return "--insecure-worker-transport"
}

// write writes a kubeconfig, and the configuration that settings amount to after adjust, which receives the path of the kubeconfig.
func write(
	t framework.T, kubeConfig *restclient.Config, settings reflect.Value,
	adjust func(configuration *config.KubeSchedulerConfiguration, kubeconfig string),
) files {
	t.Helper()
	folder, err := os.MkdirTemp(os.Getenv("FLOTILLA_LOGS"), fileName(t.Name())+"-")
	must(t, err)
	t.Cleanup(func() {
		if !t.Failed() {
			_ = os.RemoveAll(folder)
		}
	})
	kubeconfig, configuration := filepath.Join(folder, "kubeconfig"), filepath.Join(folder, "config.yaml")
	must(t, writeKubeconfig(kubeConfig, kubeconfig))
	text, err := encode(settings, func(configuration *config.KubeSchedulerConfiguration) { adjust(configuration, kubeconfig) })
	must(t, err)
	must(t, os.WriteFile(configuration, text, 0o600))
	return files{folder, kubeconfig, configuration}
}

// SkipSubtest skips a subtest whose feature gates Flotilla refuses, before it starts an API server. A test that is no subtest may go
// on with other gates.
func SkipSubtest(t framework.T) {
	t.Helper()
	if strings.Contains(t.Name(), "/") {
		skipRefusedGates(t)
	}
}

func skipRefusedGates(t framework.T) {
	t.Helper()
	gates := gates()
	if gates == "" {
		return
	}
	check := exec.Command(os.Getenv("FLOTILLA_COORDINATOR"), "--feature-gates="+gates, "--write-config-to=/dev/null")
	if output, err := check.CombinedOutput(); err != nil {
		refusal, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(string(output)), "error: "), "\n")
		framework.Skip(t, "Flotilla refuses a feature gate: "+strings.TrimPrefix(refusal, "--feature-gates: "))
	}
}

// StartFlotilla starts the Flotilla that was described for key and returns when it is ready. It ends with ctx, at the latest
// with the test.
func StartFlotilla(ctx context.Context, key any) {
	value, found := described.Load(key)
	if !found {
		panic("StartFlotilla without DescribeFlotilla")
	}
	instance := value.(*instance)
	t := instance.t
	t.Helper()
	waitForStopped()
	framework.Report(t, "started", "")
	instance.up(ctx)
}

// up starts the workers and the coordinator, and returns when they are ready.
func (i *instance) up(ctx context.Context) {
	i.t.Helper()
	arguments := i.arguments
	if workers := i.startWorkers(ctx); len(workers) > 0 {
		arguments = append(slices.Clone(arguments), "--workers="+strings.Join(workers, ","))
	} else {
		// Without this a new leader waits for the workers of the default Service, and some tests poll once after a second.
		arguments = append(slices.Clone(arguments), "--worker-service=")
	}
	i.start(ctx, "coordinator", "FLOTILLA_COORDINATOR", "--health-listen", arguments)
}

// UseShared reports that the test uses a Flotilla that StartShared starts for several tests. It skips the test if Flotilla refuses its
// feature gates.
func UseShared(t framework.T) {
	t.Helper()
	skipRefusedGates(t)
	framework.Report(t, "started", "")
}

// StartShared starts a Flotilla with the configuration of kube-scheduler for several tests below t. It ends with ctx, at the latest
// with t.
func StartShared(ctx context.Context, t framework.T, kubeConfig *restclient.Config, configuration *config.KubeSchedulerConfiguration) {
	t.Helper()
	waitForStopped()
	describe(t, kubeConfig, settings(configuration)).up(ctx)
}

// settings are the options that kube-scheduler's command derives from its configuration.
func settings(configuration *config.KubeSchedulerConfiguration) reflect.Value {
	return read([]scheduler.Option{
		scheduler.WithProfiles(configuration.Profiles...), scheduler.WithExtenders(configuration.Extenders...),
		scheduler.WithPercentageOfNodesToScore(configuration.PercentageOfNodesToScore),
		scheduler.WithPodInitialBackoffSeconds(configuration.PodInitialBackoffSeconds),
		scheduler.WithPodMaxBackoffSeconds(configuration.PodMaxBackoffSeconds),
	})
}

func (i *instance) startWorkers(ctx context.Context) []string {
	count, _ := strconv.Atoi(os.Getenv("FLOTILLA_WORKERS"))
	var addresses []string
	for index := range count {
		address := freeAddress(i.t)
		arguments := []string{transport("worker"), "--listen=" + address, "-v=2"}
		i.start(ctx, fmt.Sprintf("worker-%d", index), "FLOTILLA_WORKER", "--health-listen", arguments)
		addresses = append(addresses, address)
	}
	return addresses
}

// start runs one program of Flotilla until ctx or the test ends, and waits until its health endpoint says that it is ready.
func (i *instance) start(ctx context.Context, name, variable, healthFlag string, arguments []string) {
	i.t.Helper()
	health := freeAddress(i.t)
	i.run(ctx, name, variable, append(slices.Clone(arguments), healthFlag+"="+health), "http://"+health+"/readyz")
}

// run runs the program in an environment variable until ctx or the test ends, and waits until url, if any, answers that it is ready.
func (i *instance) run(ctx context.Context, name, variable string, arguments []string, url string) {
	t := i.t
	t.Helper()
	log, err := os.OpenFile(filepath.Join(i.folder, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(t, err)
	defer log.Close()
	command := exec.Command(os.Getenv(variable), arguments...)
	command.Stdout, command.Stderr = log, log
	exited, err := framework.Start(command)
	must(t, err)
	process := &process{name: name, id: command.Process.Pid, ctx: ctx, exited: exited}
	i.processes = append(i.processes, process)
	stopped := make(chan struct{})
	process.stop = sync.OnceFunc(func() { close(stopped) })
	go func() {
		select {
		case <-ctx.Done():
		case <-stopped:
		case <-process.exited:
			return
		}
		_ = command.Process.Kill()
	}()
	running.Lock()
	running.processes = append(running.processes, process)
	running.Unlock()
	t.Cleanup(func() {
		select {
		case <-process.exited:
			if ctx.Err() == nil {
				t.Errorf("%s ended during the test; see %s", name, log.Name())
			}
		default:
		}
		process.stop()
		<-process.exited
	})
	if url == "" {
		return
	}
	if err := waitUntilReady(ctx, url, process); err != nil {
		t.Fatalf("%s: %v; see %s", name, err, log.Name())
	}
}

func waitUntilReady(ctx context.Context, url string, process *process) error {
	// kube-scheduler generates its certificate at its start.
	anyCertificate := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	client := http.Client{Timeout: time.Second, Transport: anyCertificate}
	deadline := time.Now().Add(readyWithin)
	last := errors.New("it was not asked")
	for time.Now().Before(deadline) {
		response, err := client.Get(url)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("%s answers %s", url, response.Status)
		}
		last = err
		select {
		case <-ctx.Done():
			return nil
		case <-process.exited:
			return errors.New("it ended instead of becoming ready")
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("not ready after %v: %w", readyWithin, last)
}

// waitForStopped waits for the processes whose context has ended, so that two schedulers never serve the same pods.
func waitForStopped() {
	running.Lock()
	defer running.Unlock()
	var others []*process
	for _, process := range running.processes {
		if process.ctx.Err() == nil {
			others = append(others, process)
			continue
		}
		<-process.exited
	}
	running.processes = others
}

// read applies the options to kube-scheduler's own structure, with the defaults of scheduler.New where Flotilla's differ from zero.
func read(opts []scheduler.Option) reflect.Value {
	options := reflect.New(reflect.TypeFor[scheduler.Option]().In(0).Elem())
	*field[int64](options, "podInitialBackoffSeconds") = 1
	*field[int64](options, "podMaxBackoffSeconds") = 10
	*field[time.Duration](options, "podMaxInUnschedulablePodsDuration") = 5 * time.Minute
	for _, option := range opts {
		reflect.ValueOf(option).Call([]reflect.Value{options})
	}
	return options
}

// field is a field of the unexported structure behind options; no other way leads from options to their values.
func field[T any](options reflect.Value, name string) *T {
	field := options.Elem().FieldByName(name)
	if !field.IsValid() {
		panic("kube-scheduler's options have no field " + name)
	}
	return (*T)(unsafe.Pointer(field.UnsafeAddr()))
}

// encode gives the KubeSchedulerConfiguration of the options after adjust.
func encode(options reflect.Value, adjust func(*config.KubeSchedulerConfiguration)) ([]byte, error) {
	configuration, err := latest.Default()
	if err != nil {
		return nil, err
	}
	// In a file 0 means the default, so that the shortest backoff is a second.
	configuration.PodInitialBackoffSeconds = max(1, *field[int64](options, "podInitialBackoffSeconds"))
	configuration.PodMaxBackoffSeconds = max(configuration.PodInitialBackoffSeconds, *field[int64](options, "podMaxBackoffSeconds"))
	if percentage := *field[int32](options, "percentageOfNodesToScore"); percentage > 0 {
		configuration.PercentageOfNodesToScore = &percentage
	}
	configuration.Extenders = *field[[]config.Extender](options, "extenders")
	configuration.Profiles = nil
	for _, profile := range *field[[]config.KubeSchedulerProfile](options, "profiles") {
		profile := profile.DeepCopy()
		if profile.Plugins != nil {
			// The default plugins were merged when the test read its configuration. Without this they would be merged again.
			profile.Plugins.MultiPoint.Disabled = []config.Plugin{{Name: "*"}}
		}
		configuration.Profiles = append(configuration.Profiles, *profile)
	}
	adjust(configuration)
	yaml, found := apiruntime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), apiruntime.ContentTypeYAML)
	if !found {
		return nil, errors.New("no serializer for YAML")
	}
	return apiruntime.Encode(scheme.Codecs.EncoderForVersion(yaml.Serializer, configv1.SchemeGroupVersion), configuration)
}

// gates are the feature gates that the test has moved off their default.
func gates() string {
	var moved []string
	for name, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		enabled := utilfeature.DefaultFeatureGate.Enabled(name)
		isGroup := name == "AllAlpha" || name == "AllBeta"
		if enabled != spec.Default && !isGroup && !slices.Contains(ofLogs, string(name)) {
			moved = append(moved, fmt.Sprintf("%s=%v", name, enabled))
		}
	}
	slices.Sort(moved)
	return strings.Join(moved, ",")
}

func writeKubeconfig(from *restclient.Config, path string) error {
	authority := from.CAData
	if len(authority) == 0 {
		read, err := os.ReadFile(from.CAFile)
		if err != nil {
			return err
		}
		authority = read
	}
	name := "test"
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[name] = &clientcmdapi.Cluster{
		Server: from.Host, CertificateAuthorityData: authority, TLSServerName: from.ServerName,
	}
	kubeconfig.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: from.BearerToken}
	kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	kubeconfig.CurrentContext = name
	return clientcmd.WriteToFile(*kubeconfig, path)
}

func must(t framework.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("cannot run this test with Flotilla: %v", err)
	}
}

func freeAddress(t framework.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// fileName is a test's name as a file may be called, not longer than file systems take with what is appended to it.
func fileName(test string) string {
	kept := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '_'
	}, test)
	return kept[:min(len(kept), 150)]
}
