//! A pending call of extenders.

use flotilla_framework::{
    class::ClassId,
    shard::{Generation, RequestId},
};

use crate::{
    event::TimeMs,
    judge::extender_answers::Asked,
    subject::{GroupKey, Uid},
};

/// A pending call of extenders. There is at most one, because the pod at the head of the queue waits for it. A lost call may still be
/// running, but is past its deadline by [`MARGIN_MS`](crate::extend::MARGIN_MS); lost calls are counted.
#[derive(Debug)]
pub(crate) struct Extending {
    pub(crate) request: RequestId,
    pub(crate) uid: Uid,
    pub(crate) class: ClassId,
    pub(crate) generation: Generation,
    /// `Machine::happenings` at the time of the call.
    pub(crate) happenings: u64,
    /// The call is about the pod's nominated node only.
    pub(crate) own: bool,
    /// The group that is tried, and whether the attempt looks for victims.
    pub(crate) group: Option<(GroupKey, bool)>,
    pub(crate) until_ms: TimeMs,
}

impl Extending {
    pub(crate) fn asked(&self) -> Asked<'_> {
        Asked { uid: &self.uid, class: self.class, own: self.own, generation: self.generation }
    }
}
