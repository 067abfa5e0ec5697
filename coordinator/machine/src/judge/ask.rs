//! An evaluation that workers are asked for, and what may be wrong about an answer.
//!
//! Knows: which node an answerer may offer. Must not know: what is made of an answer.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    evaluation::{Evaluation, Offer},
    node::NodeId,
    shard::{RequestId, Revision},
    snapshot::Slot,
};

use super::cache::Cache;
use crate::{
    event::{TimeMs, WorkerId},
    trace::Asker,
};

/// An evaluation under way.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) request: RequestId,
    /// The state it is asked at, and the newest node in it.
    pub(crate) revision: Revision,
    pub(crate) newest: NodeId,
    /// How many offers of each stratum are wanted.
    pub(crate) k: u32,
    pub(crate) asked_ms: TimeMs,
    /// Who owes an answer, and how many nodes it must cover.
    pub(crate) owing: BTreeMap<WorkerId, u32>,
    pub(crate) answers: Vec<Evaluation>,
    /// Who is asked.
    pub(crate) source: Source,
    /// All nodes are wanted, for a sorted list of the subject's family.
    pub(crate) whole: bool,
    /// Its span, if it is traced.
    pub(crate) trace: Option<Asker>,
}

/// Whose word a view is: which question it answers, and who was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) request: RequestId,
    pub(crate) workers: Arc<[WorkerId]>,
}

/// What is wrong about the node of an offer, if the answerer was asked when it held the node.
pub(super) fn wrong_about(
    offer: Offer,
    worker: WorkerId,
    ask: &Ask,
    cache: &Cache,
    repeats: &mut impl FnMut(Slot) -> bool,
) -> Option<&'static str> {
    let Some(slot) = cache.snapshot.slot(offer.node) else {
        let is_unknown = !cache.may_have_been(offer.node, ask.revision, ask.newest);
        return is_unknown.then_some("which was not there");
    };
    if offer.node > ask.newest {
        return Some("which was not there yet");
    }
    if cache.snapshot.rank(slot) != offer.rank {
        return Some("whose rank is another one");
    }
    // A node that was given to another worker since may have been anyone's.
    if cache.holder_at(slot, ask.request).is_ok_and(|holder| holder != Some(worker)) {
        return Some("which it does not hold");
    }
    repeats(slot).then_some("which it has offered already")
}
