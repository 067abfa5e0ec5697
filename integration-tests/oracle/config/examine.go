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

// answer is kube-scheduler's result for one file.
type answer struct {
	// File is the path relative to the given folder.
	File string `json:"file"`
	// Accepted is whether kube-scheduler would start.
	Accepted bool `json:"accepted"`
	// Stage is where it failed: gates, decode, validate or construct.
	Stage string `json:"stage"`
	// Error is its message.
	Error string `json:"error"`
	// Configuration is the output of --write-config-to as JSON.
	Configuration json.RawMessage `json:"configuration"`
	// Running lists the plugins at each extension point of each profile, with multiPoint expanded.
	Running []running `json:"running"`
}

// running is a profile as its framework runs it: the plugins of each non-empty extension point, in order.
type running struct {
	SchedulerName string              `json:"schedulerName"`
	Plugins       map[string][]plugin `json:"plugins"`
}

// plugin is a plugin at an extension point, with its weight if weights apply.
type plugin struct {
	Name   string `json:"name"`
	Weight int32  `json:"weight,omitempty"`
}

// stageError is an error with the failed stage.
type stageError struct {
	stage string
	cause error
}

func (e *stageError) Error() string { return e.cause.Error() }

// silence discards kube-scheduler's log.
func silence() error {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	klog.SetOutput(io.Discard)
	return flags.Parse([]string{"-logtostderr=false", "-stderrthreshold=FATAL"})
}

// examineAll examines files with the same feature gates.
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

// examine runs the steps of kube-scheduler's Setup on a file.
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

// write encodes a configuration like --write-config-to, and returns the YAML as JSON.
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

// address matches pointers formatted with %v.
var address = regexp.MustCompile(`0x[0-9a-f]{6,}`)

// steady removes parts of an error text that vary between runs: map order and addresses.
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
