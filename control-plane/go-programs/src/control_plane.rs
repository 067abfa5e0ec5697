//! The programs of the control plane, and Jaeger: which there are, and where each is kept.
//!
//! Knows: each `go.mod` and `go.sum` of theirs, which are part of this crate. Must not know: how the programs are started.

use std::path::Path;

use anyhow::{Result, bail};

use crate::{Files, Kind, Module, Program, Programs};

const CONTROL_PLANE: Module = Module {
    place: "control-plane/go.mod",
    go_mod: include_str!("../../go.mod"),
    go_sum: include_str!("../../go.sum"),
};

/// Its requirements clash with Kubernetes'.
const JAEGER: Module = Module {
    place: "control-plane/jaeger/go.mod",
    go_mod: include_str!("../../jaeger/go.mod"),
    go_sum: include_str!("../../jaeger/go.sum"),
};

/// In build order: kube-apiserver compiles most of what the others share.
const PROGRAMS: &[Program] = &[
    Program::new("etcd", "go.etcd.io/etcd/server/v3", 60),
    Program::new("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", 420),
    Program::new("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", 120),
    Program::new("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", 30),
    Program::new("kubectl", "k8s.io/kubernetes/cmd/kubectl", 60),
    Program::new("kwok", "sigs.k8s.io/kwok/cmd/kwok", 60),
];

/// What kwok does to nodes and pods. kwok has none built in and refuses to run without.
const KWOK_STAGES: &[&str] = &[
    "kustomize/stage/node/fast/node-initialize.yaml",
    "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "kustomize/stage/pod/fast/pod-ready.yaml",
    "kustomize/stage/pod/fast/pod-complete.yaml",
    "kustomize/stage/pod/fast/pod-delete.yaml",
];

/// The programs of the control plane, and kwok's stage files, in `<cache_dir>/control-plane`.
///
/// # Errors
/// Where `go.mod` does not name a version of Kubernetes.
pub fn control_plane(cache_dir: &Path) -> Result<Programs> {
    let version = kubernetes_version()?;
    let linker_flags = linker_flags(&version)?;
    let folder = cache_dir.join("control-plane").join(CONTROL_PLANE.key(&version, &linker_flags));
    Ok(Programs {
        module: CONTROL_PLANE,
        kind: Kind::Commands,
        linker_flags,
        list: PROGRAMS,
        into: folder.join("bin"),
        files: Some(Files { module: "sigs.k8s.io/kwok", paths: KWOK_STAGES, into: folder.join("kwok") }),
        prepare: None,
        folder,
    })
}

/// Jaeger's all-in-one program, in `<cache_dir>/control-plane`.
///
/// # Errors
/// Where its `go.mod` does not name a version of it.
pub fn jaeger(cache_dir: &Path) -> Result<Programs> {
    const LIST: &[Program] = &[Program::new("jaeger", "github.com/jaegertracing/jaeger/cmd/all-in-one", 240)];
    Programs::small(JAEGER, "github.com/jaegertracing/jaeger", LIST, &cache_dir.join("control-plane"))
}

/// The oldest Go that builds the control plane, such as `1.26.0`.
///
/// # Errors
/// Where `go.mod` does not say.
pub fn go_version() -> Result<String> {
    CONTROL_PLANE.go_version()
}

/// The version of Kubernetes, such as `v1.37.1`.
///
/// # Errors
/// Where `go.mod` does not say.
pub fn kubernetes_version() -> Result<String> {
    CONTROL_PLANE.version_of("k8s.io/kubernetes")
}

/// The flags that make the programs of Kubernetes call themselves by their release; without them they claim to be
/// v0.0.0-master.
///
/// # Errors
/// Where `version` is none.
pub fn linker_flags(version: &str) -> Result<String> {
    let mut numbers = version.trim_start_matches('v').split('.');
    let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) else {
        bail!("go.mod of the control plane requires k8s.io/kubernetes {version}, which is not a version like v1.37.1");
    };
    let mut flags = String::from("-s -w");
    for package in ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"] {
        for (variable, value) in [("gitVersion", version), ("gitMajor", major), ("gitMinor", minor)] {
            flags.push_str(&format!(" -X {package}.{variable}={value}"));
        }
    }
    Ok(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_are_those_of_the_module() {
        for (module, required) in [(CONTROL_PLANE, "k8s.io/kubernetes"), (JAEGER, "github.com/jaegertracing/jaeger")] {
            let version = module.version_of(required).expect("a version");
            assert!(
                version.starts_with("v1.") && module.go_mod.contains(&format!("{required} {version} ")),
                "{version}"
            );
            assert!(module.go_version().expect("a version").starts_with("1."));
        }
    }

    #[test]
    fn one_go_builds_all_of_them() {
        assert_eq!(CONTROL_PLANE.go_version().ok(), JAEGER.go_version().ok());
    }
}
