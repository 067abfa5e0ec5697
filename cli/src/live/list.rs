//! Lists the objects of a cluster that affect scheduling.

use anyhow::{Context as _, anyhow};
use flotilla_framework::ingest::beta;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::ListParams,
    core::{Request, request},
};
use serde::Deserialize;
use serde_json::Value;

/// The page size, equal to the coordinator's.
const PAGE: u32 = 500;
/// Terminated pods use no resources.
const LIVE_PODS: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// A kind that may affect scheduling.
pub(crate) struct Kind {
    /// Such as `apps/v1`.
    pub(crate) api_version: &'static str,
    /// Such as `ReplicaSet`.
    pub(crate) name: &'static str,
    plural: &'static str,
    /// Failure to list a vital kind is an error; without the others, few answers change.
    is_vital: bool,
}

const fn kind(api_version: &'static str, name: &'static str, plural: &'static str) -> Kind {
    Kind { api_version, name, plural, is_vital: false }
}

/// All kinds that scheduling reads.
const KINDS: [Kind; 19] = [
    Kind { is_vital: true, ..kind("v1", "Node", "nodes") },
    Kind { is_vital: true, ..kind("v1", "Pod", "pods") },
    kind("v1", "Namespace", "namespaces"),
    kind("v1", "Service", "services"),
    kind("v1", "ReplicationController", "replicationcontrollers"),
    kind("apps/v1", "ReplicaSet", "replicasets"),
    kind("apps/v1", "StatefulSet", "statefulsets"),
    kind("v1", "PersistentVolume", "persistentvolumes"),
    kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    kind("storage.k8s.io/v1", "StorageClass", "storageclasses"),
    kind("storage.k8s.io/v1", "CSINode", "csinodes"),
    kind("storage.k8s.io/v1", "CSIDriver", "csidrivers"),
    kind("storage.k8s.io/v1", "CSIStorageCapacity", "csistoragecapacities"),
    kind("storage.k8s.io/v1", "VolumeAttachment", "volumeattachments"),
    kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    kind("resource.k8s.io/v1", "ResourceClaim", "resourceclaims"),
    kind("resource.k8s.io/v1", "ResourceSlice", "resourceslices"),
    kind("resource.k8s.io/v1", "DeviceClass", "deviceclasses"),
    kind("resource.k8s.io/v1", "DeviceTaintRule", "devicetaintrules"),
];

/// More kinds that create, change or refuse pods or other objects, in addition to [`KINDS`]. Jobs are excluded: terminated pods are not read, and would be
/// created again.
const MAKERS: [Kind; 7] = [
    kind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses"),
    kind("apps/v1", "Deployment", "deployments"),
    kind("apps/v1", "DaemonSet", "daemonsets"),
    kind("resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates"),
    kind("v1", "LimitRange", "limitranges"),
    kind("v1", "ResourceQuota", "resourcequotas"),
    kind("node.k8s.io/v1", "RuntimeClass", "runtimeclasses"),
];

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMetadata,
    items: Option<Vec<Value>>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(rename = "continue")]
    next: Option<String>,
}

/// Lists all objects that may affect an existing pod, and passes each page to `each`. Returns warnings about kinds that could not be
/// listed.
pub(crate) async fn all(
    client: &Client,
    place: &str,
    each: &mut dyn FnMut(&Kind, Vec<Value>),
) -> anyhow::Result<Vec<String>> {
    these(client, place, &mut KINDS.iter(), each).await
}

/// Also lists the kinds in [`MAKERS`].
pub(crate) async fn all_with_makers(
    client: &Client,
    place: &str,
    each: &mut dyn FnMut(&Kind, Vec<Value>),
) -> anyhow::Result<Vec<String>> {
    these(client, place, &mut KINDS.iter().chain(&MAKERS), each).await
}

