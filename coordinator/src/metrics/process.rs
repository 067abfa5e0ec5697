//! Metrics of every Kubernetes component: process, version, feature gates.

use flotilla_configuration::features::{self, FeatureGates, FeatureStage};
use prometheus::{core::Collector as _, process_collector::ProcessCollector, proto::MetricFamily};

use super::family::{gauge, level};
use crate::args::KUBERNETES_VERSION;

/// The emulated Kubernetes release, which kube-prometheus' KubeVersionMismatch compares with the cluster's components.
const RELEASE: (&str, &str, &str) = ("1", "37", KUBERNETES_VERSION);

pub(super) fn process() -> Vec<MetricFamily> {
    ProcessCollector::for_self().collect()
}

/// The tasks of the current async runtime, under the name of goroutines in dashboards.
pub(super) fn tasks() -> MetricFamily {
    let alive = tokio::runtime::Handle::try_current().map_or(0, |runtime| runtime.metrics().num_alive_tasks());
    let help = "Number of goroutines that currently exist: here, of tasks of the async runtime.";
    gauge("go_goroutines", help, vec![level(&[], super::family::float(alive as u64))])
}

pub(super) fn gates(gates: &FeatureGates) -> MetricFamily {
    let help = "[BETA] This metric records the data about the stage and enablement of a k8s feature.";
    let samples = features::gates().iter().map(|gate| {
        let stage = match gate.stage {
            FeatureStage::Alpha => "ALPHA",
            FeatureStage::Beta => "BETA",
            FeatureStage::Ga => "",
            FeatureStage::Deprecated => "DEPRECATED",
        };
        level(&[("name", gate.name), ("stage", stage)], f64::from(u8::from(gates.enabled(gate.name))))
    });
    gauge("kubernetes_feature_enabled", help, samples.collect())
}

pub(super) fn builds() -> [MetricFamily; 2] {
    let own = env!("CARGO_PKG_VERSION");
    let (major, minor, release) = RELEASE;
    let version = format!("{release}+flotilla-{own}");
    let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
    let help = "[BETA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree \
                state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it \
                is running.";
    let labels = [
        ("build_date", ""),
        ("compiler", "rustc"),
        ("git_commit", ""),
        ("git_tree_state", ""),
        ("git_version", version.as_str()),
        ("go_version", ""),
        ("major", major),
        ("minor", minor),
        ("platform", platform.as_str()),
    ];
    let kubernetes = gauge("kubernetes_build_info", help, vec![level(&labels, 1.0)]);
    let help = "A constant 1, labelled by the version of Flotilla";
    [kubernetes, gauge("flotilla_build_info", help, vec![level(&[("version", own)], 1.0)])]
}
