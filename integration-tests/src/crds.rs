//! CustomResourceDefinitions of Prometheus Operator, from its Go module.

use std::path::PathBuf;

use anyhow::ensure;

/// Files with the CustomResourceDefinitions of these plurals. Downloads the module if it is missing.
///
/// # Errors
/// Go or a kind is missing, the download fails, or the checksum differs.
pub fn prometheus_operator(plurals: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    let definitions = flotilla_test_programs::prometheus_operator()?.join("example/prometheus-operator-crd");
    let file = |plural: &&str| {
        let file = definitions.join(format!("monitoring.coreos.com_{plural}.yaml"));
        ensure!(file.is_file(), "{} is not there; has Prometheus Operator moved its definitions?", file.display());
        Ok(file)
    };
    plurals.iter().map(file).collect()
}
