//! The program of Kubernetes' end-to-end tests: built from its Go module, once for each set of versions.
//!
//! Knows: the Go module in `integration-tests/e2e`, and how it is built. Must not know: which specs are run.

use std::{
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{self, Command},
};

use anyhow::{Context as _, ensure};

use crate::go;

const PACKAGE: &str = "k8s.io/kubernetes/test/e2e";
const GO_MOD: &str = include_str!("../../e2e/go.mod");
const GO_SUM: &str = include_str!("../../e2e/go.sum");

/// The path of the program, which is built first where it is missing: many minutes the first time.
///
/// # Errors
/// Where Go is missing or too old, and where the build fails; its messages are above the error.
pub fn build() -> anyhow::Result<PathBuf> {
    let folder = super::folder()?;
    let program = folder.join(format!("e2e-{}.test", key()));
    if program.is_file() {
        return Ok(program);
    }
    // To the standard error itself: what `eprintln!` prints is captured by the test harness.
    _ = writeln!(io::stderr(), "e2e: building {PACKAGE}; the first build takes many minutes");
    // Written aside and renamed, so that an interrupted build leaves nothing that looks finished.
    let partial = folder.join(format!("building-{}", process::id()));
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e");
    // The flags of the control plane: what Go compiled for one is there for the other.
    let status = Command::new("go")
        .args(["test", "-c", "-vet=off", "-mod=readonly", "-trimpath", "-ldflags", "-s -w", "-o"])
        .arg(&partial)
        .arg(PACKAGE)
        .current_dir(&module)
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .env_remove("GOFLAGS")
        .status()
        .map_err(|error| go::explain(error, "integration-tests/e2e/go.mod"))?;
    ensure!(status.success(), "`go test -c {PACKAGE}` in {} failed; its messages are above", module.display());
    fs::rename(&partial, &program).with_context(|| format!("cannot write {}", program.display()))?;
    Ok(program)
}

fn key() -> String {
    let mut hasher = DefaultHasher::new();
    [GO_MOD, GO_SUM].hash(&mut hasher);
    format!("{:016x}", hasher.finish())
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
    fn the_specs_are_those_of_the_control_plane_that_they_run_against() {
        let control_plane = include_str!("../../control-plane/go.mod");
        assert_eq!(versions(GO_MOD).len(), 2, "{:?}", versions(GO_MOD));
        assert_eq!(versions(GO_MOD), versions(control_plane));
    }
}
