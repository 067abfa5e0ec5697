//! Kueue admits workloads by quota, with admission webhooks and conversion webhooks.

use std::{fs, path::PathBuf, process::Command};

use anyhow::Context as _;
use flotilla_control_plane::{ControlPlane, free_port};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, ListParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

use super::manifests;
use crate::certificates::{mount_secret, wait_for_secret};

/// The namespace, and the names that Kueue expects there.
const NAMESPACE: &str = "kueue-system";
const SERVICE: &str = "kueue-webhook-service";
const SECRET: &str = "kueue-webhook-server-cert";

/// The kinds that Kueue's certificate manager expects with a conversion webhook.
const CONVERTED: [&str; 5] = ["localqueues", "clusterqueues", "workloads", "cohorts", "multikueueclusters"];

/// Kueue's controller.
#[derive(Debug)]
pub struct Kueue<'a> {
    cluster: &'a ControlPlane,
}

impl<'a> Kueue<'a> {
    /// Creates Kueue's definitions and webhooks, and starts its controller.
    ///
    /// # Errors
    /// The build fails, or the controller does not become ready.
    pub async fn start(cluster: &'a ControlPlane) -> anyhow::Result<Self> {
        let programs = crate::build_on_another_thread(flotilla_test_programs::kueue()?).await?;
        let [health, port] = [free_port()?, free_port()?];
        let places = programs.files.as_ref().map(flotilla_go_programs::Files::places).unwrap_or_default();
        create_definitions(cluster, &places, port).await?;

        let folder = cluster.folder().join("kueue");
        fs::create_dir_all(&folder)?;
        let configuration = json!({
            "apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", "namespace": NAMESPACE,
            "health": { "healthProbeBindAddress": format!("127.0.0.1:{health}") },
            "metrics": { "bindAddress": "0" },
            "webhook": { "host": "127.0.0.1", "port": port, "certDir": folder },
            "leaderElection": { "leaderElect": false },
            "internalCertManagement": { "enable": true, "webhookServiceName": SERVICE, "webhookSecretName": SECRET },
            "integrations": { "frameworks": ["batch/job", "pod"] },
            // Its server has a fixed folder for certificates.
            "featureGates": { "VisibilityOnDemand": false },
        });
        fs::write(folder.join("config.yaml"), configuration.to_string())?;
        let mut command = Command::new(programs.path("kueue"));
        command.arg(format!("--config={}", folder.join("config.yaml").display()));
        command.env("KUBECONFIG", cluster.kubeconfig());
        cluster.processes().spawn("kueue", command)?;
        let secret = wait_for_secret(cluster, NAMESPACE, SECRET, |secret| {
            secret.data.as_ref().is_some_and(|data| data.contains_key("tls.crt"))
        })
        .await
        .with_context(|| cluster.processes().log_tail("kueue", 20))?;
        mount_secret(&secret, &folder)?;
        manifests::wait_until_ready(cluster, "kueue", health).await?;
        Ok(Self { cluster })
    }

    /// Creates objects of Kueue or others.
    ///
    /// # Errors
    /// The API server or Kueue's webhooks refuse one.
    pub fn create(&self, name: &str, objects: &[Value]) -> anyhow::Result<()> {
        manifests::create(self.cluster, name, objects).with_context(|| self.cluster.processes().log_tail("kueue", 10))
    }

    /// The number of admitted workloads of a queue that are not finished.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn admitted(&self, queue: &str) -> anyhow::Result<usize> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("kueue.x-k8s.io", "v1beta2", "Workload"));
        let api: Api<DynamicObject> = Api::namespaced_with(self.cluster.client(), "default", &kind);
        let workloads = api.list(&ListParams::default()).await?.items;
        let is_admitted = |workload: &&DynamicObject| {
            let conditions = workload.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let has = |kind: &str| {
                conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
            };
            workload.data["spec"]["queueName"] == queue && has("Admitted") && !has("Finished")
        };
        Ok(workloads.iter().filter(is_admitted).count())
    }
}

/// The API server resolves a Service of type ExternalName to this machine, and still verifies the Service's name in the certificate.
async fn create_definitions(cluster: &ControlPlane, places: &[PathBuf], port: u16) -> anyhow::Result<()> {
    let client = |path: &str| {
        let service = json!({ "namespace": NAMESPACE, "name": SERVICE, "path": path, "port": port });
        json!({ "service": service })
    };
    let (webhooks, definitions) = places.split_last().context("Kueue has no manifests")?;
    let mut items = Vec::new();
    for file in definitions {
        for mut definition in manifests::read(file)? {
            let plural = definition["spec"]["names"]["plural"].as_str().unwrap_or_default();
            if CONVERTED.contains(&plural) {
                let webhook = json!({ "clientConfig": client("/convert"), "conversionReviewVersions": ["v1"] });
                definition["spec"]["conversion"] = json!({ "strategy": "Webhook", "webhook": webhook });
            }
            items.push(definition);
        }
    }
    manifests::create(cluster, "kueue-definitions", &items)?;
    manifests::wait_until_established(cluster).await?;
    let metadata = |name: &str| json!({ "name": name, "namespace": NAMESPACE });
    let mut items = vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata(SECRET) }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": metadata(SERVICE),
            "spec": { "type": "ExternalName", "externalName": "localhost", "ports": [{ "port": port }] },
        }),
    ];
    items.extend(manifests::webhooks(webhooks, "kueue", client)?);
    manifests::create(cluster, "kueue-webhooks", &items)
}