async fn these(
    client: &Client,
    place: &str,
    kinds: &mut dyn Iterator<Item = &Kind>,
    each: &mut dyn FnMut(&Kind, Vec<Value>),
) -> anyhow::Result<Vec<String>> {
    let mut unread = Vec::new();
    for kind in kinds.filter(|kind| flotilla_cluster::is_read(kind.api_version, kind.name)) {
        match list_served(client, kind, each).await {
            Ok(()) => {}
            // Another version of Kubernetes may lack the kind.
            Err(kube::Error::Api(status)) if status.code == 404 && !kind.is_vital => {}
            Err(error) if kind.is_vital => return Err(explained(error, &format!("list {}", kind.plural), place)),
            Err(error) => {
                let error = explained(error, &format!("list {}", kind.plural), place);
                unread.push(format!("{error:#}; results for pods that depend on them may be wrong"));
            }
        }
    }
    Ok(unread)
}

/// Lists a kind in the newest version that the API server serves. Earlier versions are passed on in the shape of the current one.
async fn list_served(client: &Client, kind: &Kind, each: &mut dyn FnMut(&Kind, Vec<Value>)) -> Result<(), kube::Error> {
    let mut listed = list(client, kind, kind.api_version, each).await;
    for version in earlier(kind) {
        if !matches!(&listed, Err(kube::Error::Api(status)) if status.code == 404) {
            break;
        }
        listed = list(client, kind, version, &mut |kind, objects| {
            each(kind, objects.into_iter().map(|object| current(kind, object)).collect());
        })
        .await;
    }
    listed
}

/// The earlier versions of a kind in supported versions of Kubernetes, the newest first.
fn earlier(kind: &Kind) -> &'static [&'static str] {
    match (kind.api_version, kind.name) {
        ("resource.k8s.io/v1", "DeviceTaintRule") => &["resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3"],
        ("resource.k8s.io/v1", _) => &["resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1"],
        _ => &[],
    }
}

/// An object of an earlier version in the shape of the current one.
fn current(kind: &Kind, mut object: Value) -> Value {
    match kind.name {
        "ResourceClaim" => beta::claim_spec(&mut object["spec"]),
        "ResourceClaimTemplate" => beta::claim_spec(&mut object["spec"]["spec"]),
        "ResourceSlice" => beta::slice_spec(&mut object["spec"]),
        _ => {}
    }
    object
}

async fn list(
    client: &Client,
    kind: &Kind,
    api_version: &str,
    each: &mut dyn FnMut(&Kind, Vec<Value>),
) -> Result<(), kube::Error> {
    let root = if api_version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{api_version}") };
    let collection = Request::new(format!("{root}/{}", kind.plural));
    let mut params = ListParams::default().limit(PAGE);
    if kind.name == "Pod" {
        params = params.fields(LIVE_PODS);
    }
    loop {
        let request = collection.list(&params).map_err(invalid)?;
        let page: Page = client.request(request).await?;
        each(kind, page.items.unwrap_or_default());
        match page.metadata.next.filter(|next| !next.is_empty()) {
            Some(next) => params = params.continue_token(&next),
            None => return Ok(()),
        }
    }
}

fn invalid(error: request::Error) -> kube::Error {
    kube::Error::BuildRequest(error)
}

/// Gets a pod.
///
/// # Errors
/// The pod is missing or forbidden, or the server does not answer; with the next step.
pub(crate) async fn pod(client: &Client, namespace: &str, name: &str, place: &str) -> anyhow::Result<Pod> {
    let found = Api::<Pod>::namespaced(client.clone(), namespace).get_opt(name).await;
    let found = found.map_err(|error| explained(error, &format!("get pod \"{namespace}/{name}\""), place))?;
    found.with_context(|| {
        format!(
            "there is no pod {name:?} in namespace {namespace:?} ({place}); `kubectl get pods -A` shows those there are, \
             --namespace and --context choose others"
        )
    })
}

/// Explains an error of the API server.
pub(crate) fn explained(error: kube::Error, what: &str, place: &str) -> anyhow::Error {
    match error {
        kube::Error::Api(status) if status.code == 401 => {
            anyhow!("cannot {what}: {place} does not know the credentials; log in again, or choose with --user")
        }
        kube::Error::Api(status) if status.code == 403 => {
            anyhow!("cannot {what}: {}; have this right granted, or choose another user with --user", status.message)
        }
        kube::Error::Api(status) => anyhow!("cannot {what}: {} ({place})", status.message),
        error => anyhow!(error).context(format!(
            "cannot {what}: {place} does not answer; is it up, and does --context name the right cluster?"
        )),
    }
}
