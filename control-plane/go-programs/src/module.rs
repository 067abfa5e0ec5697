//! The Go modules that the programs are built from.
//!
//! Knows: what is read of a `go.mod`, and what a set of versions is called. Must not know: how anything is built.
//!
//! `go.mod` is the only place that names versions: the folder of the programs is named after its content, so a changed
//! version is a fresh build and an unchanged one costs a few `stat` calls.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::Path,
};

use anyhow::Context;

/// A module without Go code of its own: all that is built are tools that it requires. Its files are part of the program that
/// builds it, so that they are at hand wherever that runs.
#[derive(Clone, Copy, Debug)]
pub struct Module {
    /// Its `go.mod` in this repository, for messages.
    pub place: &'static str,
    /// The content of `go.mod`.
    pub go_mod: &'static str,
    /// The content of `go.sum`.
    pub go_sum: &'static str,
}

impl Module {
    /// Writes the module into a folder.
    ///
    /// # Errors
    /// Where the folder cannot be written to.
    pub fn write(self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        for (name, content) in [("go.mod", self.go_mod), ("go.sum", self.go_sum)] {
            let path = folder.join(name);
            fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// The version of a module that this one requires, such as `v1.37.1`.
    ///
    /// # Errors
    /// Where it requires no such module.
    pub fn version_of(self, required: &str) -> anyhow::Result<String> {
        self.second_word_after(required)
            .with_context(|| format!("{} requires no {required}; add it back with `go get -tool`", self.place))
    }

    /// The oldest Go that builds it, such as `1.26.0`.
    ///
    /// # Errors
    /// Where `go.mod` does not say.
    pub fn go_version(self) -> anyhow::Result<String> {
        self.second_word_after("go").with_context(|| format!("{} has no go directive", self.place))
    }

    /// What tells one set of programs from another. `flags` are the linker's.
    #[must_use]
    pub fn key(self, version: &str, flags: &str) -> String {
        let mut hasher = DefaultHasher::new();
        [self.go_mod, self.go_sum, flags].hash(&mut hasher);
        format!("{version}-{:016x}", hasher.finish())
    }

    /// The lines that say which Kubernetes it is.
    #[must_use]
    pub fn kubernetes(self) -> Vec<&'static str> {
        let kubernetes =
            |line: &&str| line.starts_with("k8s.io/kubernetes ") || line.starts_with("k8s.io/client-go =>");
        self.go_mod.lines().map(|line| line.trim().trim_end_matches(" // indirect")).filter(kubernetes).collect()
    }

    fn second_word_after(self, first: &str) -> Option<String> {
        let mut lines = self.go_mod.lines().map(str::split_whitespace);
        lines.find_map(|mut words| (words.next() == Some(first)).then(|| words.next()).flatten()).map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: Module = Module {
        place: "go.mod",
        go_mod: "go 1.26.0\n\nrequire (\n\texample.com/a v1.2.3 // indirect\n)\n",
        go_sum: "",
    };

    #[test]
    fn versions_are_read_from_go_mod() {
        assert_eq!(MODULE.go_version().ok().as_deref(), Some("1.26.0"));
        assert_eq!(MODULE.version_of("example.com/a").ok().as_deref(), Some("v1.2.3"));
        let error = MODULE.version_of("example.com/b").expect_err("it is not required");
        assert!(error.to_string().contains("requires no example.com/b"), "{error}");
    }

    #[test]
    fn the_key_changes_with_the_flags_and_the_module_and_with_nothing_else() {
        let other = Module { go_sum: "other", ..MODULE };
        assert_eq!(MODULE.key("v1", "-s"), Module { place: "elsewhere", ..MODULE }.key("v1", "-s"));
        assert_ne!(MODULE.key("v1", "-s"), MODULE.key("v1", "-w"));
        assert_ne!(MODULE.key("v1", "-s"), other.key("v1", "-s"));
    }
}
