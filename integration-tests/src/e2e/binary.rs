//! The program of Kubernetes' end-to-end tests: built from its Go module, once for each set of versions.
//!
//! Knows: the Go module in `integration-tests/e2e`, and how it is built. Must not know: which specs are run.

use std::path::PathBuf;

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
    let program = folder.join(format!("e2e-{}.test", go::key(&[GO_MOD, GO_SUM])));
    if program.is_file() {
        return Ok(program);
    }
    go::announce(&format!("e2e: building {PACKAGE}; the first build takes many minutes"));
    let flags = ["test", "-c", "-vet=off", "-mod=readonly", "-trimpath", "-ldflags", "-s -w", "-o"];
    go::build_program("e2e", &flags, PACKAGE, &program)?;
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_specs_are_those_of_the_control_plane_that_they_run_against() {
        let control_plane = include_str!("../../control-plane/go.mod");
        assert_eq!(go::kubernetes_of(GO_MOD).len(), 2, "{:?}", go::kubernetes_of(GO_MOD));
        assert_eq!(go::kubernetes_of(GO_MOD), go::kubernetes_of(control_plane));
    }
}
