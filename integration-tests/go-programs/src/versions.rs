//! API servers and controllers of the supported Kubernetes versions.

use anyhow::{Context as _, Result};
use flotilla_go_programs::{Kind, Module, Program, Programs, linker_flags};

use crate::target;

/// The supported versions that have a module, the oldest first.
pub const SUPPORTED: [&str; 6] = ["1.32", "1.33", "1.34", "1.35", "1.36", "1.37"];

const LIST: &[Program] = &[
    Program::new("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", 180),
    Program::new("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", 60),
];

macro_rules! modules {
    ($($minor:literal),*) => {
        [$(module!("versions/v", $minor)),*]
    };
}

const MODULES: [Module; SUPPORTED.len()] = modules!["1.32", "1.33", "1.34", "1.35", "1.36", "1.37"];

/// kube-apiserver and kube-controller-manager of a minor version such as `1.32`, in the folder of the control plane's programs.
///
/// # Errors
/// The version is not among [`SUPPORTED`], or its `go.mod` has no Kubernetes version.
pub fn version(minor: &str) -> Result<Programs> {
    let index = SUPPORTED.iter().position(|supported| *supported == minor);
    let index =
        index.with_context(|| format!("Kubernetes {minor} has no module; there are {}", SUPPORTED.join(", ")))?;
    let module = MODULES[index];
    let version = module.version_of("k8s.io/kubernetes")?;
    let linker_flags = linker_flags(&version)?;
    let folder = target().join("control-plane").join(module.key(&version, &linker_flags));
    Ok(Programs {
        module,
        kind: Kind::Commands,
        linker_flags,
        list: LIST,
        into: folder.join("bin"),
        files: None,
        prepare: None,
        folder,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_module_requires_its_version() {
        for (minor, module) in SUPPORTED.iter().zip(MODULES) {
            let version = module.version_of("k8s.io/kubernetes").expect("a version");
            assert!(version.starts_with(&format!("v{minor}.")), "{version}");
            let staging = version.replacen("v1.", "v0.", 1);
            assert!(module.go_mod.contains(&format!("k8s.io/api => k8s.io/api {staging}\n")), "{minor}");
        }
    }
}
