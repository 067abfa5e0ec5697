//! Lists the programs of the control plane and Jaeger, and their folders.

use std::path::Path;

use anyhow::{Result, bail};

use crate::{Files, Kind, Module, Program, Programs};

const CONTROL_PLANE: Module = Module {
    place: "control-plane/go.mod",
    go_mod: include_str!("../../go.mod"),
    go_sum: include_str!("../../go.sum"),
};

/// Jaeger's requirements conflict with Kubernetes'.
const JAEGER: Module = Module {
    place: "control-plane/jaeger/go.mod",
    go_mod: include_str!("../../jaeger/go.mod"),
    go_sum: include_str!("../../jaeger/go.sum"),
};

/// In build order: kube-apiserver compiles most packages of the others.
const PROGRAMS: &[Program] = &[
    Program::new("etcd", "go.etcd.io/etcd/server/v3", 60),
    Program::new("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", 420),
    Program::new("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", 120),
    Program::new("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", 30),
    Program::new("kubectl", "k8s.io/kubernetes/cmd/kubectl", 60),
    Program::new("kwok", "sigs.k8s.io/kwok/cmd/kwok", 60),
];

/// kwok has no built-in stages, and does not run without.
const KWOK_STAGES: &[&str] = &[
    "kustomize/stage/node/fast/node-initialize.yaml",
    "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "kustomize/stage/pod/fast/pod-ready.yaml",
    "kustomize/stage/pod/fast/pod-complete.yaml",
    "kustomize/stage/pod/fast/pod-delete.yaml",
];

/// The control plane's programs and kwok's stage files, in `<cache_dir>/control-plane`.
///
/// # Errors
/// `go.mod` has no Kubernetes version.
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
/// `go.mod` has no Jaeger version.
pub fn jaeger(cache_dir: &Path) -> Result<Programs> {
    const LIST: &[Program] = &[Program::new("jaeger", "github.com/jaegertracing/jaeger/cmd/all-in-one", 240)];
    Programs::small(JAEGER, "github.com/jaegertracing/jaeger", LIST, &cache_dir.join("control-plane"))
}

/// Minimum Go version for the control plane, such as `1.26.0`.
///
/// # Errors
/// `go.mod` has no go directive.
pub fn go_version() -> Result<String> {
    CONTROL_PLANE.go_version()
}

/// Kubernetes version, such as `v1.37.2`.
///
/// # Errors
/// `go.mod` has no Kubernetes version.
pub fn kubernetes_version() -> Result<String> {
    CONTROL_PLANE.version_of("k8s.io/kubernetes")
}

/// Linker flags that set the version of Kubernetes' programs; the default is v0.0.0-master.
///
/// # Errors
/// `version` is invalid.
pub fn linker_flags(version: &str) -> Result<String> {
    let mut numbers = version.trim_start_matches('v').split('.');
    let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) else {
        bail!("go.mod of the control plane requires k8s.io/kubernetes {version}, which is not a version like v1.37.2");
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
