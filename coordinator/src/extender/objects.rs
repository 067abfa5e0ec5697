//! Pods for extenders, read from the API server.
//!
//! A pod is read when extenders are called for it. The machine keeps only the fields that plugins read; keeping every pending pod whole
//! would cost more than one request for each decision.

use std::{sync::Arc, time::Duration};

use flotilla_runtime::{
    chain,
    extender::{Failure, pod_text},
};
use kube::core::{Request, params::GetParams};
use serde_json::{Value, value::RawValue};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn pod(
    client: &kube::Client,
    namespace: &str,
    name: &str,
    uid: &str,
) -> Result<Arc<RawValue>, Failure> {
    let failed = |reason: String| Failure::Error(format!("cannot read the pod for extenders: {reason}"));
    let request = Request::new(format!("/api/v1/namespaces/{namespace}/pods")).get(name, &GetParams::default());
    let request = request.map_err(|error| failed(error.to_string()))?;
    let read = timeout(PATIENCE, client.request::<Value>(request)).await;
    match read.map_err(|_| failed(format!("the API server did not answer within {PATIENCE:?}")))? {
        Ok(pod) if pod["metadata"]["uid"] == *uid => pod_text(pod).map_err(failed),
        Ok(_) => Err(Failure::Gone),
        Err(kube::Error::Api(status)) if status.code == 404 => Err(Failure::Gone),
        Err(error) => Err(failed(chain(&error))),
    }
}
