//! What all objects of storage come down to for one class of pods: as much as the plugins need to judge a node.
//!
//! Knows: the facts, and how large they may get. Must not know: how they are found ([`super::storage::Storage::facts`]), or
//! what a plugin makes of them.

use std::sync::Arc;

use super::node::Attachment;
use crate::{class::ClassId, class::NodeTerm};

/// The most that the facts of one class may weigh to be sent to workers, those of volumes by [`VolumeFacts::weight`]: beyond
/// that, only the coordinator can judge the class.
///
/// A local volume that only its node can reach weighs about 120 bytes, so that 26,000 of them can be told of, each of them
/// once however many claims of the pod it suits.
pub const MAX_WEIGHT: usize = 3 << 20;

/// Which nodes: those that match a term of [`Claims::reaches`]. `None`: all of them.
pub type Reach = Option<u32>;

/// What the objects of storage say about one class that has volumes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VolumeFacts {
    /// VolumeRestrictions: how many of the claims that only one pod may use are in use; the reason why the class is
    /// refused where a claim is not there.
    pub exclusive: Result<u32, Arc<str>>,
    /// VolumeRestrictions: the names of those claims, in use or not. Preemption counts their users as pods go.
    pub exclusive_claims: Vec<Arc<str>>,
    /// NodeVolumeLimits: what the class's volumes would attach, in the pod's order, up to the first that ends the attempt.
    pub wanted: Vec<Wanted>,
    /// NodeVolumeLimits: the drivers among those of `wanted` without which a node is no good, sorted.
    pub demanded: Vec<Arc<str>>,
    /// NodeVolumeLimits: the classes of standing pods whose volumes cannot be counted, with the error. By class.
    pub uncountable: Vec<(ClassId, Arc<str>)>,
    /// VolumeBinding: the claims.
    pub binding: Binding,
    /// VolumeZone: the labels that a node must have; the reason why the class is refused.
    pub zones: Result<Vec<ZoneLabel>, Arc<str>>,
}

/// A volume as NodeVolumeLimits counts it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// It would be attached.
    Attach {
        /// The volume.
        attachment: Attachment,
        /// Only where the node has a CSINode.
        migrated: bool,
    },
    /// Its claim is not there; the reason.
    Missing(Arc<str>),
    /// It cannot be told; the error.
    Fail {
        /// The error.
        error: Arc<str>,
        /// Only where the node has a CSINode.
        migrated: bool,
    },
}

/// What VolumeBinding has to do for a class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Binding {
    /// Nothing: there are no claims.
    #[default]
    Nothing,
    /// No node will do; the reason.
    Refuse(Arc<str>),
    /// It cannot be told; the error.
    Fail(Arc<str>),
    /// To find volumes for these claims.
    Claims(Claims),
}

/// The claims of a class, and the volumes that they may be bound to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Claims {
    /// Those that are bound, in the pod's order.
    pub bound: Vec<BoundClaim>,
    /// The others: first those for which a node was selected before, in the pod's order; then the smallest first.
    pub unbound: Vec<UnboundClaim>,
    /// The volumes that suit any of them, the smallest first, those of one size by name.
    pub volumes: Vec<FreeVolume>,
    /// The terms of which a node must match one, for each [`Reach`]. No two are the same.
    pub reaches: Vec<Vec<NodeTerm>>,
}

/// A claim that is bound.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum BoundClaim {
    /// Its volume is not there.
    Lost,
    /// To a volume that these nodes can reach.
    Volume {
        /// The nodes.
        reach: Reach,
        /// What is different on nodes where a driver stands for the volume's plugin.
        migrated: Option<Migrated>,
    },
}

/// A volume in the words of the driver that stands for its plugin.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Migrated {
    /// The plugin.
    pub plugin: Arc<str>,
    /// Which nodes can reach the volume; the error where it cannot be translated.
    pub reach: Result<Reach, Arc<str>>,
}

/// A claim that waits for its pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UnboundClaim {
    /// The storage class.
    pub storage_class: Arc<str>,
    /// How much it asks for, in bytes.
    pub requested: i64,
    /// Where its volume is made already: no other node will do.
    pub selected_node: Option<Arc<str>>,
    /// Why no volume can be looked for.
    pub error: Option<Arc<str>>,
    /// The volumes set aside for it, by their place in [`Claims::volumes`]: the first of them, or none.
    pub set_aside: Vec<u32>,
    /// The volumes that suit it otherwise, by their place, ascending.
    pub suiting: Vec<u32>,
    /// How its volume is made; `None` where it is not.
    pub provision: Option<Provision>,
}

/// How a volume is made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Provision {
    /// The nodes that can have it.
    pub reach: Reach,
    /// Where there is room enough for it, in the order in which one is taken; `None` where room does not count.
    pub rooms: Option<Vec<Room>>,
}

/// Room for volumes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Room {
    /// How much there is in all, in bytes; 0 where that is not said.
    pub capacity: i64,
    /// The nodes that have it.
    pub reach: Reach,
}

/// A volume that may be bound to a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct FreeVolume {
    /// Its size in bytes.
    pub capacity: i64,
    /// The nodes that can reach it.
    pub reach: Reach,
}

/// A label of a volume that a node must have as well.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ZoneLabel {
    /// The key.
    pub key: Arc<str>,
    /// The values that will do, sorted.
    pub values: Vec<Arc<str>>,
}

// === impl VolumeFacts ===

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
    /// An upper bound on the bytes that these facts take: of each text, of each number, and of what is around either.
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

/// A number, and a place in a list of numbers.
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
