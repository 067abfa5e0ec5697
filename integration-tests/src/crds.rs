//! The kinds of Prometheus Operator, as their own project publishes them.
//!
//! Knows: the Go module beside this crate, and where the definitions are in it. Must not know: who makes use of them.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::go;

const MODULE: &str = "github.com/prometheus-operator/prometheus-operator";

/// The CustomResourceDefinitions of these kinds, by their plural names, as files. The module is fetched if it is not there yet.
///
/// # Errors
/// Go is missing, the module cannot be fetched or is not the one whose checksum is known, or it has no such kind.
pub fn prometheus_operator(plurals: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("monitoring");
    let mut command = Command::new("go");
    command.args(["mod", "download", "-json", MODULE]).current_dir(&folder).env("GOWORK", "off").env_remove("GOFLAGS");
    let output = command.output().map_err(|error| go::explain(error, "monitoring"))?;
    let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cannot fetch {MODULE}: {}{words}", told["Error"].as_str().unwrap_or_default());
    let module = told["Dir"].as_str().with_context(|| format!("`go mod download` does not say where {MODULE} is"))?;
    let definitions = Path::new(module).join("example/prometheus-operator-crd");
    let file = |plural: &&str| {
        let file = definitions.join(format!("monitoring.coreos.com_{plural}.yaml"));
        ensure!(file.is_file(), "{} is not there; has {MODULE} moved its definitions?", file.display());
        Ok(file)
    };
    plurals.iter().map(file).collect()
}
