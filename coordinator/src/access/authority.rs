//! The certificate authority that signs client certificates, from a file or from the cluster.

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use tokio::sync::watch;
use tracing::{info, warn};

/// The ConfigMap with the API server's `--client-ca-file`. The Role `extension-apiserver-authentication-reader` grants access.
const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
const KEY: &str = "client-ca-file";
/// Between two reads. Authorities change once in years, and the old and the new one overlap.
const PERIOD: Duration = Duration::from_secs(60);
const FIRST_PERIOD: Duration = Duration::from_secs(2);
const TIMEOUT: Duration = Duration::from_secs(10);

/// The location of the authority.
#[derive(Clone)]
pub enum Authority {
    /// In a file, in PEM.
    File(PathBuf),
    /// In the cluster.
    Cluster(kube::Client),
}

impl Authority {
    /// Sends the authority in PEM, and again after each change, until the receiver is dropped.
    pub async fn follow(self, told: watch::Sender<Option<String>>) {
        let mut complained = false;
        while !told.is_closed() {
            match self.read().await {
                Ok(pem) => {
                    complained = false;
                    let is_new = |known: &mut Option<String>| {
                        let is_new = *known != pem;
                        known.clone_from(&pem);
                        is_new
                    };
                    if told.send_if_modified(is_new) {
                        info!(known = told.borrow().is_some(), "authority of client certificates");
                    }
                }
                Err(error) if !complained => {
                    complained = true;
                    let error = format!("{error:#}");
                    warn!(error, "client certificates are not known until their authority can be read");
                }
                Err(_) => {}
            }
            let period = if told.borrow().is_none() { FIRST_PERIOD } else { PERIOD };
            tokio::select! {
                () = tokio::time::sleep(period) => {}
                () = told.closed() => return,
            }
        }
    }

    async fn read(&self) -> anyhow::Result<Option<String>> {
        match self {
            Self::File(path) => {
                let pem = tokio::fs::read_to_string(path).await;
                Ok(Some(pem.with_context(|| format!("cannot read --client-ca-file {}", path.display()))?))
            }
            Self::Cluster(client) => {
                let api = Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE);
                let found = tokio::time::timeout(TIMEOUT, api.get_opt(NAME)).await;
                let found = found.with_context(|| format!("no answer within {TIMEOUT:?}"))?.with_context(|| {
                    format!(
                        "cannot read ConfigMap {NAMESPACE}/{NAME}; bind the Role \
                         extension-apiserver-authentication-reader, as deploy/base/rbac.yaml does, name the authority with \
                         --client-ca-file, or pass --authentication-skip-lookup"
                    )
                })?;
                Ok(found.and_then(|map| map.data?.remove(KEY)))
            }
        }
    }
}
