// Package framework starts an API server of another Kubernetes version for the integration tests of the scheduler, and reports
// skipped tests. This file is added to the copy of test/integration/framework, whose StartTestServer calls StartAPIServer.
//
// Environment: FLOTILLA_API_SERVER is the path of kube-apiserver; without it, the tests run the API server in their process.
// FLOTILLA_REPORT is the file that receives one line of JSON per test that starts Flotilla or is skipped.
package framework

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	client "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
)

// An API server serves within some seconds on an idle machine; the bound allows for a machine that also builds.
const servesWithin = 2 * time.Minute

// Gates that only the scheduler reads. An API server of a version without them behaves as with them.
var onlyScheduler = []string{"InterPodAffinityHostnameFastPath", "NominatedNodeNameForExpectation", "OpportunisticBatching"}

// T is the part of a test that Flotilla's helpers use, of testing.T or ktesting.TContext.
type T interface {
	Helper()
	Name() string
	Cleanup(func())
	Failed() bool
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skip(args ...any)
}

var report sync.Mutex

// Report writes one line about a test to FLOTILLA_REPORT.
func Report(t T, event, why string) {
	t.Helper()
	report.Lock()
	defer report.Unlock()
	line, err := json.Marshal(map[string]string{"test": t.Name(), "event": event, "why": why})
	if err == nil {
		err = appendTo(os.Getenv("FLOTILLA_REPORT"), append(line, '\n'))
	}
	if err != nil {
		t.Fatalf("cannot report this test: %v", err)
	}
}

func appendTo(name string, line []byte) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.Write(line)
	return err
}

// Skip skips the test and reports why.
func Skip(t T, why string) {
	t.Helper()
	Report(t, "skipped", why)
	t.Skip(why)
}

// IsExternal tells whether the tests use the API server of FLOTILLA_API_SERVER.
func IsExternal() bool { return os.Getenv("FLOTILLA_API_SERVER") != "" }

// release is what one kube-apiserver prints about itself.
type release struct {
	version string
	gates   map[string]bool
}

var readRelease = sync.OnceValues(func() (release, error) {
	program := os.Getenv("FLOTILLA_API_SERVER")
	version, err := exec.Command(program, "--version").Output()
	if err != nil {
		return release{}, err
	}
	help, err := exec.Command(program, "--help").Output()
	if err != nil {
		return release{}, err
	}
	found := release{strings.TrimSpace(strings.TrimPrefix(string(version), "Kubernetes ")), map[string]bool{}}
	for _, match := range regexp.MustCompile(`kube:(\w+)=true\|false`).FindAllSubmatch(help, -1) {
		found.gates[string(match[1])] = true
	}
	return found, nil
})

// StartAPIServer starts the program of FLOTILLA_API_SERVER with the settings of the test. It skips the test if the program has no
// equivalent.
func StartAPIServer(ctx context.Context, t testing.TB, setup TestServerSetup) (client.Interface, *rest.Config, TearDownFunc) {
	t.Helper()
	release, err := readRelease()
	if err != nil {
		t.Fatalf("cannot run FLOTILLA_API_SERVER: %v", err)
	}
	folder := t.TempDir()
	arguments := append(flags(t, release, setup), "--cert-dir="+folder)
	key := filepath.Join(folder, "service-accounts.key")
	tokens := filepath.Join(folder, "tokens.csv")
	token := uuid.New().String()
	for name, text := range map[string]string{key: ecdsaPrivateKey, tokens: token + ",administrator,1,system:masters\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	listener.Close()
	arguments = append(arguments,
		"--service-account-key-file="+key, "--service-account-signing-key-file="+key, "--token-auth-file="+tokens, "--secure-port="+port)
	exited := start(ctx, t, arguments, filepath.Join(folder, "api-server.log"))
	config := &rest.Config{
		Host:            "https://127.0.0.1:" + port,
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(folder, "apiserver.crt")},
		ContentConfig:   rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"},
		// As the configuration of a client in the API server's process.
		QPS: -1,
	}
	waitUntilServing(ctx, t, config, exited, filepath.Join(folder, "api-server.log"))
	config.Wrap(func(transport http.RoundTripper) http.RoundTripper { return emptyWhereUnserved{transport} })
	clientset, err := client.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return clientset, config, func() {}
}

