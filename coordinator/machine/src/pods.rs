//! All known pods, and the only way to change one.

use std::sync::Arc;

use flotilla_framework::{
    class::{ClassId, PodInfo},
    map::Map,
    shard::Revision,
};

use crate::{
    action::{PodName, Reason},
    event::TimeMs,
    gates::Gate,
    judge::cache::Charge,
    queue::{Pace, QueuePosition, QueuedEntityInfo},
    subject::{ProfileIndex, Subject, Uid},
    tally::Trial,
    trace::Course,
};

/// Maximum number of own nominations per pod that the watch has not shown. Each takes a write, and the API server is seldom behind by two.
const MAX_UNSAID: usize = 8;

/// All known pods, in the order of arrival.
///
/// [`Self::get`] and the iterators read. [`Self::apply`], [`Self::edit`] and [`Self::remove`] change pods, and return the change.
/// `Machine::follow` has to get each change: it updates everything that follows from a pod. [`Self::attempts_mut`] changes only records
/// that nothing follows from.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    known: Map<Uid, Pod>,
}

/// A change of one pod. `before` is `None` for a new pod, `after` for a deleted one.
#[derive(Debug)]
#[must_use = "the indices of pods have to follow"]
pub(crate) struct Changed {
    pub(crate) uid: Uid,
    pub(crate) before: Option<Indexed>,
    pub(crate) after: Option<Indexed>,
}

/// The fields of a pod that indices follow from.
#[derive(Debug)]
pub(crate) struct Indexed {
    pub(crate) info: Arc<PodInfo>,
    pub(crate) class: ClassId,
    pub(crate) stage: PodStage,
    pub(crate) charge: Option<Charge>,
    /// See [`Pod::nominated_node`].
    pub(crate) nominated_node: Option<Arc<str>>,
}

#[derive(Debug)]
pub(crate) struct Pod {
    pub(crate) info: Arc<PodInfo>,
    pub(crate) class: ClassId,
    pub(crate) stage: PodStage,
    /// Kept until the pod is deleted or finished, or its bind failed.
    pub(crate) charge: Option<Charge>,
    /// The local nomination, until the watch shows a change; `Some(None)`: removed.
    pub(crate) local_nomination: Option<Option<Arc<str>>>,
    /// Earlier local nominations that the watch has not shown.
    unconfirmed: Vec<Option<Arc<str>>>,
    /// PreBind wrote the nominated node.
    pub(crate) announced: bool,
    /// The cluster was restored from a backup, and the watch has not shown the pod since.
    pub(crate) doubted: bool,
    pub(crate) attempts: Attempts,
}

/// Counts and times of a pod's attempts, and its place in the queue.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    pub(crate) count: u32,
    pub(crate) refusals: u32,
    pub(crate) errors: u32,
    /// End of the backoff, if the current attempt is an early one.
    pub(crate) popped: Option<TimeMs>,
    /// End of the backoff, if the last attempt was an early one.
    pub(crate) kept_ms: Option<TimeMs>,
    /// The place in the queue: time of arrival or of the last attempt, and a sequence number; 0: not queued yet. Source:
    /// `QueuedPodInfo.Timestamp`.
    pub(crate) queued: (TimeMs, u64),
    pub(crate) first_queued_ms: Option<TimeMs>,
    /// Revision at which the pod reached the head of the queue, for the current attempt.
    pub(crate) from: Option<Revision>,
    /// The attempt in which extenders rejected the nominated node.
    pub(crate) own_node_refused: Option<Revision>,
    /// The attempt in which the pod let pods of backoffQ preempt first.
    pub(crate) gave_way: Option<Revision>,
    pub(crate) last_report: Option<(Reason, String)>,
    pub(crate) trial: Trial,
    pub(crate) trace: Course,
}

/// The state of a pod; see [`Machine`](crate::machine::Machine) for the transitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodStage {
    /// Ignored: another scheduler's, finished, or terminating without a node.
    Foreign,
    /// Not in the queue: gated by a PreEnqueue plugin, too large, or held.
    Gated(Gate),
    /// In activeQ, in backoffQ, or parked as unschedulable. A pod on its node with a deferred resize is queued too, and keeps its charge.
    Queued(ProfileIndex),
    /// Waiting with its pod group. `is_gated`: a PreEnqueue plugin gates the pod, and with it the group.
    Member { profile: ProfileIndex, is_gated: bool },
    /// Decided; the bind is in flight or the watch has not confirmed it.
    Assumed(ProfileIndex),
    /// Decided; PreBind is in progress, the bind follows.
    Preparing(ProfileIndex),
    /// On its node, confirmed by the watch.
    Assigned,
}

