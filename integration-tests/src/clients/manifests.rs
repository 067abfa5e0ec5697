//! Manifests of a client's module, changed for a client that is a process of the test.

use std::{fs, path::Path};

use anyhow::Context as _;
use flotilla_control_plane::{ControlPlane, wait_until};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::{deployed::kubectl, fleet::PATIENCE};

/// The documents of a YAML file.
pub(super) fn read(file: &Path) -> anyhow::Result<Vec<Value>> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let documents = serde_yaml::Deserializer::from_str(&text).map(Value::deserialize);
    let documents: Result<Vec<Value>, _> = documents.collect();
    Ok(documents?.into_iter().filter(|document| !document.is_null()).collect())
}

/// Webhook configurations with the prefix that the client's kustomization gives their names. `client` is the `clientConfig` for a path.
pub(super) fn webhooks(file: &Path, prefix: &str, client: impl Fn(&str) -> Value) -> anyhow::Result<Vec<Value>> {
    let mut configurations = read(file)?;
    for configuration in &mut configurations {
        let name = configuration["metadata"]["name"].as_str().context("a configuration without a name")?;
        configuration["metadata"]["name"] = json!(format!("{prefix}-{name}"));
        for webhook in configuration["webhooks"].as_array_mut().context("a configuration without webhooks")? {
            let path = webhook["clientConfig"]["service"]["path"].as_str().context("a webhook without a path")?;
            webhook["clientConfig"] = client(path);
        }
    }
    Ok(configurations)
}

/// Creates objects as an administrator. `name` is that of the file with the list.
pub(super) fn create(cluster: &ControlPlane, name: &str, items: &[Value]) -> anyhow::Result<()> {
    let file = cluster.folder().join(format!("{name}.json"));
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
    fs::write(&file, list.to_string()).with_context(|| format!("cannot write {}", file.display()))?;
    kubectl(cluster, &["create", "-f", &file.to_string_lossy()]).map(drop)
}

/// Waits until the API server serves all definitions.
pub(super) async fn wait_until_established(cluster: &ControlPlane) -> anyhow::Result<()> {
    // `kubectl wait` fails for a definition that has no conditions yet.
    let wait = ["wait", "--for=condition=Established", "customresourcedefinitions", "--all"];
    wait_until("the definitions to be established", PATIENCE, async || {
        kubectl(cluster, &wait).map(drop).map_err(|error| format!("{error:#}"))
    })
    .await
}

/// Waits until the client's probe is ready.
pub(super) async fn wait_until_ready(cluster: &ControlPlane, process: &str, port: u16) -> anyhow::Result<()> {
    wait_until(&format!("{process} to be ready"), PATIENCE, async || {
        let ready = cluster.get_from(&format!("http://127.0.0.1:{port}"), "readyz").await;
        ready.map(drop).map_err(|error| format!("{error:#}"))
    })
    .await
    .with_context(|| cluster.processes().log_tail(process, 20))
}
