//! The Go module that all programs are built from.
//!
//! Knows: `go.mod` and `go.sum` beside this crate, which are part of it, so that they are at hand wherever it runs. Must
//! not know: how anything is built.
//!
//! `go.mod` is the only place that names versions: the cache folder is named after its content, so a changed version is
//! a fresh build and an unchanged one costs a few `stat` calls.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::Path,
};

use anyhow::{Context, bail};

const GO_MOD: &str = include_str!("../go.mod");
const GO_SUM: &str = include_str!("../go.sum");

/// Writes the module into a folder. It has no Go code of its own: all that is built are tools that it requires.
pub(super) fn write(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for (name, content) in [("go.mod", GO_MOD), ("go.sum", GO_SUM)] {
        let path = folder.join(name);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The version of Kubernetes, such as `v1.37.1`.
///
/// # Errors
/// Where `go.mod` does not say.
pub fn kubernetes_version() -> anyhow::Result<String> {
    let required = second_word_after("k8s.io/kubernetes");
    required.context("go.mod of the control plane requires no k8s.io/kubernetes; add it back with `go get -tool`")
}

/// The oldest Go that builds the control plane, such as `1.26.0`.
///
/// # Errors
/// Where `go.mod` does not say.
pub fn go_version() -> anyhow::Result<String> {
    second_word_after("go").context("go.mod of the control plane has no go directive")
}

/// What tells one set of programs from another. `flags` are the linker's.
pub(super) fn key(version: &str, flags: &str) -> String {
    let mut hasher = DefaultHasher::new();
    [GO_MOD, GO_SUM, flags].hash(&mut hasher);
    format!("{version}-{:016x}", hasher.finish())
}

/// The flags that make the programs call themselves by their release; without them they claim to be v0.0.0-master.
///
/// # Errors
/// Where `version` is none.
pub fn linker_flags(version: &str) -> anyhow::Result<String> {
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

fn second_word_after(first: &str) -> Option<String> {
    let mut lines = GO_MOD.lines().map(str::split_whitespace);
    lines.find_map(|mut words| (words.next() == Some(first)).then(|| words.next()).flatten()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_are_those_of_the_module() {
        let version = kubernetes_version().expect("a version");
        assert!(version.starts_with("v1.") && GO_MOD.contains(&format!("k8s.io/kubernetes {version} ")), "{version}");
        assert!(go_version().expect("a version").starts_with("1."));
    }

    #[test]
    fn the_key_changes_with_the_flags_and_with_nothing_else() {
        assert_eq!(key("v1", "-s"), key("v1", "-s"));
        assert_ne!(key("v1", "-s"), key("v1", "-w"));
    }
}
