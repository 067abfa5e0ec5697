//! Helm, and the chart in `deploy/helm/flotilla` as it renders.
//!
//! Knows: how helm is called. Must not know: what the chart should say.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context as _, ensure};
use serde::Deserialize as _;
use serde_json::Value;

/// The chart.
#[must_use]
pub fn chart() -> PathBuf {
    repository().join("deploy/helm/flotilla")
}

/// The top of the checkout.
#[must_use]
pub fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// The program helm, which is built first where it is missing: some minutes the first time.
///
/// # Errors
/// Where Go is missing or too old, and where the build fails.
pub fn build() -> anyhow::Result<PathBuf> {
    let programs = flotilla_test_programs::helm()?;
    crate::build(&programs)?;
    Ok(programs.path("helm"))
}

/// Runs helm with some arguments, in an environment of its own: a KUBECONFIG or a plugin of the user who runs this has
/// no effect.
///
/// # Errors
/// Where it cannot be built or started.
pub fn helm(arguments: &[&str]) -> anyhow::Result<Output> {
    let home = tempfile::tempdir().context("cannot create a temporary folder; is TMPDIR writable?")?;
    let program = build()?;
    let mut command = Command::new(&program);
    command.env_clear().env("HOME", home.path()).env("PATH", env::var_os("PATH").unwrap_or_default());
    command.args(arguments).output().with_context(|| format!("cannot run {}", program.display()))
}

/// What the chart renders with these values, YAML, for a release `name` in the namespace `flotilla`.
///
/// # Errors
/// What helm says where it refuses the values.
pub fn render(name: &str, values: &str) -> anyhow::Result<String> {
    let folder = tempfile::tempdir().context("cannot create a temporary folder; is TMPDIR writable?")?;
    let file = folder.path().join("values.yaml");
    fs::write(&file, values)?;
    let (chart, file) = (chart().display().to_string(), file.display().to_string());
    let output = helm(&["template", name, &chart, "--namespace", "flotilla", "--values", &file])?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).context("helm wrote something that is not UTF-8")
}

/// The objects of some YAML, by kind, namespace and name.
///
/// # Errors
/// Where it is not YAML.
pub fn objects(yaml: &str) -> anyhow::Result<Vec<(String, Value)>> {
    let mut objects = Vec::new();
    for document in serde_yaml::Deserializer::from_str(yaml) {
        let object = Value::deserialize(document).context("this is not YAML")?;
        if object.is_null() {
            continue;
        }
        let word = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let name = format!("{} {}/{}", word("/kind"), word("/metadata/namespace"), word("/metadata/name"));
        objects.push((name, object));
    }
    objects.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(objects)
}
