//! A cluster as a report keeps it, so that the report can be asked anew.
//!
//! It is what the framework reads of objects, and no more: of pods no environment, command or annotation, and nothing of what is
//! handed to drivers of devices.
//!
//! Knows: what is kept and in which form. Must not know: where it is kept, or what is asked.

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

/// Goes up with every change of what is kept. The code that reads it is in the same file as what it reads.
const FORMAT: u32 = 1;

/// How many bytes the manifests of pending pods may take: some 8,000 of 500 bytes.
const MOST_MANIFEST_BYTES: usize = 4 << 20;

/// What cannot be kept, or read again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unkept {
    /// A field cannot be written or read.
    #[error("the cluster of this report cannot be read: {0}")]
    Unreadable(String),
    /// Another build has written it.
    #[error("the cluster of this report is kept in format {0}, and this build reads format {FORMAT}")]
    Format(u32),
}

/// A cluster, and who decides on its pods.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    /// The cluster as it is when the report is made, with pods on the nodes that they were given.
    pub cluster: Cluster,
    /// The profiles.
    pub profiles: Vec<Profile>,
    /// Pending pods by `namespace/name`, as JSON that can be read again.
    pub manifests: BTreeMap<String, String>,
}

/// The same as bytes: a profile has arguments of plugins that only a format with names can hold.
#[derive(Serialize, Deserialize)]
struct Written {
    cluster: Cluster,
    profiles: String,
    manifests: BTreeMap<String, String>,
}

impl Kept {
    /// Of a cluster. Pods that are pending keep their manifests where the cluster has these, as far as they fit in.
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

    /// As bytes.
    ///
    /// # Errors
    /// What cannot be written.
    pub fn encode(&self) -> Result<Vec<u8>, Unkept> {
        let unreadable = |error: &dyn std::fmt::Display| Unkept::Unreadable(error.to_string());
        let profiles = serde_json::to_string(&self.profiles).map_err(|error| unreadable(&error))?;
        let written = Written { cluster: self.cluster.clone(), profiles, manifests: self.manifests.clone() };
        postcard::to_extend(&written, FORMAT.to_le_bytes().to_vec()).map_err(|error| unreadable(&error))
    }

    /// Out of bytes.
    ///
    /// # Errors
    /// Bytes that another build has written, or that are damaged.
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

/// Without what was said of it, and without its trace.
fn bare_pod(pod: &Arc<PodInfo>) -> Arc<PodInfo> {
    if pod.condition.is_none() && pod.trace_parent.is_none() {
        return Arc::clone(pod);
    }
    Arc::new(PodInfo { condition: None, trace_parent: None, ..PodInfo::clone(pod) })
}

/// Without what is handed to drivers and what they say.
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
