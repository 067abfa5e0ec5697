//! The programs of a node: built from their Go modules, once for each set of versions.
//!
//! Knows: the modules in `integration-tests/node`, and how they are built. Must not know: how the programs are started.
//!
//! The kubelet is not built with the control plane, which people start who need none. It has a module of its own with the
//! same versions, so that most of it is compiled already.

use std::{
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};
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
    let folder = super::images::folder()?.join(format!("programs-{:016x}", key(&flags)));
    fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}; is the target folder writable?", folder.display()))?;
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
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("node").join(self.folder);
        // To the standard error itself: what `eprintln!` prints is captured by the test harness.
        _ = writeln!(io::stderr(), "node: building {}; the first build takes minutes", self.folder);
        // Built aside and moved, so that an interrupted build leaves nothing that looks finished.
        let aside = tempfile::tempdir_in(to).with_context(|| format!("cannot write to {}", to.display()))?;
        let status = Command::new("go")
            .args(["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", flags, "-o"])
            .arg(aside.path())
            .args(self.packages)
            .current_dir(&source)
            .env("CGO_ENABLED", "0")
            .env("GOWORK", "off")
            .env_remove("GOFLAGS")
            .status()
            .map_err(|error| go::explain(error, "integration-tests/node/containerd/go.mod"))?;
        ensure!(status.success(), "`go build` in {} failed; its messages are above", source.display());
        for package in self.packages {
            let name = file_name(package);
            fs::rename(aside.path().join(name), to.join(name)).with_context(|| format!("cannot move {name}"))?;
        }
        Ok(())
    }
}

/// A program is called as the last part of its package that is no version.
fn file_name(package: &str) -> &str {
    package.rsplit('/').next().unwrap_or(package)
}

fn key(flags: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    flags.hash(&mut hasher);
    MODULES.iter().for_each(|module| module.sources.hash(&mut hasher));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(go_mod: &str) -> Vec<&str> {
        let kubernetes =
            |line: &&str| line.starts_with("k8s.io/kubernetes ") || line.starts_with("k8s.io/client-go =>");
        go_mod.lines().map(|line| line.trim().trim_end_matches(" // indirect")).filter(kubernetes).collect()
    }

    #[test]
    fn the_kubelet_is_that_of_the_control_plane_that_it_speaks_to() {
        let control_plane = include_str!("../../control-plane/go.mod");
        let kubelet = MODULES[0].sources[0];
        assert_eq!(versions(kubelet).len(), 2, "{:?}", versions(kubelet));
        assert_eq!(versions(kubelet), versions(control_plane));
    }
}
