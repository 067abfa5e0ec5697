// Package benchmark measures schedulers in processes. This file is added to the copy of scheduler_perf; there, RunBenchmarkPerfScheduling
// calls choose.
//
// Environment: FLOTILLA_LIST is a file that receives one line of JSON per workload instead of running them; FLOTILLA_WORKLOADS has a
// regular expression per line, any of which selects a workload. FLOTILLA_WORKLOAD is the one workload to run, FLOTILLA_TIMEOUT the limit of
// its duration.
package benchmark

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"

	"flotilla/integration-tests/upstream/util"
)

// ticksPerSecond is the unit of CPU times in /proc, which is the same on all of Go's Linux platforms.
const ticksPerSecond = 100

// upstreamTimeout is scheduler_perf's own limit.
const upstreamTimeout = 30 * time.Minute

// Package is the folder of the current workloads below scheduler_perf.
var Package string

// listed is one line of FLOTILLA_LIST.
type listed struct {
	Package  string `json:"package"`
	Workload string `json:"workload"`
	// Threshold is the least SchedulingThroughput in pods per second; 0 if there is none.
	Threshold float64 `json:"threshold"`
	// Skip is why the workload cannot run with a scheduler in another process; empty if it can.
	Skip string `json:"skip"`
	// Patterns are those of FLOTILLA_WORKLOADS that select the workload.
	Patterns []string `json:"patterns"`
}

// choose is the test cases with only the workload of FLOTILLA_WORKLOAD. With FLOTILLA_LIST, it lists the workloads and returns nil.
func choose(b *testing.B, testCases []*testCase, topicName string, opts *schedulerPerfOptions) []*testCase {
	b.Helper()
	if list := os.Getenv("FLOTILLA_LIST"); list != "" {
		if err := listTo(list, testCases, topicName, opts); err != nil {
			b.Fatalf("cannot list the workloads of %s: %v", Package, err)
		}
		return nil
	}
	wanted := os.Getenv("FLOTILLA_WORKLOAD")
	for _, one := range testCases {
		for _, workload := range one.Workloads {
			if one.Name+"/"+workload.Name == wanted {
				one.Workloads = []*Workload{workload}
				return []*testCase{one}
			}
		}
	}
	b.Fatalf("%s has no workload %q", Package, wanted)
	return nil
}

