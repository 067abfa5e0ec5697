package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	configv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"sigs.k8s.io/yaml"
)

// answer is what kube-scheduler makes of one file.
type answer struct {
	// File is the path of the file, seen from the folder that was given.
	File string `json:"file"`
	// Accepted is whether kube-scheduler would start.
	Accepted bool `json:"accepted"`
	// Stage is where it gave up: gates, decode, validate or construct.
	Stage string `json:"stage"`
	// Error is what it said.
	Error string `json:"error"`
	// Configuration is what --write-config-to writes, as JSON.
	Configuration json.RawMessage `json:"configuration"`
	// Running lists the plugins that run at each extension point of each profile, once multiPoint is expanded.
	Running []running `json:"running"`
}

// running is one profile as its framework runs it: the plugins of each extension point that has some, in their order.
type running struct {
	SchedulerName string              `json:"schedulerName"`
	Plugins       map[string][]plugin `json:"plugins"`
}

// plugin is a plugin at an extension point, with its weight where weights count.
type plugin struct {
	Name   string `json:"name"`
	Weight int32  `json:"weight,omitempty"`
}

// stageError is an error that knows where kube-scheduler gave up.
type stageError struct {
	stage string
	cause error
}

func (e *stageError) Error() string { return e.cause.Error() }

// silence keeps the log of kube-scheduler to itself.
func silence() error {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	klog.SetOutput(io.Discard)
	return flags.Parse([]string{"-logtostderr=false", "-stderrthreshold=FATAL"})
}

// examineAll answers each file, with the same feature gates for all of them.
func examineAll(gates string, files []file) ([]answer, error) {
	gatesError := setGates(gates)
	stand, err := newStandIns()
	if err != nil {
		return nil, err
	}
	defer stand.remove()
	answers := make([]answer, 0, len(files))
	for _, file := range files {
		one := answer{File: file.name}
		err := gatesError
		if err == nil {
			one.Configuration, one.Running, err = examine(file.path, stand)
		}
		one.Accepted = err == nil
		if err != nil {
			one.Configuration, one.Running = nil, nil
			one.Error = steady(err)
			var staged *stageError
			if errors.As(err, &staged) {
				one.Stage = staged.stage
			}
		}
		answers = append(answers, one)
	}
	return answers, nil
}

// examine takes a file through the steps of kube-scheduler's Setup.
func examine(path string, stand *standIns) (written json.RawMessage, profiles []running, err error) {
	stage := "decode"
	defer func() {
		if recovered := recover(); recovered != nil {
			err = fmt.Errorf("panic: %v", recovered)
		}
		if err != nil {
			err = &stageError{stage, err}
		}
	}()
	if _, err := os.Stat(path); err != nil {
		return nil, nil, err
	}
	cfg, err := options.LoadConfigFromFile(klog.Background(), path)
	if err != nil {
		return nil, nil, err
	}
	stage = "validate"
	if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
		return nil, nil, err
	}
	stage = "construct"
	restore := stand.replaceFiles(cfg)
	completed, profiles, err := construct(cfg)
	restore()
	if err != nil {
		return nil, nil, err
	}
	cfg.Profiles = completed
	written, err = write(cfg)
	return written, profiles, err
}

// write encodes a configuration as --write-config-to does, and gives the YAML as JSON.
func write(cfg *config.KubeSchedulerConfiguration) (json.RawMessage, error) {
	info, found := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeYAML)
	if !found {
		return nil, errors.New("there is no encoder for YAML")
	}
	encoder := scheme.Codecs.EncoderForVersion(info.Serializer, configv1.SchemeGroupVersion)
	text, err := runtime.Encode(encoder, cfg)
	if err != nil {
		return nil, err
	}
	return yaml.YAMLToJSON(text)
}

// address matches what %v prints of a pointer.
var address = regexp.MustCompile(`0x[0-9a-f]{6,}`)

// steady gives an error's text without what differs from run to run: the order in which Go walks a map, and addresses.
func steady(err error) string {
	text := err.Error()
	var aggregate utilerrors.Aggregate
	var staged *stageError
	if errors.As(err, &staged) && errors.As(staged.cause, &aggregate) {
		var texts []string
		for _, one := range aggregate.Errors() {
			texts = append(texts, one.Error())
		}
		sort.Strings(texts)
		text = strings.Join(texts, "; ")
	}
	return address.ReplaceAllString(text, "0x")
}