impl Pods {
    pub(crate) fn get(&self, uid: &str) -> Option<&Pod> {
        self.known.get(uid)
    }

    pub(crate) fn contains(&self, uid: &Uid) -> bool {
        self.known.contains_key(uid)
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Uid, &Pod)> + Clone {
        self.known.iter()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Pod> {
        self.known.values()
    }

    /// The pods for which `is` holds, for callers that change them.
    pub(crate) fn uids(&self, is: impl Fn(&Pod) -> bool) -> Vec<Uid> {
        self.known.iter().filter(|(_, pod)| is(pod)).map(|(uid, _)| Arc::clone(uid)).collect()
    }

    /// Sets the object and the class that the watch shows, and makes further changes. Adds an unknown pod.
    pub(crate) fn apply(
        &mut self,
        info: &Arc<PodInfo>,
        class: ClassId,
        change: impl FnOnce(&mut Pod),
    ) -> Option<Changed> {
        if self.known.contains_key(&info.uid) {
            return self.edit(&info.uid, |pod| {
                let old = std::mem::replace(&mut pod.info, Arc::clone(info));
                pod.class = class;
                pod.observe_nomination(&old);
                change(pod);
            });
        }
        let mut pod = Pod::new(Arc::clone(info), class);
        change(&mut pod);
        let after = Some(pod.indexed());
        self.known.insert(Arc::clone(&info.uid), pod);
        Some(Changed { uid: Arc::clone(&info.uid), before: None, after })
    }

    /// Changes a pod. `None`: it is unknown, or nothing changed that indices follow from.
    pub(crate) fn edit(&mut self, uid: &Uid, change: impl FnOnce(&mut Pod)) -> Option<Changed> {
        let pod = self.known.get_mut(uid)?;
        let before = pod.indexed();
        change(pod);
        pod.changed(before)
    }

    pub(crate) fn remove(&mut self, uid: &Uid) -> Option<Changed> {
        let before = self.known.swap_remove(uid)?.indexed();
        Some(Changed { uid: Arc::clone(uid), before: Some(before), after: None })
    }

    pub(crate) fn is_resize_deferred(&self, uid: &Uid) -> bool {
        self.known.get(uid).is_some_and(|pod| pod.info.class.resize_deferred)
    }

    /// The subject of a pod that waits with its group.
    pub(crate) fn member_subject(&self, uid: &Uid) -> Option<Subject> {
        let pod = self.known.get(uid)?;
        let PodStage::Member { profile, .. } = pod.stage else { return None };
        Some((profile, pod.class))
    }

    /// The entity in the queue of a queued pod.
    pub(crate) fn entity_info(&self, uid: &Uid, pace: Pace) -> Option<QueuedEntityInfo> {
        let pod = self.known.get(uid)?;
        let PodStage::Queued(profile) = pod.stage else { return None };
        let (queued_ms, sequence) = pod.attempts.queued;
        let place = QueuePosition { priority: pod.info.priority, queued_ms, sequence };
        let (subject, until_ms) = ((profile, pod.class), pod.attempts.backoff_expiry(pace));
        Some(QueuedEntityInfo { subject, place, until_ms, refusals: pod.attempts.refusals })
    }

    pub(crate) fn attempts_mut(&mut self, uid: &Uid) -> Option<&mut Attempts> {
        self.known.get_mut(uid).map(|pod| &mut pod.attempts)
    }

    /// Sets for each pod whether its next watch event decides if a restored backup reverted its placement.
    pub(crate) fn doubt(&mut self, is_doubted: impl Fn(&Uid, &Pod) -> bool) {
        for (uid, pod) in &mut self.known {
            pod.doubted = is_doubted(uid, pod);
        }
    }
}

impl PartialEq for Indexed {
    /// Two objects are equal only if they are the same: each watch event has its own.
    fn eq(&self, other: &Self) -> bool {
        self.has_info_of(other)
            && (self.class, self.stage) == (other.class, other.stage)
            && self.charge == other.charge
            && self.nominated_node == other.nominated_node
    }
}

impl Indexed {
    pub(crate) fn has_info_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.info, &other.info)
    }
}

impl PodStage {
    /// Whether the pod is decided but not confirmed by the watch.
    pub(crate) const fn is_decided(self) -> bool {
        matches!(self, Self::Assumed(_) | Self::Preparing(_))
    }

    pub(crate) const fn is_queued(self) -> bool {
        matches!(self, Self::Queued(_))
    }

    pub(crate) const fn gate(self) -> Option<Gate> {
        match self {
            Self::Gated(gate) => Some(gate),
            _ => None,
        }
    }

