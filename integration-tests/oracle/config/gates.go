package main

import (
	"fmt"
	"sort"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
)

// gate is a feature gate of kube-scheduler.
type gate struct {
	// Name is the gate's name in --feature-gates.
	Name string `json:"name"`
	// Default is whether it is on by default.
	Default bool `json:"default"`
	// Stage is ALPHA, BETA, GA or DEPRECATED.
	Stage string `json:"stage"`
	// Locked is whether only the default is allowed.
	Locked bool `json:"locked"`
	// Requires are the gates that must be on if this one is.
	Requires []string `json:"requires"`
}

// setGates sets and checks feature gates like kube-scheduler's flag, before a file is read.
func setGates(gates string) error {
	opts := options.NewOptions()
	if gates != "" {
		if err := opts.Flags.FlagSet("feature gate").Parse([]string{"--feature-gates", gates}); err != nil {
			return &stageError{"gates", err}
		}
	}
	if err := opts.ComponentGlobalsRegistry.Set(); err != nil {
		return &stageError{"gates", err}
	}
	cfg, err := latest.Default()
	if err != nil {
		return &stageError{"gates", err}
	}
	opts.ComponentConfig = cfg
	if errs := opts.Validate(); len(errs) > 0 {
		return &stageError{"gates", utilerrors.NewAggregate(errs)}
	}
	return nil
}

func listGates() ([]gate, error) {
	if err := setGates(""); err != nil {
		return nil, fmt.Errorf("the default feature gates: %w", err)
	}
	var gates []gate
	requires := utilfeature.DefaultMutableFeatureGate.Dependencies()
	for name, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		stage := string(spec.PreRelease)
		if stage == "" {
			stage = "GA"
		}
		one := gate{string(name), spec.Default, stage, spec.LockToDefault, []string{}}
		for _, required := range requires[name] {
			one.Requires = append(one.Requires, string(required))
		}
		sort.Strings(one.Requires)
		gates = append(gates, one)
	}
	sort.Slice(gates, func(i, j int) bool { return gates[i].Name < gates[j].Name })
	return gates, nil
}
