//! Requests for evaluations, and the checks of an answer.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    evaluation::{Evaluation, Offer},
    node::NodeId,
    shard::{RequestId, Revision},
    snapshot::{Slot, hash_of_rank},
};

use super::cache::Cache;
use crate::{
    event::{TimeMs, WorkerId},
    trace::Asker,
};

#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) request: RequestId,
    /// The revision of the request, and the newest node at that time.
    pub(crate) revision: Revision,
    pub(crate) newest: NodeId,
    pub(crate) k: u32,
    pub(crate) asked_ms: TimeMs,
    /// The workers that have not answered, with the number of nodes that each has to cover.
    pub(crate) owing: BTreeMap<WorkerId, u32>,
    pub(crate) answers: Vec<Evaluation>,
    pub(crate) source: Source,
    /// All nodes are requested, for a sorted list of the subject's family.
    pub(crate) whole: bool,
    pub(crate) trace: Option<Asker>,
}

/// The workers that a view comes from, and the request that they answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) request: RequestId,
    pub(crate) workers: Arc<[WorkerId]>,
}

/// The error in an offer of a node, if the worker held the node at the time of the request.
pub(super) fn wrong_about(
    offer: Offer,
    worker: WorkerId,
    ask: &Ask,
    cache: &Cache,
    repeats: &mut impl FnMut(Slot) -> bool,
) -> Option<&'static str> {
    let Some(slot) = cache.snapshot().slot(offer.node) else {
        let is_unknown = !cache.may_have_been(offer.node, ask.revision, ask.newest);
        return is_unknown.then_some("which did not exist");
    };
    if offer.node > ask.newest {
        return Some("which did not exist yet");
    }
    // The number of pods may have changed since.
    if hash_of_rank(cache.snapshot().rank(slot)) != hash_of_rank(offer.rank) {
        return Some("with an incorrect rank");
    }
    // A node that changed its holder since may have belonged to any worker.
    if cache.holder_at(slot, ask.request).is_ok_and(|holder| holder != Some(worker)) {
        return Some("which it does not hold");
    }
    repeats(slot).then_some("which it has offered already")
}
