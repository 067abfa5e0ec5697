//! The Go modules of the programs. Only `go.mod` names versions. The folder of the programs is named after its content: a changed version
//! triggers a build, and an unchanged one costs a few `stat` calls.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::Path,
};

use anyhow::Context;

/// A module of required tools without Go code. Its files are embedded, so that they are available everywhere.
#[derive(Clone, Copy, Debug)]
pub struct Module {
    /// Path of `go.mod` in this repository, for messages.
    pub place: &'static str,
    /// Content of `go.mod`.
    pub go_mod: &'static str,
    /// Content of `go.sum`.
    pub go_sum: &'static str,
}

impl Module {
    /// Writes the module into a folder.
    ///
    /// # Errors
    /// The folder is not writable.
    pub fn write(self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        for (name, content) in [("go.mod", self.go_mod), ("go.sum", self.go_sum)] {
            let path = folder.join(name);
            fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// Version of a required module, such as `v1.37.2`.
    ///
    /// # Errors
    /// The module is not required.
    pub fn version_of(self, required: &str) -> anyhow::Result<String> {
        self.second_word_after(required)
            .with_context(|| format!("{} requires no {required}; add it back with `go get -tool`", self.place))
    }

    /// Minimum Go version, such as `1.26.0`.
    ///
    /// # Errors
    /// `go.mod` has no go directive.
    pub fn go_version(self) -> anyhow::Result<String> {
        self.second_word_after("go").with_context(|| format!("{} has no go directive", self.place))
    }

    /// Key of a set of programs. `flags` are the linker's.
    #[must_use]
    pub fn key(self, version: &str, flags: &str) -> String {
        let mut hasher = DefaultHasher::new();
        [self.go_mod, self.go_sum, flags].hash(&mut hasher);
        format!("{version}-{:016x}", hasher.finish())
    }

    /// The lines of `go.mod` that name Kubernetes versions.
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
