//! The Go modules that the programs are built from.
//!
//! Knows: each `go.mod` and `go.sum` beside this crate, which are part of it, so that they are at hand wherever it runs. Must
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

/// A module without Go code of its own: all that is built are tools that it requires.
#[derive(Clone, Copy, Debug)]
pub(super) struct Module {
    /// Its file in this repository, for messages.
    place: &'static str,
    go_mod: &'static str,
    go_sum: &'static str,
}

/// What the control plane is built from.
pub(super) const CONTROL_PLANE: Module = Module {
    place: "integration-tests/control-plane/go.mod",
    go_mod: include_str!("../go.mod"),
    go_sum: include_str!("../go.sum"),
};

/// What Jaeger is built from. Its requirements clash with Kubernetes'.
pub(super) const JAEGER: Module = Module {
    place: "integration-tests/control-plane/jaeger/go.mod",
    go_mod: include_str!("../jaeger/go.mod"),
    go_sum: include_str!("../jaeger/go.sum"),
};

impl Module {
    /// Writes the module into a folder.
    pub(super) fn write(self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        for (name, content) in [("go.mod", self.go_mod), ("go.sum", self.go_sum)] {
            let path = folder.join(name);
            fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// The version of a module that this one requires, such as `v1.37.1`.
    pub(super) fn version_of(self, required: &str) -> anyhow::Result<String> {
        self.second_word_after(required)
            .with_context(|| format!("{} requires no {required}; add it back with `go get -tool`", self.place))
    }

    /// The oldest Go that builds it, such as `1.26.0`.
    pub(super) fn go_version(self) -> anyhow::Result<String> {
        self.second_word_after("go").with_context(|| format!("{} has no go directive", self.place))
    }

    /// What tells one set of programs from another. `flags` are the linker's.
    pub(super) fn key(self, version: &str, flags: &str) -> String {
        let mut hasher = DefaultHasher::new();
        [self.go_mod, self.go_sum, flags].hash(&mut hasher);
        format!("{version}-{:016x}", hasher.finish())
    }

    fn second_word_after(self, first: &str) -> Option<String> {
        let mut lines = self.go_mod.lines().map(str::split_whitespace);
        lines.find_map(|mut words| (words.next() == Some(first)).then(|| words.next()).flatten()).map(str::to_owned)
    }
}

/// The oldest Go that builds the control plane, such as `1.26.0`.
///
/// # Errors
/// Where `go.mod` does not say.
pub fn go_version() -> anyhow::Result<String> {
    CONTROL_PLANE.go_version()
}

/// The version of Kubernetes, such as `v1.37.1`.
///
/// # Errors
/// Where `go.mod` does not say.
pub fn kubernetes_version() -> anyhow::Result<String> {
    CONTROL_PLANE.version_of("k8s.io/kubernetes")
}

/// The flags that make the programs of Kubernetes call themselves by their release; without them they claim to be
/// v0.0.0-master.
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

    #[test]
    fn the_key_changes_with_the_flags_and_the_module_and_with_nothing_else() {
        assert_eq!(JAEGER.key("v1", "-s"), JAEGER.key("v1", "-s"));
        assert_ne!(JAEGER.key("v1", "-s"), JAEGER.key("v1", "-w"));
        assert_ne!(JAEGER.key("v1", "-s"), CONTROL_PLANE.key("v1", "-s"));
    }
}
