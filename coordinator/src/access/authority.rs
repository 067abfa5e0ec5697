//! The certificate authority that signs client certificates: of a file, or the one that the API server tells of.
//!
//! Knows: where it is and that it changes. Must not know: TLS, or what a certificate is good for.

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use tokio::sync::watch;
use tracing::{info, warn};

/// Where the API server tells what its own `--client-ca-file` is. The Role `extension-apiserver-authentication-reader`
/// lets one read it.
const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
const KEY: &str = "client-ca-file";
/// Between two looks. Authorities change once in years, and both old and new are there for a while.
const PERIOD: Duration = Duration::from_secs(60);
/// Between two looks before the first that succeeded.
const FIRST_PERIOD: Duration = Duration::from_secs(2);
/// For one look.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where the authority is.
#[derive(Clone)]
pub enum Authority {
    /// In a file, in PEM.
    File(PathBuf),
    /// In the cluster.
    Cluster(kube::Client),
}

impl Authority {
    /// Tells of the authority in PEM, and again whenever it has changed, until the receiver is dropped.
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

    /// `None`: the API server takes no client certificates.
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
