//! Programs that the tests start, in Go and Flotilla's, and their paths below `target`.
//!
//! Contains: the tests' Go modules, and the builder of the image. Does not depend on: the tests that use a program.
//!
//! A test builds a program that is missing; `cargo xtask go-programs` builds all of them.

/// The module in a folder below `integration-tests`.
macro_rules! module {
    ($($folder:literal),+) => {
        Module {
            place: concat!("integration-tests/", $($folder,)+ "/go.mod"),
            go_mod: include_str!(concat!("../../", $($folder,)+ "/go.mod")),
            go_sum: include_str!(concat!("../../", $($folder,)+ "/go.sum")),
        }
    };
}

mod clients;
mod own;
mod scheduler_perf;
mod upstream;
mod versions;

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use flotilla_go_programs::{
    Event, Kind, Module, Program, about, control_plane, jaeger, kubernetes_version, linker_flags,
};

pub use clients::{descheduler, jobset, karpenter, kuberay, kueue};
pub use flotilla_go_programs::{Programs, Reaper};
pub use own::{ORACLES, load, oracle, prometheus_operator};
pub use scheduler_perf::{scheduler_perf, scheduler_perf_folder};
pub use upstream::{upstream, upstream_quick};
pub use versions::{SUPPORTED, version};

const HELM: Module = module!("helm");
const E2E: Module = module!("e2e");

/// A separate module with the control plane's versions: most users of the control plane do not need a kubelet.
const KUBELET: Module = module!("node/kubelet");
const CONTAINERD: Module = module!("node/containerd");

const KUBELET_PROGRAMS: &[Program] = &[Program::new("kubelet", "k8s.io/kubernetes/cmd/kubelet", 90)];

const CONTAINERD_PROGRAMS: &[Program] = &[
    Program::new("containerd", "github.com/containerd/containerd/v2/cmd/containerd", 60),
    Program::new("containerd-shim-runc-v2", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2", 10),
    Program::new("ctr", "github.com/containerd/containerd/v2/cmd/ctr", 10),
    Program::new("host-local", "github.com/containernetworking/plugins/plugins/ipam/host-local", 5),
    Program::new("bridge", "github.com/containernetworking/plugins/plugins/main/bridge", 5),
];

/// Programs of most integration tests, in build order: each compiles most packages of the next ones. The oldest supported Kubernetes is last.
///
/// # Errors
/// A `go.mod` lacks a required version.
pub fn common() -> Result<Vec<Programs>> {
    Ok(vec![control_plane(&target())?, jaeger(&target())?, helm()?, version(SUPPORTED[0])?])
}

/// Programs of one test each, in build order. The kubelet and containerd are included only if runc is installed, because the real node's
/// test is skipped otherwise.
///
/// # Errors
/// A `go.mod` lacks a required version.
pub fn special() -> Result<Vec<Programs>> {
    let mut special = vec![e2e()?, upstream_quick()?, karpenter()?];
    if Command::new("runc").arg("--version").output().is_ok_and(|output| output.status.success()) {
        special.extend(node()?);
    }
    Ok(special)
}

/// Helm, in the folder of the control plane's programs.
///
/// # Errors
/// Its `go.mod` has no Helm version.
pub fn helm() -> Result<Programs> {
    const LIST: &[Program] = &[Program::new("helm", "helm.sh/helm/v4/cmd/helm", 60)];
    Programs::small(HELM, "helm.sh/helm/v4", LIST, &target().join("control-plane"))
}

/// Kubernetes' end-to-end tests, `e2e.test`.
///
/// # Errors
/// Its `go.mod` has no Kubernetes version.
pub fn e2e() -> Result<Programs> {
    const LIST: &[Program] = &[Program::new("e2e.test", "k8s.io/kubernetes/test/e2e", 240)];
    let programs = Programs::small(E2E, "k8s.io/kubernetes", LIST, &target().join("e2e"))?;
    Ok(Programs { kind: Kind::Tests, ..programs })
}

/// The kubelet, and containerd with its tools, in one folder.
///
/// # Errors
/// A `go.mod` lacks a required version.
pub fn node() -> Result<[Programs; 2]> {
    let linker_flags = linker_flags(&kubernetes_version()?)?;
    let kubelet = KUBELET.key(&KUBELET.version_of("k8s.io/kubernetes")?, &linker_flags);
    let containerd = CONTAINERD.key(&CONTAINERD.version_of("github.com/containerd/containerd/v2")?, &linker_flags);
    let top = target().join("real-node");
    let into = top.join(format!("programs-{kubelet}-{containerd}"));
    let programs = |module, list, folder| Programs {
        module,
        kind: Kind::Commands,
        linker_flags: linker_flags.clone(),
        list,
        into: into.clone(),
        files: None,
        prepare: None,
        folder,
    };
    Ok([
        programs(KUBELET, KUBELET_PROGRAMS, top.join(format!("kubelet-{kubelet}"))),
        programs(CONTAINERD, CONTAINERD_PROGRAMS, top.join(format!("containerd-{containerd}"))),
    ])
}

/// Builds Flotilla's programs with the tests' features and settings, and returns their folder.
///
/// # Errors
/// The build fails; its messages are on the standard error.
pub fn programs() -> Result<PathBuf> {
    run(&["build", "--quiet", "--workspace", "--all-features", "--bins"])?;
    Ok(cargo_target().join("debug"))
}

/// Builds the program `flotilla` like the README's first command, optimized and without cluster commands. Returns its path.
///
/// # Errors
/// The build fails; its messages are on the standard error.
pub fn released() -> Result<PathBuf> {
    run(&["build", "--quiet", "--release", "-p", "flotilla"])?;
    Ok(cargo_target().join("release/flotilla"))
}

fn cargo_target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(target, |folder| repository().join(folder))
}

