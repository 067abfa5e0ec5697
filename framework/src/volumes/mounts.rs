//! Volumes of a pod.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::objects::InTree;

/// Volumes of a pod that plugins read, in the pod's order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PodVolumes {
    /// The volumes.
    pub mounts: Vec<Mount>,
    /// Set for ephemeral volumes: the pod that must own their claims. Such a pod forms its own class.
    pub owner: Option<Owner>,
}

/// A pod that owns claims.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Arc<str>,
}

/// A volume of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mount {
    /// `persistentVolumeClaim`: name of the claim.
    Claim(Arc<str>),
    /// `ephemeral`: name of the claim created for the pod.
    Ephemeral(Arc<str>),
    /// An inline disk.
    Inline(Inline),
    /// `csi`: the driver.
    Csi(Arc<str>),
}

/// An inline disk; at least one field is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Inline {
    /// The disk, if two pods on one node may conflict over it.
    pub disk: Option<Disk>,
    /// Translation for the CSI driver of its plugin; errors name the volume.
    pub in_tree: Option<InTree>,
}

/// A disk that some pods cannot share.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Disk {
    /// `gcePersistentDisk`.
    GcePersistentDisk {
        /// `pdName`.
        name: Arc<str>,
        /// `readOnly`.
        read_only: bool,
    },
    /// `awsElasticBlockStore`.
    AwsElasticBlockStore {
        /// `volumeID`.
        volume: Arc<str>,
    },
    /// `iscsi`.
    Iscsi {
        /// `iqn`.
        iqn: Arc<str>,
        /// `readOnly`.
        read_only: bool,
    },
    /// `rbd`.
    Rbd {
        /// `monitors`.
        monitors: Vec<Arc<str>>,
        /// `pool`.
        pool: Arc<str>,
        /// `image`.
        image: Arc<str>,
        /// `readOnly`.
        read_only: bool,
    },
}

impl PodVolumes {
    /// Names in `persistentVolumeClaim` volumes.
    pub fn named_claims(&self) -> impl Iterator<Item = &Arc<str>> {
        self.mounts.iter().filter_map(|mount| match mount {
            Mount::Claim(name) => Some(name),
            Mount::Ephemeral(_) | Mount::Inline(_) | Mount::Csi(_) => None,
        })
    }

    /// Names of all claims, and whether the pod must own each.
    pub fn claims(&self) -> impl Iterator<Item = (&Arc<str>, bool)> {
        self.mounts.iter().filter_map(|mount| match mount {
            Mount::Claim(name) => Some((name, false)),
            Mount::Ephemeral(name) => Some((name, true)),
            Mount::Inline(_) | Mount::Csi(_) => None,
        })
    }

    /// Disks that some pods cannot share.
    pub fn disks(&self) -> impl Iterator<Item = &Disk> {
        self.inline().filter_map(|inline| inline.disk.as_ref())
    }

    /// Disks of plugins with CSI migration.
    pub fn in_tree(&self) -> impl Iterator<Item = &InTree> {
        self.inline().filter_map(|inline| inline.in_tree.as_ref())
    }

    /// Whether a volume may count for attach limits. Source: `CSILimits.PreFilter`.
    #[must_use]
    pub fn may_be_limited(&self) -> bool {
        self.claims().next().is_some() || self.in_tree().next().is_some()
    }

    /// Whether a disk conflicts with one of another pod on the same node.
    #[must_use]
    pub fn conflict(&self, other: &Self) -> bool {
        self.disks().any(|disk| other.disks().any(|taken| disk.conflicts(taken)))
    }

    fn inline(&self) -> impl Iterator<Item = &Inline> {
        self.mounts.iter().filter_map(|mount| match mount {
            Mount::Inline(inline) => Some(inline),
            Mount::Claim(_) | Mount::Ephemeral(_) | Mount::Csi(_) => None,
        })
    }
}

impl Disk {
    /// Whether both are the same disk, and not both read-only. Source: `isVolumeConflict` of VolumeRestrictions.
    #[must_use]
    pub fn conflicts(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::GcePersistentDisk { name, read_only },
                Self::GcePersistentDisk { name: taken, read_only: is_read_only },
            )
            | (Self::Iscsi { iqn: name, read_only }, Self::Iscsi { iqn: taken, read_only: is_read_only }) => {
                name == taken && !(*read_only && *is_read_only)
            }
            (Self::AwsElasticBlockStore { volume }, Self::AwsElasticBlockStore { volume: taken }) => volume == taken,
            (
                Self::Rbd { monitors, pool, image, read_only },
                Self::Rbd { monitors: theirs, pool: their_pool, image: their_image, read_only: is_read_only },
            ) => {
                monitors.iter().any(|monitor| theirs.contains(monitor))
                    && (pool, image) == (their_pool, their_image)
                    && !(*read_only && *is_read_only)
            }
            _ => false,
        }
    }
}
