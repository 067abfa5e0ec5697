//! The kinds of Prometheus Operator, as their own project publishes them.
//!
//! Knows: where the definitions are in its module. Must not know: who makes use of them.

use std::path::PathBuf;

use anyhow::ensure;

/// The CustomResourceDefinitions of these kinds, by their plural names, as files. The module is fetched if it is not there yet.
///
/// # Errors
/// Go is missing, the module cannot be fetched or is not the one whose checksum is known, or it has no such kind.
pub fn prometheus_operator(plurals: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    let definitions = flotilla_test_programs::prometheus_operator()?.join("example/prometheus-operator-crd");
    let file = |plural: &&str| {
        let file = definitions.join(format!("monitoring.coreos.com_{plural}.yaml"));
        ensure!(file.is_file(), "{} is not there; has Prometheus Operator moved its definitions?", file.display());
        Ok(file)
    };
    plurals.iter().map(file).collect()
}