    pub(crate) const fn is_member(self) -> bool {
        matches!(self, Self::Member { .. })
    }

    /// Whether the pod waits for a decision.
    pub(crate) const fn waits(self) -> bool {
        matches!(self, Self::Queued(_) | Self::Gated(_) | Self::Member { .. })
    }
}

impl Attempts {
    /// An attempt failed with an error: the next one follows the backoff.
    pub(crate) const fn fail(&mut self) {
        self.errors += 1;
        (self.popped, self.kept_ms) = (None, None);
    }

    /// The end of the backoff.
    pub(crate) fn backoff_expiry(&self, pace: Pace) -> TimeMs {
        if let Some(kept_ms) = self.kept_ms.filter(|_| pace.max_ms != 0) {
            return kept_ms;
        }
        let count = if self.errors > 0 { self.errors } else { self.refusals };
        pace.expiry(self.queued.0, count, 1)
    }

    /// An attempt ended without a node.
    pub(crate) const fn end(&mut self) {
        self.from = None;
        self.trial.flushed = false;
    }
}

impl Pod {
    fn new(info: Arc<PodInfo>, class: ClassId) -> Self {
        Self {
            info,
            class,
            stage: PodStage::Foreign,
            charge: None,
            local_nomination: None,
            unconfirmed: Vec::new(),
            announced: false,
            doubted: false,
            attempts: Attempts::default(),
        }
    }

    /// Moves the pod to a stage from which it is tried again, or not at all: its current attempt is void.
    pub(crate) fn enter(&mut self, stage: PodStage) {
        self.stage = stage;
        self.attempts.from = None;
        self.attempts.popped = None;
        self.attempts.trial = Trial::default();
    }

    /// Moves the pod to the stage in which it is not tried: on its node, if it is bound.
    pub(crate) fn rest(&mut self) {
        self.enter(if self.is_placed() { PodStage::Assigned } else { PodStage::Foreign });
    }

    /// Whether the watch confirmed the pod on its node. A queued pod on its node has a deferred resize.
    pub(crate) fn is_placed(&self) -> bool {
        self.stage == PodStage::Assigned || (self.charge.is_some() && self.stage.waits())
    }

    /// Whether the pod is decided, or on its node. Exactly these pods have a charge.
    pub(crate) fn has_node(&self) -> bool {
        let is_there = self.stage == PodStage::Assigned || (self.stage.waits() && self.info.node_name.is_some());
        self.stage.is_decided() || is_there
    }

    /// Nominates the pod to a node, or removes its nomination, until the watch shows a change.
    pub(crate) fn nominate_locally(&mut self, node: Option<Arc<str>>) {
        self.unconfirmed.extend(self.local_nomination.replace(node));
        let too_many = self.unconfirmed.len().saturating_sub(MAX_UNSAID);
        self.unconfirmed.drain(..too_many);
    }

    pub(crate) fn forget_local_nomination(&mut self) {
        self.local_nomination = None;
        self.unconfirmed.clear();
    }

    /// Observes the nomination that the watch shows. It ends the local one if it equals it, or if another client has written. An older
    /// local nomination that arrives late changes nothing.
    fn observe_nomination(&mut self, old: &PodInfo) {
        let shown = &self.info.nominated_node_name;
        let Some(local) = self.local_nomination.as_ref().filter(|_| old.nominated_node_name != *shown) else { return };
        let is_old_news = local != shown && self.unconfirmed.contains(shown);
        if !is_old_news {
            self.forget_local_nomination();
        }
    }

    /// The local nomination, otherwise the one of the watch.
    pub(crate) fn nominated_node(&self) -> Option<&Arc<str>> {
        self.local_nomination.as_ref().map_or(self.info.nominated_node_name.as_ref(), Option::as_ref)
    }

    pub(crate) fn name(&self) -> PodName {
        PodName {
            uid: Arc::clone(&self.info.uid),
            namespace: Arc::clone(&self.info.class.namespace),
            name: Arc::clone(&self.info.name),
        }
    }

    fn changed(&self, before: Indexed) -> Option<Changed> {
        let after = self.indexed();
        let uid = &self.info.uid;
        (before != after).then(|| Changed { uid: Arc::clone(uid), before: Some(before), after: Some(after) })
    }

    pub(crate) fn indexed(&self) -> Indexed {
        Indexed {
            info: Arc::clone(&self.info),
            class: self.class,
            stage: self.stage,
            charge: self.charge.clone(),
            nominated_node: self.nominated_node().cloned(),
        }
    }
}
