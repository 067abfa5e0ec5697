//! Facts about storage for one class of pods: all that the plugins need to evaluate a node.

use std::sync::Arc;

use super::node::Attachment;
use crate::{class::ClassId, class::NodeTerm};

/// Maximum weight of facts that are sent to workers; for volumes see [`VolumeFacts::weight`]. The coordinator evaluates classes with larger
/// facts alone.
///
/// A local volume of a single node weighs about 120 bytes, so 26,000 of them fit. Each counts once, however many claims it matches.
pub const MAX_WEIGHT: usize = 3 << 20;

/// Nodes that match a term of [`Claims::reaches`]; `None`: all.
pub type Reach = Option<u32>;

/// Facts about a class with volumes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VolumeFacts {
    /// VolumeRestrictions: number of ReadWriteOncePod claims in use, or why a missing claim makes the class infeasible.
    pub exclusive: Result<u32, Arc<str>>,
    /// VolumeRestrictions: names of these claims, in use or not. Preemption counts the users that remain.
    pub exclusive_claims: Vec<Arc<str>>,
    /// NodeVolumeLimits: volumes to attach in the pod's order, up to the first error.
    pub wanted: Vec<Wanted>,
    /// NodeVolumeLimits: drivers in `wanted` that the node must have, sorted.
    pub demanded: Vec<Arc<str>>,
    /// NodeVolumeLimits: classes of assigned pods with volumes that cannot be counted, with the error, sorted by class.
    pub uncountable: Vec<(ClassId, Arc<str>)>,
    /// VolumeBinding: the claims.
    pub binding: Binding,
    /// VolumeZone: labels that a node must have, or why the class is infeasible.
    pub zones: Result<Vec<ZoneLabel>, Arc<str>>,
}

/// A volume in NodeVolumeLimits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// A volume to attach.
    Attach {
        /// The volume.
        attachment: Attachment,
        /// Counts only if the node has a CSINode.
        migrated: bool,
    },
    /// The claim does not exist; the reason.
    Missing(Arc<str>),
    /// The volume cannot be determined.
    Fail {
        /// The error.
        error: Arc<str>,
        /// Applies only if the node has a CSINode.
        migrated: bool,
    },
}

/// Input of VolumeBinding for a class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Binding {
    /// There are no claims.
    #[default]
    Nothing,
    /// No node is feasible; the reason.
    Refuse(Arc<str>),
    /// The claims cannot be evaluated; the error.
    Fail(Arc<str>),
    /// Claims that need volumes.
    Claims(Claims),
}

/// Claims of a class, and the volumes that they can bind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Claims {
    /// Bound claims, in the pod's order.
    pub bound: Vec<BoundClaim>,
    /// Unbound claims: first those with a selected node in the pod's order, then by increasing size.
    pub unbound: Vec<UnboundClaim>,
    /// Volumes that match any unbound claim, sorted by size and name.
    pub volumes: Vec<FreeVolume>,
    /// Node terms of each [`Reach`], of which one must match. All entries differ.
    pub reaches: Vec<Vec<NodeTerm>>,
}

/// A bound claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum BoundClaim {
    /// Its volume does not exist.
    Lost,
    /// Its volume exists.
    Volume {
        /// Nodes that can reach the volume.
        reach: Reach,
        /// Difference on nodes with CSI migration of the volume's plugin.
        migrated: Option<Migrated>,
    },
}

/// A volume translated for its plugin's CSI driver.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Migrated {
    /// The in-tree plugin.
    pub plugin: Arc<str>,
    /// Nodes that can reach the volume, or the error of the translation.
    pub reach: Result<Reach, Arc<str>>,
}

/// A claim with delayed binding.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UnboundClaim {
    /// The StorageClass.
    pub storage_class: Arc<str>,
    /// Requested size in bytes.
    pub requested: i64,
    /// Node of an earlier provisioning. Other nodes are infeasible.
    pub selected_node: Option<Arc<str>>,
    /// Why volumes cannot be searched.
    pub error: Option<Arc<str>>,
    /// Pre-bound volume, by index in [`Claims::volumes`]; at most one.
    pub set_aside: Vec<u32>,
    /// Other matching volumes, by ascending index.
    pub suiting: Vec<u32>,
    /// Dynamic provisioning, if any.
    pub provision: Option<Provision>,
}

