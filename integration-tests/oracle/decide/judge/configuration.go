package judge

// This file knows how kube-scheduler reads its configuration.

import (
	"fmt"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
)

// Configure reads a KubeSchedulerConfiguration as kube-scheduler does with --config; an empty path gives the stock one.
// The second result says what of it does not take part.
func Configure(path string) (*config.KubeSchedulerConfiguration, []string, error) {
	if path == "" {
		stock, err := latest.Default()
		return stock, nil, err
	}
	read, err := options.LoadConfigFromFile(klog.Background(), path)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := validation.ValidateKubeSchedulerConfiguration(read); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	var warnings []string
	if len(read.Extenders) > 0 {
		warnings = append(warnings, fmt.Sprintf("%s: its %d extenders are not asked", path, len(read.Extenders)))
		read.Extenders = nil
	}
	return read, warnings, nil
}
