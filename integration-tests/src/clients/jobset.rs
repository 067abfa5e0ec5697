//! JobSet's controller creates several Jobs as one, with admission webhooks.

use std::{fs, process::Command};

use anyhow::Context as _;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use flotilla_control_plane::{ControlPlane, free_port};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, PostParams},
    core::GroupVersionKind,
};
use serde_json::{from_value, json};

use super::manifests;

/// JobSet's controller.
#[derive(Debug)]
pub struct JobSets<'a> {
    cluster: &'a ControlPlane,
}

impl<'a> JobSets<'a> {
    /// Creates JobSet's definition and webhooks, and starts its controller.
    ///
    /// # Errors
    /// The build fails, or the controller does not become ready.
    pub async fn start(cluster: &'a ControlPlane) -> anyhow::Result<Self> {
        let programs = crate::build_on_another_thread(flotilla_test_programs::jobset()?).await?;
        let [health, port] = [free_port()?, free_port()?];
        let places = programs.files.as_ref().map(flotilla_go_programs::Files::places).unwrap_or_default();
        let [definition, webhooks] = places.as_slice() else { anyhow::bail!("{places:?}") };
        manifests::create(cluster, "jobset-definitions", &manifests::read(definition)?)?;
        manifests::wait_until_established(cluster).await?;

        let folder = cluster.folder().join("jobset");
        fs::create_dir_all(&folder)?;
        let (certificate, key) = cluster.serving_certificate();
        fs::copy(certificate, folder.join("tls.crt"))?;
        fs::copy(key, folder.join("tls.key"))?;
        let configuration = json!({
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1", "kind": "Configuration",
            "health": { "healthProbeBindAddress": format!("127.0.0.1:{health}") },
            "metrics": { "bindAddress": "0", "certDir": folder },
            "webhook": { "host": "127.0.0.1", "port": port, "certDir": folder },
            "leaderElection": { "leaderElect": false },
            "internalCertManagement": { "enable": false },
        });
        fs::write(folder.join("config.yaml"), configuration.to_string())?;
        let mut command = Command::new(programs.path("jobset"));
        command.arg(format!("--config={}", folder.join("config.yaml").display()));
        command.env("KUBECONFIG", cluster.kubeconfig());
        cluster.processes().spawn("jobset", command)?;
        manifests::wait_until_ready(cluster, "jobset", health).await?;

        let authority = BASE64_STANDARD.encode(fs::read(cluster.authority_certificate())?);
        let url = |path: &str| json!({ "url": format!("https://127.0.0.1:{port}{path}"), "caBundle": authority });
        manifests::create(cluster, "jobset-webhooks", &manifests::webhooks(webhooks, "jobset", url)?)?;
        Ok(Self { cluster })
    }

    /// The JobSets of the namespace `default`.
    #[must_use]
    pub fn api(&self) -> Api<DynamicObject> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("jobset.x-k8s.io", "v1alpha2", "JobSet"));
        Api::namespaced_with(self.cluster.client(), "default", &kind)
    }

    /// Creates a JobSet.
    ///
    /// # Errors
    /// The API server or JobSet's webhooks refuse it.
    pub async fn create(&self, jobset: serde_json::Value) -> anyhow::Result<()> {
        let created = self.api().create(&PostParams::default(), &from_value(jobset)?).await;
        created.map(drop).with_context(|| self.cluster.processes().log_tail("jobset", 10))
    }
}
