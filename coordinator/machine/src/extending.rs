//! Extenders that are being asked about a pod.
//!
//! Knows: about whom, and until when. Must not know: what follows from the answer.

use flotilla_framework::{
    class::ClassId,
    shard::{Generation, RequestId},
};

use crate::{
    event::TimeMs,
    judge::said::Asked,
    subject::{GroupKey, Uid},
};

/// Extenders are being asked. There is one of these at most: the pod at the head of the queue waits for the answer.
/// Only answers that are given up as lost leave work under way beside it, and each of those has outlasted its own
/// deadline by [`MARGIN_MS`](crate::extend::MARGIN_MS); they are counted.
#[derive(Debug)]
pub(crate) struct Extending {
    pub(crate) request: RequestId,
    pub(crate) uid: Uid,
    pub(crate) class: ClassId,
    pub(crate) generation: Generation,
    /// What had happened when they were asked.
    pub(crate) happenings: u64,
    /// They are asked about the node alone that the pod is nominated to.
    pub(crate) own: bool,
    /// The group that is tried, and whether room is being looked for it.
    pub(crate) group: Option<(GroupKey, bool)>,
    /// When the answer counts as lost.
    pub(crate) until_ms: TimeMs,
}

// === impl Extending ===

impl Extending {
    /// About whom extenders are asked, and how.
    pub(crate) fn asked(&self) -> Asked<'_> {
        Asked { uid: &self.uid, class: self.class, own: self.own, generation: self.generation }
    }
}
