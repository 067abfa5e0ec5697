//! Translates volumes of in-tree plugins for their CSI drivers. Source: k8s.io/csi-translation-lib; only the handle and the node affinity
//! are needed.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1 as api;

use super::objects::InTree;
use crate::{class::NodeTerm, ingest::node_term};

mod address;
mod handle;
mod topology;

use topology::Keys;

struct Plugin {
    name: &'static str,
    driver: &'static str,
    keys: Option<Keys>,
}

const AWS_EBS: Plugin = Plugin {
    name: "kubernetes.io/aws-ebs",
    driver: "ebs.csi.aws.com",
    keys: Some(Keys::Zone("topology.ebs.csi.aws.com/zone")),
};
const AZURE_DISK: Plugin = Plugin { name: "kubernetes.io/azure-disk", driver: "disk.csi.azure.com", keys: None };
const AZURE_FILE: Plugin = Plugin { name: "kubernetes.io/azure-file", driver: "file.csi.azure.com", keys: None };
const CINDER: Plugin = Plugin {
    name: "kubernetes.io/cinder",
    driver: "cinder.csi.openstack.org",
    keys: Some(Keys::Zone("topology.cinder.csi.openstack.org/zone")),
};
const GCE_PD: Plugin = Plugin {
    name: "kubernetes.io/gce-pd",
    driver: "pd.csi.storage.gke.io",
    keys: Some(Keys::Zone("topology.gke.io/zone")),
};
const PORTWORX: Plugin = Plugin { name: "kubernetes.io/portworx-volume", driver: "pxd.portworx.com", keys: None };
const VSPHERE: Plugin = Plugin {
    name: "kubernetes.io/vsphere-volume",
    driver: "csi.vsphere.vmware.com",
    keys: Some(Keys::ZoneAndRegion("topology.csi.vmware.com/zone", "topology.csi.vmware.com/region")),
};

const PLUGINS: [&Plugin; 7] = [&AWS_EBS, &AZURE_DISK, &AZURE_FILE, &CINDER, &GCE_PD, &PORTWORX, &VSPHERE];

/// CSI driver of a plugin or provisioner. `None`: not an in-tree plugin. Source: `CSITranslator.GetCSINameFromInTreeName`.
#[must_use]
pub fn driver(plugin: &str) -> Option<&'static str> {
    PLUGINS.into_iter().find(|known| known.name == plugin).map(|known| known.driver)
}

/// Translates a persistent volume. `None`: not an in-tree plugin. Source: `CSITranslator.TranslateInTreePVToCSI`.
#[must_use]
pub fn volume(volume: &api::PersistentVolume) -> Option<InTree> {
    let spec = volume.spec.as_ref()?;
    let labels = volume.metadata.labels.as_ref();
    let (plugin, handle) = if let Some(disk) = &spec.aws_elastic_block_store {
        (&AWS_EBS, handle::aws_ebs(&disk.volume_id))
    } else if let Some(disk) = &spec.azure_disk {
        (&AZURE_DISK, handle::azure_disk(disk))
    } else if let Some(share) = &spec.azure_file {
        (&AZURE_FILE, handle::azure_file(volume, spec, share))
    } else if let Some(disk) = &spec.cinder {
        (&CINDER, Ok(disk.volume_id.clone()))
    } else if let Some(disk) = &spec.gce_persistent_disk {
        (&GCE_PD, handle::gce_pd(labels, &disk.pd_name))
    } else if let Some(disk) = &spec.portworx_volume {
        (&PORTWORX, Ok(disk.volume_id.clone()))
    } else if let Some(disk) = &spec.vsphere_volume {
        (&VSPHERE, Ok(disk.volume_path.clone()))
    } else {
        return None;
    };
    let translated = plugin.in_tree(handle);
    let keys = plugin.keys.as_ref().filter(|_| translated.handle.is_ok());
    let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    let required = required.map(|selector| selector.node_selector_terms.iter().map(node_term).collect::<Vec<_>>());
    let node_affinity = keys.and_then(|keys| moved(keys, required, labels));
    Some(InTree { node_affinity, ..translated })
}

/// Translates an inline volume, which has no node affinity. `None`: not an in-tree plugin.
///
/// Source: `CSITranslator.TranslateInTreeInlineVolumeToCSI`, which panics for a vSphere volume with a storage policy.
#[must_use]
pub fn inline(volume: &api::Volume, namespace: &str) -> Option<InTree> {
    let (plugin, handle) = if let Some(disk) = &volume.aws_elastic_block_store {
        (&AWS_EBS, handle::aws_ebs(&disk.volume_id))
    } else if let Some(disk) = &volume.azure_disk {
        (&AZURE_DISK, handle::azure_disk(disk))
    } else if let Some(share) = &volume.azure_file {
        (&AZURE_FILE, Ok(handle::azure_file_inline(volume, share, namespace)))
    } else if let Some(disk) = &volume.cinder {
        (&CINDER, Ok(disk.volume_id.clone()))
    } else if let Some(disk) = &volume.gce_persistent_disk {
        (&GCE_PD, handle::gce_pd(None, &disk.pd_name))
    } else if let Some(disk) = &volume.portworx_volume {
        (&PORTWORX, Ok(disk.volume_id.clone()))
    } else if let Some(disk) = &volume.vsphere_volume {
        (&VSPHERE, Ok(disk.volume_path.clone()))
    } else {
        return None;
    };
    Some(plugin.in_tree(handle))
}

/// Node affinity with the driver's keys. `None`: unchanged.
fn moved(
    keys: &Keys,
    required: Option<Vec<NodeTerm>>,
    labels: Option<&BTreeMap<String, String>>,
) -> Option<Vec<NodeTerm>> {
    let mut terms = required.clone().unwrap_or_default();
    keys.translate(&mut terms, labels);
    let is_moved = required.map_or(!terms.is_empty(), |required| required != terms);
    is_moved.then_some(terms)
}

impl Plugin {
    fn in_tree(&self, handle: Result<String, String>) -> InTree {
        InTree {
            plugin: Arc::from(self.name),
            driver: Arc::from(self.driver),
            handle: handle.map(Arc::from).map_err(Arc::from),
            node_affinity: None,
        }
    }
}
