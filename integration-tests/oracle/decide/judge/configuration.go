package judge

// Reading of kube-scheduler's configuration.

import (
	"fmt"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
)

// Configure reads a KubeSchedulerConfiguration like --config; an empty path returns the default.
func Configure(path string) (*config.KubeSchedulerConfiguration, error) {
	if path == "" {
		return latest.Default()
	}
	read, err := options.LoadConfigFromFile(klog.Background(), path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := validation.ValidateKubeSchedulerConfiguration(read); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return read, nil
}
