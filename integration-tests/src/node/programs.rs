//! The programs of a node: built from their Go modules, once for each set of versions.
//!
//! Knows: the modules in `integration-tests/node`, and how they are built. Must not know: how the programs are started.
//!
//! The kubelet is not built with the control plane, which people start who need none. It has a module of its own with the
//! same versions, so that most of it is compiled already.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use flotilla_control_plane::{kubernetes_version, linker_flags};

use crate::go;

/// A Go module and what is built of it.
struct Module {
    folder: &'static str,
    sources: [&'static str; 2],
    packages: &'static [&'static str],
}

const MODULES: [Module; 2] = [
    Module {
        folder: "kubelet",
        sources: [include_str!("../../node/kubelet/go.mod"), include_str!("../../node/kubelet/go.sum")],
        packages: &["k8s.io/kubernetes/cmd/kubelet"],
    },
    Module {
        folder: "containerd",
        sources: [include_str!("../../node/containerd/go.mod"), include_str!("../../node/containerd/go.sum")],
        packages: &[
            "github.com/containerd/containerd/v2/cmd/containerd",
            "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
            "github.com/containerd/containerd/v2/cmd/ctr",
            "github.com/containernetworking/plugins/plugins/ipam/host-local",
            "github.com/containernetworking/plugins/plugins/main/bridge",
        ],
    },
];

/// The folder with all programs, which are built first where they are missing.
///
/// # Errors
/// Where Go is missing or too old, and where a build fails; its messages are above the error.
pub(super) fn build() -> anyhow::Result<PathBuf> {
    let flags = linker_flags(&kubernetes_version()?)?;
    let folder = super::images::folder()?.join(format!("programs-{}", key(&flags)));
    for module in &MODULES {
        let missing = module.packages.iter().any(|package| !folder.join(file_name(package)).is_file());
        if missing {
            module.build(&folder, &flags)?;
        }
    }
    Ok(folder)
}

impl Module {
    fn build(&self, to: &Path, flags: &str) -> anyhow::Result<()> {
        go::announce(&format!("node: building {}; the first build takes minutes", self.folder));
        go::build_aside(to, |aside| {
            let flags = ["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", flags, "-o"];
            let packages = self.packages.iter().map(OsStr::new);
            let arguments: Vec<&OsStr> =
                flags.iter().map(OsStr::new).chain([aside.as_os_str()]).chain(packages).collect();
            go::run(&format!("node/{}", self.folder), &arguments)
        })
    }
}

/// A program is called as the last part of its package that is no version.
fn file_name(package: &str) -> &str {
    package.rsplit('/').next().unwrap_or(package)
}

fn key(flags: &str) -> String {
    let sources = MODULES.iter().flat_map(|module| module.sources);
    go::key(&[flags].into_iter().chain(sources).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubelet_is_that_of_the_control_plane_that_it_speaks_to() {
        let control_plane = include_str!("../../control-plane/go.mod");
        let kubelet = MODULES[0].sources[0];
        assert_eq!(go::kubernetes_of(kubelet).len(), 2, "{:?}", go::kubernetes_of(kubelet));
        assert_eq!(go::kubernetes_of(kubelet), go::kubernetes_of(control_plane));
    }
}
