//! The Go tool, in the modules of this crate, and what is kept of its builds.
//!
//! Knows: how `go` is called, and how a build that was interrupted leaves nothing behind. Must not know: what is built.

use std::{
    ffi::OsStr,
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{self, Write as _},
    path::Path,
    process::Command,
};

use anyhow::{Context as _, bail, ensure};

/// Runs `go` with some arguments in a module of this crate, such as `helm`; what it says goes to the standard error.
///
/// The environment is that of the control plane's build: what Go compiled for one is there for the other.
///
/// # Errors
/// Where `go` is missing, and where it fails; its messages are above the error.
pub(crate) fn run(module: &str, arguments: &[&OsStr]) -> anyhow::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(module);
    let status = Command::new("go")
        .args(arguments)
        .current_dir(&folder)
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .env_remove("GOFLAGS")
        .status()
        .map_err(|error| explain(error, module))?;
    let said = || arguments.iter().map(|argument| argument.to_string_lossy()).collect::<Vec<_>>().join(" ");
    ensure!(status.success(), "`go {}` in {} failed; its messages are above", said(), folder.display());
    Ok(())
}

/// Builds one program of a module of this crate with these flags, of which the last says where to, as [`build_aside`] does.
///
/// # Errors
/// As [`run`] and [`build_aside`].
pub(crate) fn build_program(module: &str, flags: &[&str], package: &str, program: &Path) -> anyhow::Result<()> {
    let (Some(folder), Some(name)) = (program.parent(), program.file_name()) else {
        bail!("{} is no place for a program", program.display())
    };
    build_aside(folder, |aside| {
        let to = aside.join(name);
        let arguments: Vec<&OsStr> =
            flags.iter().map(OsStr::new).chain([to.as_os_str(), OsStr::new(package)]).collect();
        run(module, &arguments)
    })
}

/// Has `build` make something in the folder `to`, which is made where it is missing. It is given a folder aside, of which
/// all is moved when it is done, so that an interrupted build leaves nothing that looks finished.
///
/// # Errors
/// Those of `build`, and where `to` cannot be written to.
pub(crate) fn build_aside(to: &Path, build: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    fs::create_dir_all(to)
        .with_context(|| format!("cannot create {}; is the target folder writable?", to.display()))?;
    let aside = tempfile::tempdir_in(to).with_context(|| format!("cannot write to {}", to.display()))?;
    build(aside.path())?;
    for made in fs::read_dir(aside.path()).with_context(|| format!("cannot read {}", aside.path().display()))? {
        let made = made.with_context(|| format!("cannot read {}", aside.path().display()))?;
        let place = to.join(made.file_name());
        fs::rename(made.path(), &place).with_context(|| format!("cannot write {}", place.display()))?;
    }
    Ok(())
}

/// What tells one set of versions from another, in the name of what is kept of a build: 16 digits.
pub(crate) fn key(sources: &[&str]) -> String {
    let mut hasher = DefaultHasher::new();
    sources.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Tells whoever waits, at the standard error itself: what `eprintln!` prints is captured by the test harness.
pub(crate) fn announce(words: &str) {
    _ = writeln!(io::stderr(), "{words}");
}

/// The error of a `go` that could not be started, with what to do.
pub(crate) fn explain(error: io::Error, module: &str) -> anyhow::Error {
    let message = if error.kind() == io::ErrorKind::NotFound {
        format!(
            "`go` is not on the PATH, and this is built with it: install the Go version named in \
             integration-tests/{module}/go.mod (https://go.dev/dl) and run again"
        )
    } else {
        "cannot run `go`".to_owned()
    };
    anyhow::Error::new(error).context(message)
}

/// The lines of a `go.mod` that say which Kubernetes it is.
#[cfg(test)]
pub(crate) fn kubernetes_of(go_mod: &str) -> Vec<&str> {
    let kubernetes = |line: &&str| line.starts_with("k8s.io/kubernetes ") || line.starts_with("k8s.io/client-go =>");
    go_mod.lines().map(|line| line.trim().trim_end_matches(" // indirect")).filter(kubernetes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_build_made_is_moved_and_what_was_interrupted_is_gone() {
        let top = tempfile::tempdir().expect("there is a temporary folder");
        let place = top.path().join("programs");
        let interrupted = build_aside(&place, |aside| {
            fs::write(aside.join("half"), "half")?;
            anyhow::bail!("no more")
        });
        assert!(interrupted.is_err());
        build_aside(&place, |aside| Ok(fs::write(aside.join("whole"), "whole")?)).expect("this build succeeds");
        let left: Vec<_> =
            fs::read_dir(&place).expect("it is there").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, ["whole"]);
    }

    #[test]
    fn other_versions_have_another_key() {
        assert_eq!(key(&["a", "b"]), key(&["a", "b"]));
        assert_ne!(key(&["a", "b"]), key(&["ab", ""]));
        assert_eq!(key(&["a"]).len(), 16);
    }
}