func listTo(path string, testCases []*testCase, topicName string, opts *schedulerPerfOptions) error {
	var patterns []*regexp.Regexp
	for _, line := range strings.Split(os.Getenv("FLOTILLA_WORKLOADS"), "\n") {
		pattern, err := regexp.Compile(line)
		if err != nil {
			return err
		}
		patterns = append(patterns, pattern)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := json.NewEncoder(file)
	for _, testCase := range testCases {
		for _, workload := range testCase.Workloads {
			all := append(append([]string{}, testCase.Labels...), workload.Labels...)
			name := testCase.Name + "/" + workload.Name
			matching := matchingPatterns(patterns, name)
			if !enabled(strings.Split(PerfSchedulingLabelFilter, ","), all...) || len(matching) == 0 {
				continue
			}
			line := listed{Package: Package, Workload: name, Skip: skip(opts), Patterns: matching}
			if metric := workload.ThresholdMetricSelector; metric.Name == "SchedulingThroughput" && metric.DataBucket == "Average" {
				line.Threshold = workload.Threshold.Get(topicName)
			}
			if err := lines.Encode(line); err != nil {
				return err
			}
		}
	}
	return nil
}

func matchingPatterns(patterns []*regexp.Regexp, name string) []string {
	var matching []string
	for _, pattern := range patterns {
		if pattern.MatchString(name) {
			matching = append(matching, pattern.String())
		}
	}
	return matching
}

func skip(opts *schedulerPerfOptions) string {
	switch {
	case len(opts.outOfTreePluginRegistry) > 0:
		return "registers its own plugins in kube-scheduler's process"
	case opts.preRunFn != nil:
		return "changes kube-scheduler's process before the scheduler starts"
	default:
		return ""
	}
}

func workloadTimeout() time.Duration {
	timeout, err := time.ParseDuration(os.Getenv("FLOTILLA_TIMEOUT"))
	if err != nil {
		return upstreamTimeout
	}
	return timeout
}

// failure is the reason of a failed workload: its timeout or the end of the scheduler, if that is the cause, and the error.
func failure(tCtx ktesting.TContext, err error) string {
	cause := context.Cause(tCtx)
	if cause == nil || strings.Contains(err.Error(), cause.Error()) {
		return err.Error()
	}
	return cause.Error() + ": " + err.Error()
}

func init() {
	theirs := getTestDataCollectors
	getTestDataCollectors = func(
		podInformer coreinformers.PodInformer, name string, namespaces []string, labelSelector map[string]string,
		mcc *metricsCollectorConfig, throughputErrorMargin float64,
	) []testDataCollector {
		collectors := theirs(podInformer, name, namespaces, labelSelector, mcc, throughputErrorMargin)
		return append(collectors, &usageCollector{podInformer: podInformer, name: name})
	}
}

// usageCollector measures the CPU and the memory of the scheduler's processes while metrics are collected.
type usageCollector struct {
	podInformer coreinformers.PodInformer
	name        string
	handle      cache.ResourceEventHandlerRegistration
	before      map[string]usage
	mutex       sync.Mutex
	bound       map[types.UID]bool
	boundBefore int
}

// usage is the CPU seconds of a process since its start, and its maximum resident memory.
type usage struct {
	cpuSeconds, peakBytes float64
}

// init counts the pods that are bound from now on, in all namespaces, because the scheduler uses CPU for all of them.
func (c *usageCollector) init() error {
	pods, err := c.podInformer.Lister().List(labels.Everything())
	if err != nil {
		return err
	}
	c.bound = map[types.UID]bool{}
	for _, pod := range pods {
		c.observe(pod)
	}
	c.boundBefore = len(c.bound)
	// If a pod is created and bound within one batch of the informer, it calls AddFunc for both.
	c.handle, err = c.podInformer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.observe,
		UpdateFunc: func(_, after any) { c.observe(after) },
	})
	if err != nil {
		return err
	}
	c.before, err = usages()
	return err
}

func (c *usageCollector) observe(object any) {
	if pod, isPod := object.(*v1.Pod); isPod && pod.Spec.NodeName != "" {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.bound[pod.UID] = true
	}
}

func (c *usageCollector) run(tCtx ktesting.TContext) {
	<-tCtx.Done()
	tCtx.ExpectNoError(c.podInformer.Informer().RemoveEventHandler(c.handle), "remove event handler")
}

// collect gives one item per process.
func (c *usageCollector) collect() []DataItem {
	after, err := usages()
	if err != nil {
		return nil
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var items []DataItem
	for process, usage := range after {
		items = append(items, DataItem{
			Labels: map[string]string{"Name": c.name, "Metric": "SchedulerUsage", "process": process},
			Data: map[string]float64{
				"CPUSeconds": usage.cpuSeconds - c.before[process].cpuSeconds,
				"PeakBytes":  usage.peakBytes,
				"Pods":       float64(len(c.bound) - c.boundBefore),
			},
			Unit: "s",
		})
	}
	return items
}

func usages() (map[string]usage, error) {
	found := map[string]usage{}
	for name, id := range util.MeasuredProcesses() {
		usage, err := usageOf(id)
		if err != nil {
			return nil, fmt.Errorf("cannot read the usage of %s: %w", name, err)
		}
		found[name] = usage
	}
	return found, nil
}

func usageOf(id int) (usage, error) {
	folder := "/proc/" + strconv.Itoa(id)
	stat, err := os.ReadFile(folder + "/stat")
	if err != nil {
		return usage{}, err
	}
	status, err := os.ReadFile(folder + "/status")
	if err != nil {
		return usage{}, err
	}
	// The name in parentheses may contain spaces. utime and stime are the 12th and 13th fields after it.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 13 {
		return usage{}, fmt.Errorf("%s/stat has an unexpected format", folder)
	}
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	var kib float64
	_, _ = fmt.Sscan(peak, &kib)
	return usage{cpuSeconds: (user + system) / ticksPerSecond, peakBytes: kib * 1024}, nil
}
