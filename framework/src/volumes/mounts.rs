//! The volumes of a pod.
//!
//! Knows: which of them any plugin reads, and which two cannot be on one node. Must not know: what the claims among them are
//! bound to.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::objects::InTree;

/// The volumes of a pod that any plugin reads, in the pod's order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PodVolumes {
    /// The volumes.
    pub mounts: Vec<Mount>,
    /// The pod, where a volume is ephemeral: its claim has to be the pod's own. Such a pod is a class by itself.
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

/// One volume of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mount {
    /// `persistentVolumeClaim`: the claim's name.
    Claim(Arc<str>),
    /// `ephemeral`: the name of the claim that is made for the pod.
    Ephemeral(Arc<str>),
    /// A disk that the pod names itself.
    Inline(Inline),
    /// `csi`: the driver.
    Csi(Arc<str>),
}

/// A disk that a pod names itself; at least one of the two says something.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Inline {
    /// The disk, where two pods on one node may get into each other's way.
    pub disk: Option<Disk>,
    /// What it is for the driver that stands for its plugin; an error names the volume.
    pub in_tree: Option<InTree>,
}

/// A disk that not all pods can share.
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

// === impl PodVolumes ===

impl PodVolumes {
    /// The names of claims that the pod names itself.
    pub fn named_claims(&self) -> impl Iterator<Item = &Arc<str>> {
        self.mounts.iter().filter_map(|mount| match mount {
            Mount::Claim(name) => Some(name),
            Mount::Ephemeral(_) | Mount::Inline(_) | Mount::Csi(_) => None,
        })
    }

    /// The names of all claims, and whether each is the pod's own.
    pub fn claims(&self) -> impl Iterator<Item = (&Arc<str>, bool)> {
        self.mounts.iter().filter_map(|mount| match mount {
            Mount::Claim(name) => Some((name, false)),
            Mount::Ephemeral(name) => Some((name, true)),
            Mount::Inline(_) | Mount::Csi(_) => None,
        })
    }

    /// The disks that not all pods can share.
    pub fn disks(&self) -> impl Iterator<Item = &Disk> {
        self.inline().filter_map(|inline| inline.disk.as_ref())
    }

    /// The disks of plugins that drivers stand for.
    pub fn in_tree(&self) -> impl Iterator<Item = &InTree> {
        self.inline().filter_map(|inline| inline.in_tree.as_ref())
    }

    /// Whether a volume may have to be attached, so that limits count it.
    ///
    /// Source: `CSILimits.PreFilter`.
    #[must_use]
    pub fn may_be_limited(&self) -> bool {
        self.claims().next().is_some() || self.in_tree().next().is_some()
    }

    /// Whether a disk of this pod cannot be on a node beside one of another pod.
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
    /// Whether it is the same disk, and not read by both alone.
    ///
    /// Source: `isVolumeConflict` of VolumeRestrictions.
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
