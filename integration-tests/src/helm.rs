//! Helm, and the rendered chart of `deploy/helm/flotilla`.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context as _, ensure};
use serde::Deserialize as _;
use serde_json::Value;

/// Path of the chart.
#[must_use]
pub fn chart() -> PathBuf {
    repository().join("deploy/helm/flotilla")
}

/// Root of the checkout.
#[must_use]
pub fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Builds helm if it is missing, which takes some minutes. Returns its path.
///
/// # Errors
/// Go is missing or too old, or the build fails.
pub fn build() -> anyhow::Result<PathBuf> {
    let programs = flotilla_test_programs::helm()?;
    crate::build(&programs)?;
    Ok(programs.path("helm"))
}

/// Runs helm without the user's environment, KUBECONFIG and plugins.
///
/// # Errors
/// It cannot be built or started.
pub fn helm(arguments: &[&str]) -> anyhow::Result<Output> {
    let home = tempfile::tempdir().context("cannot create a temporary folder; is TMPDIR writable?")?;
    let program = build()?;
    let mut command = Command::new(&program);
    command.env_clear().env("HOME", home.path()).env("PATH", env::var_os("PATH").unwrap_or_default());
    command.args(arguments).output().with_context(|| format!("cannot run {}", program.display()))
}

/// Renders the chart with these YAML values as release `name` in the namespace `flotilla`.
///
/// # Errors
/// Helm's message if it refuses the values.
pub fn render(name: &str, values: &str) -> anyhow::Result<String> {
    let folder = tempfile::tempdir().context("cannot create a temporary folder; is TMPDIR writable?")?;
    let file = folder.path().join("values.yaml");
    fs::write(&file, values)?;
    let (chart, file) = (chart().display().to_string(), file.display().to_string());
    let output = helm(&["template", name, &chart, "--namespace", "flotilla", "--values", &file])?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).context("helm wrote something that is not UTF-8")
}

/// The objects of YAML documents, by kind, namespace and name.
///
/// # Errors
/// Invalid YAML.
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