// flags are the flags of kube-apiserver that correspond to the test's settings.
func flags(t testing.TB, release release, setup TestServerSetup) []string {
	t.Helper()
	opts := options.NewServerRunOptions()
	if setup.ModifyServerRunOptions != nil {
		setup.ModifyServerRunOptions(opts)
	}
	if setup.ModifyServerConfig != nil {
		probe := &controlplane.Config{ControlPlane: controlplaneapiserver.Config{Generic: &genericapiserver.Config{}}}
		setup.ModifyServerConfig(probe)
		if probe.ControlPlane.Generic.AdmissionControl != nil {
			Skip(t, "replaces the admission of the API server in the test's process")
		}
	}
	arguments := []string{
		"--etcd-servers=" + GetEtcdURL(), "--etcd-prefix=" + path.Join("/", uuid.New().String(), "registry"),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=Node,RBAC",
		"--service-account-issuer=https://foo.bar.example.com",
		"--disable-admission-plugins=" + strings.Join(opts.Admission.GenericAdmission.DisablePlugins, ","),
	}
	var gates []string
	for name, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		enabled := utilfeature.DefaultFeatureGate.Enabled(name)
		isGroup := name == "AllAlpha" || name == "AllBeta"
		isOnlyScheduler := strings.HasPrefix(string(name), "Scheduler") || slices.Contains(onlyScheduler, string(name))
		switch {
		case enabled == spec.Default || isGroup:
		case release.gates[string(name)]:
			gates = append(gates, fmt.Sprintf("%s=%v", name, enabled))
		case enabled && !isOnlyScheduler:
			Skip(t, fmt.Sprintf("needs the feature gate %s, which the API server %s does not have", name, release.version))
		}
	}
	if len(gates) > 0 {
		arguments = append(arguments, "--feature-gates="+strings.Join(gates, ","))
	}
	for version, enabled := range opts.APIEnablement.RuntimeConfig {
		// The tests enable it for every test; emptyWhereUnserved answers if the API server does not have it.
		if version != "resource.k8s.io/v1" {
			arguments = append(arguments, "--runtime-config="+version+"="+enabled)
		}
	}
	return arguments
}

// start runs the API server until ctx or the test ends. The channel is closed when it has exited.
func start(ctx context.Context, t testing.TB, arguments []string, log string) <-chan struct{} {
	t.Helper()
	file, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	command := exec.Command(os.Getenv("FLOTILLA_API_SERVER"), arguments...)
	command.Stdout, command.Stderr = file, file
	exited, err := Start(command)
	if err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		_ = command.Process.Kill()
		<-exited
	})
	context.AfterFunc(ctx, stop)
	t.Cleanup(stop)
	return exited
}

// Start starts a process that ends with this one, even where the test binary is killed. The channel is closed when the process has
// exited.
func Start(command *exec.Cmd) (<-chan struct{}, error) {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	begun, exited := make(chan error), make(chan struct{})
	go func() {
		// The kernel sends Pdeathsig when the thread that started the process ends, so this thread has to live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		begun <- err
		if err == nil {
			_ = command.Wait()
		}
		close(exited)
	}()
	return exited, <-begun
}

func waitUntilServing(ctx context.Context, t testing.TB, config *rest.Config, exited <-chan struct{}, log string) {
	t.Helper()
	deadline := time.Now().Add(servesWithin)
	for time.Now().Before(deadline) {
		select {
		case <-exited:
			text, _ := os.ReadFile(log)
			t.Fatalf("the API server ended instead of serving:\n%s", text)
		case <-ctx.Done():
			t.Fatalf("the test ended before its API server served: %v", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
		// The certificate of the server is there a moment after its start.
		clientset, err := client.NewForConfig(config)
		if err != nil {
			continue
		}
		if _, err := clientset.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err == nil {
			return
		}
	}
	t.Fatalf("the API server does not serve after %v; see %s", servesWithin, log)
}

// emptyWhereUnserved answers with empty lists for kinds of resource.k8s.io/v1 that the API server does not serve. kube-scheduler's
// informers, whose caches the tests read, wait for the lists of all kinds of their own version.
type emptyWhereUnserved struct {
	transport http.RoundTripper
}

func (e emptyWhereUnserved) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := e.transport.RoundTrip(request)
	isList := request.Method == http.MethodGet && strings.HasPrefix(request.URL.Path, "/apis/resource.k8s.io/")
	if err != nil || response.StatusCode != http.StatusNotFound || !isList {
		return response, err
	}
	response.Body.Close()
	empty := &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {"application/json"}},
	}
	query := request.URL.Query()
	switch {
	case query.Get("sendInitialEvents") == "true":
		// The client then lists.
		empty.Status, empty.StatusCode = "400 Bad Request", http.StatusBadRequest
		empty.Body = body(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":400}`)
	case query.Get("watch") != "":
		reader, writer := io.Pipe()
		context.AfterFunc(request.Context(), func() { writer.Close() })
		empty.Body = reader
	default:
		kinds := map[string]string{
			"resourceclaims": "ResourceClaimList", "resourceslices": "ResourceSliceList", "deviceclasses": "DeviceClassList",
			"devicetaintrules": "DeviceTaintRuleList", "resourceclaimtemplates": "ResourceClaimTemplateList",
		}
		version := strings.Split(request.URL.Path, "/")[3]
		empty.Body = body(fmt.Sprintf(`{"kind":%q,"apiVersion":"resource.k8s.io/%s","metadata":{"resourceVersion":"1"},"items":[]}`,
			kinds[path.Base(request.URL.Path)], version))
	}
	return empty, nil
}

func body(text string) io.ReadCloser { return io.NopCloser(strings.NewReader(text)) }