/// Dynamic provisioning of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Provision {
    /// Nodes in the allowed topologies.
    pub reach: Reach,
    /// Sufficient storage capacities in order of preference; `None`: capacity is not checked.
    pub rooms: Option<Vec<StorageCapacity>>,
}

/// Storage capacity for a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct StorageCapacity {
    /// Total capacity in bytes; 0 if unknown.
    pub capacity: i64,
    /// Nodes with access.
    pub reach: Reach,
}

/// A volume that a claim may bind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct FreeVolume {
    /// Size in bytes.
    pub capacity: i64,
    /// Nodes that can reach it.
    pub reach: Reach,
}

/// A label of a volume that a node must match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ZoneLabel {
    /// Key.
    pub key: Arc<str>,
    /// Allowed values, sorted.
    pub values: Vec<Arc<str>>,
}

impl Default for VolumeFacts {
    fn default() -> Self {
        Self {
            exclusive: Ok(0),
            exclusive_claims: Vec::new(),
            wanted: Vec::new(),
            demanded: Vec::new(),
            uncountable: Vec::new(),
            binding: Binding::Nothing,
            zones: Ok(Vec::new()),
        }
    }
}

impl VolumeFacts {
    /// Upper bound of the bytes that these facts take: all texts and numbers, with their overhead.
    #[must_use]
    pub fn weight(&self) -> usize {
        let refused = |reason: Option<&Arc<str>>| reason.map_or(0, |reason| text(reason));
        let wanted = self.wanted.iter().map(|wanted| match wanted {
            Wanted::Attach { attachment, .. } => NUMBER + text(&attachment.driver) + text(&attachment.handle),
            Wanted::Missing(why) | Wanted::Fail { error: why, .. } => NUMBER + text(why),
        });
        let uncountable = self.uncountable.iter().map(|(_, error)| NUMBER + text(error));
        let zones = self
            .zones
            .as_ref()
            .map_or(0, |zones| zones.iter().map(|zone| NUMBER + text(&zone.key) + texts(&zone.values)).sum::<usize>());
        let binding = match &self.binding {
            Binding::Nothing => 0,
            Binding::Refuse(why) | Binding::Fail(why) => text(why),
            Binding::Claims(claims) => claims.weight(),
        };
        3 * NUMBER
            + refused(self.exclusive.as_ref().err())
            + refused(self.zones.as_ref().err())
            + wanted.sum::<usize>()
            + texts(&self.demanded)
            + texts(&self.exclusive_claims)
            + uncountable.sum::<usize>()
            + zones
            + binding
    }
}

/// Bytes of a number, and of an index in a list.
const NUMBER: usize = 16;
const PLACE: usize = 5;

fn text(text: &str) -> usize {
    text.len() + 8
}

fn texts(list: &[Arc<str>]) -> usize {
    list.iter().map(|one| text(one)).sum()
}

impl Claims {
    fn weight(&self) -> usize {
        let bound = self.bound.iter().map(|claim| match claim {
            BoundClaim::Volume { migrated: Some(migrated), .. } => {
                2 * NUMBER + text(&migrated.plugin) + migrated.reach.as_ref().err().map_or(0, |error| text(error))
            }
            BoundClaim::Lost | BoundClaim::Volume { migrated: None, .. } => NUMBER,
        });
        let unbound = self.unbound.iter().map(UnboundClaim::weight);
        let terms = || self.reaches.iter().flatten();
        let requirements = terms().flat_map(|term| term.expressions.iter().chain(&term.fields));
        let requirements = requirements.map(|one| 8 + text(&one.key) + text(&one.operator) + texts(&one.values));
        let reaches = requirements.sum::<usize>() + (terms().count() + self.reaches.len()) * 8;
        bound.sum::<usize>() + unbound.sum::<usize>() + reaches + self.volumes.len() * 2 * NUMBER
    }
}

impl UnboundClaim {
    fn weight(&self) -> usize {
        let rooms = self.provision.as_ref().and_then(|provision| provision.rooms.as_ref()).map_or(0, Vec::len);
        let texts = [self.selected_node.as_ref(), self.error.as_ref(), Some(&self.storage_class)];
        texts.into_iter().flatten().map(|one| text(one)).sum::<usize>()
            + (self.set_aside.len() + self.suiting.len()) * PLACE
            + (rooms + 3) * 2 * NUMBER
    }
}