/// Builds the programs of Flotilla's image, and returns their folder.
///
/// # Errors
/// The build fails; its messages are on the standard error.
pub fn image() -> Result<PathBuf> {
    let said = run(&["run", "--quiet", "--all-features", "--bin", "flotilla-image", "--", "--programs"])?;
    Ok(PathBuf::from(said.trim_end()))
}

/// A command in the root of the checkout without cargo's package variables: build scripts such as ring's read them, and would compile most
/// dependencies again.
#[must_use]
pub fn command(program: &OsStr) -> Command {
    const OF_A_PACKAGE: [&str; 5] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_", "CARGO_PRIMARY_"];
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        if OF_A_PACKAGE.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command.current_dir(repository());
    command
}

/// The tests' cargo, in the root of the checkout.
#[must_use]
pub fn cargo() -> Command {
    command(&env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn run(words: &[&str]) -> Result<String> {
    let output = cargo().args(words).stderr(Stdio::inherit()).output().context("cargo cannot be started")?;
    ensure!(output.status.success(), "Flotilla's programs do not build ({}); see the messages above", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Printable line of a build event; `None` if it is not printed.
#[must_use]
pub fn line(event: &Event) -> Option<String> {
    match event {
        Event::Waiting => Some("waiting for another process that builds the same programs".to_owned()),
        Event::Building { program, index, count, first_build } => {
            let about = about(*first_build);
            Some(format!("building {program} ({index} of {count}; the first build takes about {about})"))
        }
        Event::Downloading(_) => None,
        Event::Built { program, took } => Some(format!("{program} was built in {} s", took.as_secs())),
    }
}

fn repository() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}

fn target() -> PathBuf {
    repository().join("target")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_of_kubernetes_and_the_kubelet_are_those_of_the_control_plane_that_they_run_against() {
        let control_plane = control_plane(&target()).expect("a version").module.kubernetes();
        assert_eq!(control_plane.len(), 2, "{control_plane:?}");
        assert_eq!(E2E.kubernetes(), control_plane);
        assert_eq!(KUBELET.kubernetes(), control_plane);
        assert_eq!(upstream().expect("a version").module.kubernetes(), control_plane);
    }

    #[test]
    fn each_module_builds_in_a_folder_of_its_own() {
        let clients = [descheduler(), jobset(), kueue()].map(|programs| programs.expect("a version"));
        let all = [common().expect("versions"), special().expect("versions"), clients.to_vec()].concat();
        let mut folders: Vec<PathBuf> = all.into_iter().map(|programs| programs.folder).collect();
        let count = folders.len();
        folders.sort();
        folders.dedup();
        assert_eq!(folders.len(), count);
    }

    #[test]
    fn every_folder_of_the_oracle_with_a_program_is_listed() {
        let entries = std::fs::read_dir(repository().join("integration-tests/oracle")).expect("it is there");
        let programs = entries.flatten().map(|entry| entry.path()).filter(|path| path.join("main.go").is_file());
        let mut names: Vec<String> = programs.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
        names.sort();
        assert_eq!(ORACLES.to_vec(), names);
    }
}
