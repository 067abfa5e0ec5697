//! The cluster inside a report, so that the page can answer new questions.
//!
//! It holds only the fields that the framework reads: no environments, commands or annotations of pods, and no opaque device parameters.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_cluster::Cluster;
use flotilla_framework::{
    class::PodInfo,
    devices::{
        model::{
            claim::DeviceClaim,
            class::DeviceClass,
            request::{ClaimSpec, Configuration},
        },
        objects::DeviceObject,
    },
    profile::Profile,
};
use serde::{Deserialize, Serialize};

/// Incremented with every change of the fields. A report contains both the data and the module that reads it.
const FORMAT: u32 = 2;

/// Limit on the manifests of pending pods: about 8,000 of 500 bytes.
const MOST_MANIFEST_BYTES: usize = 4 << 20;

/// Why a cluster cannot be encoded or decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unkept {
    /// A field cannot be encoded or decoded.
    #[error("the cluster of this report cannot be read: {0}")]
    Unreadable(String),
    /// The bytes have another format version.
    #[error("the cluster of this report is kept in format {0}, and this build reads format {FORMAT}")]
    Format(u32),
}

/// A cluster and the profiles that schedule its pods.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    /// The cluster at the time of the report, with pods on their assigned nodes.
    pub cluster: Cluster,
    /// The profiles.
    pub profiles: Vec<Profile>,
    /// The manifests of pending pods by `namespace/name`, in JSON.
    pub manifests: BTreeMap<String, String>,
}

/// The encoded form. Plugin arguments need a self-describing format, so profiles are JSON.
#[derive(Serialize, Deserialize)]
struct Written {
    cluster: Cluster,
    profiles: String,
    manifests: BTreeMap<String, String>,
}

impl Kept {
    /// Keeps a cluster. Manifests of pending pods are kept up to a limit of 4 MiB in total.
    #[must_use]
    pub fn new(cluster: &Cluster, profiles: &[Profile]) -> Self {
        let mut left = MOST_MANIFEST_BYTES;
        let manifest = |pod: &Arc<PodInfo>| {
            let text = cluster.texts.pod(&pod.uid)?.get().to_owned();
            left = left.checked_sub(text.len())?;
            Some((pod.key(), text))
        };
        let manifests = cluster.pending.iter().filter_map(manifest).collect();
        let mut cluster = cluster.clone();
        cluster.bound.iter_mut().chain(&mut cluster.pending).for_each(|pod| *pod = bare_pod(pod));
        cluster.devices.iter_mut().for_each(|object| *object = bare_device(object));
        let templates = cluster.references.templates.values_mut();
        templates.for_each(|spec| *spec = Arc::new(bare_spec(spec)));
        Self { cluster, profiles: profiles.to_vec(), manifests }
    }

    /// Encodes the cluster.
    ///
    /// # Errors
    /// A field cannot be encoded.
    pub fn encode(&self) -> Result<Vec<u8>, Unkept> {
        let unreadable = |error: &dyn std::fmt::Display| Unkept::Unreadable(error.to_string());
        let profiles = serde_json::to_string(&self.profiles).map_err(|error| unreadable(&error))?;
        let written = Written { cluster: self.cluster.clone(), profiles, manifests: self.manifests.clone() };
        postcard::to_extend(&written, FORMAT.to_le_bytes().to_vec()).map_err(|error| unreadable(&error))
    }

    /// Decodes a cluster.
    ///
    /// # Errors
    /// The bytes have another format version or are damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, Unkept> {
        let unreadable = |error: &dyn std::fmt::Display| Unkept::Unreadable(error.to_string());
        let (format, rest) = bytes.split_first_chunk().ok_or_else(|| unreadable(&"it is empty"))?;
        let format = u32::from_le_bytes(*format);
        if format != FORMAT {
            return Err(Unkept::Format(format));
        }
        let Written { cluster, profiles, manifests } =
            postcard::from_bytes(rest).map_err(|error| unreadable(&error))?;
        let profiles = serde_json::from_str(&profiles).map_err(|error| unreadable(&error))?;
        Ok(Self { cluster, profiles, manifests })
    }
}

/// Without the pod's condition and its trace.
fn bare_pod(pod: &Arc<PodInfo>) -> Arc<PodInfo> {
    if pod.condition.is_none() && pod.trace_parent.is_none() {
        return Arc::clone(pod);
    }
    Arc::new(PodInfo { condition: None, trace_parent: None, ..PodInfo::clone(pod) })
}

/// Without opaque parameters and the data that drivers report.
fn bare_device(object: &DeviceObject) -> DeviceObject {
    match object {
        DeviceObject::Claim(claim) => {
            let mut claim = DeviceClaim { spec: Arc::new(bare_spec(&claim.spec)), ..DeviceClaim::clone(claim) };
            if let Some(allocation) = &mut claim.allocation {
                let configs = Arc::make_mut(allocation).config.iter_mut();
                configs.for_each(|config| bare(&mut config.configuration));
            }
            for status in &mut claim.statuses {
                (status.data, status.network_data) = (None, None);
            }
            claim.into()
        }
        DeviceObject::Class(class) => {
            let mut class = DeviceClass::clone(class);
            class.config.iter_mut().for_each(bare);
            class.into()
        }
        other => other.clone(),
    }
}

fn bare_spec(spec: &ClaimSpec) -> ClaimSpec {
    let mut spec = spec.clone();
    spec.config.iter_mut().for_each(|config| bare(&mut config.configuration));
    spec
}

fn bare(configuration: &mut Configuration) {
    configuration.opaque.iter_mut().for_each(|opaque| opaque.parameters = "null".into());
}
