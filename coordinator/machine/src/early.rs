//! Pods of backoffQ that are tried before the end of their backoff.
//!
//! There are three cases:
//! - activeQ is empty, as in kube-scheduler. Flotilla pops in the order of activeQ, and only while few events arrive.
//! - A pod that comes later in that order has found a node which is also feasible for the pod in backoffQ. The earlier pod goes first. In
//!   kube-scheduler the later pod takes the node, because a remaining backoff outweighs a priority.
//! - A pod of lower priority is about to preempt.
//!
//! A pod group that did not fit waits for no event. The first case applies to it only after its preemption. The second applies only if room
//! was made since its last attempt. It also applies at most once a second, because an attempt takes as long as all its pods. Only its first
//! pod is checked against the node. To a group of `scheduling.x-k8s.io` the first case applies under the same conditions: scheduler-plugins
//! retries its pods when room was made.
//!
//! Such an attempt does not lengthen the backoff, because any number of events may cause it.
//!
//! Source: `unlockedPop` in `backend/queue/active_queue.go`, with the gate `SchedulerPopFromBackoffQ`. Without the gate no pod is tried
//! before its backoff has ended.

use std::sync::Arc;

use flotilla_framework::pod_group::GroupApi;
use flotilla_planted::{METERED, planted};

use crate::{
    event::{Event, TimeMs},
    groups::Groups,
    machine::Machine,
    pods::PodStage,
    queue::{Early, Queue, QueuePosition, SubQueue},
    subject::{Subject, Uid},
};

/// Maximum number of pods that are popped early at once. An attempt takes some 20 us, or 1 ms if the coordinator evaluates 5,000 nodes
/// itself, so other events wait for 8 ms at most. Pops happen at a tick, which follows each batch of events, and stop at the first
/// infeasible pod. An idle machine gets its tick at once.
const MAX_POPS: usize = 8;

/// After this many events without a tick, half a batch of the runtime's, the machine is not idle: no pod is popped because activeQ is
/// empty.
const BUSY_EVENTS: u64 = 128;

/// Maximum number of kinds of pods in backoffQ that are checked against a node before a later pod takes it. Filters take some 300 ns per
/// kind and node, so all take 10 us, half of a decision. Kinds beyond the limit are counted.
const MAX_KINDS: usize = 32;

/// Maximum number of entities of backoffQ that are scanned for these kinds. Pods of one kind are usually one entity.
const MAX_LOOKED_THROUGH: usize = 256;

const GROUP_PAUSE_MS: TimeMs = 1_000;

struct Ahead {
    uid: Uid,
    subject: Subject,
    priority: i32,
    until_ms: TimeMs,
}

impl From<Early<'_>> for Ahead {
    fn from(Early { uid, subject, place, until_ms }: Early<'_>) -> Self {
        Self { uid: Arc::clone(uid), subject, priority: place.priority, until_ms }
    }
}

impl Machine {
    pub(crate) const fn pops_for(&mut self, event: &Event) -> usize {
        if !matches!(event, Event::Tick) {
            return 0;
        }
        let is_busy = self.events - std::mem::replace(&mut self.ticked, self.events) > BUSY_EVENTS;
        if is_busy { 0 } else { MAX_POPS }
    }

    /// Pops a pod from backoffQ because activeQ is empty. Pops only at a tick; otherwise requests one.
    pub(crate) fn pop_from_backoff(&mut self, now_ms: TimeMs, pops: &mut usize) -> bool {
        let (mut first, mut later) = (None, None);
        for early in self.queue.early() {
            match pops_when_idle(&self.groups, self.rooms_made, now_ms, early.uid) {
                Some(at) if at <= now_ms => {
                    first = Some(Ahead::from(early));
                    break;
                }
                Some(at) => later = Some(later.map_or(at, |later: TimeMs| later.min(at))),
                None => {}
            }
        }
        if *pops == 0 || first.is_none() {
            self.idle_until = first.map(|_| now_ms).or(later);
            return false;
        }
        let Some(first) = first else { return false };
        *pops -= 1;
        self.pop_early(now_ms, first);
        true
    }

    /// Whether a pod or group leaves these nodes to an earlier one in backoffQ that fits on one of them. That one is tried next.
    pub(crate) fn gives_way(&mut self, now_ms: TimeMs, uid: &Uid, nodes: &[Arc<str>]) -> bool {
        let Some(SubQueue::Active(place)) = self.queue.sub_queue(uid) else { return false };
        if !planted("lets-lower-priorities-first") {
            let (kinds, unasked) = kinds_ahead_of((&self.queue, &self.groups), self.rooms_made, now_ms, place);
            self.status.ahead_unasked += unasked;
            for ahead in kinds {
                self.status.ahead_asked += 1;
                let Ahead { uid, subject, priority, .. } = &ahead;
                if nodes.iter().any(|node| self.judge.suits(uid, *subject, *priority, node))
                    && self.pop_early(now_ms, ahead)
                {
                    self.status.ahead_first += 1;
                    return true;
                }
            }
        }
        if METERED {
            assert_none_ahead(self, uid, nodes);
        }
        false
    }

    /// Moves pods of higher priority from backoffQ to activeQ before a pod preempts, because they may find room or victims there. Only once
    /// per attempt and for at most [`MAX_POPS`] pods, so that preemption is not delayed further.
    pub(crate) fn lets_others_preempt_first(&mut self, now_ms: TimeMs, uid: &Uid) -> bool {
        let Some(pod) = self.pods.get(uid).filter(|pod| !pod.info.never_preempts) else { return false };
        let priority = pod.info.priority;
        if !self.residents.any_at_all_below(priority) && !self.groups.any_below(priority) {
            return false;
        }
        let Some(attempts) = self.pods.attempts_mut(uid) else { return false };
        if attempts.gave_way == attempts.from {
            return false;
        }
        attempts.gave_way = attempts.from;
        let higher = self.queue.early().take_while(|early| early.place.priority > priority).take(MAX_LOOKED_THROUGH);
        let higher = higher.filter(|early| may_go_ahead(&self.groups, self.rooms_made, now_ms, early.uid));
        let higher: Vec<Ahead> = higher.take(MAX_POPS).map(Ahead::from).collect();
        let mut any = false;
        for ahead in higher {
            any |= self.pop_early(now_ms, ahead);
        }
        any
    }

    /// Moves an entity from backoffQ to activeQ. `false`: a PreEnqueue plugin gates it; PreEnqueue does not run when a group wakes.
    fn pop_early(&mut self, now_ms: TimeMs, Ahead { uid, until_ms, .. }: Ahead) -> bool {
        if self.is_kept_out(now_ms, &uid) {
            return false;
        }
        let key = self.groups.entities.get(&uid);
        if let Some(group) = key.and_then(|key| self.groups.known.get_mut(key)) {
            group.popped = Some(until_ms);
        } else if let Some(attempts) = self.pods.attempts_mut(&uid) {
            attempts.popped = Some(until_ms);
        }
        self.queue.pop_from_backoff(&uid);
        true
    }
}

/// The time from which an empty activeQ pops an entity; `None`: it does not.
fn pops_when_idle(groups: &Groups, rooms_made: u64, now_ms: TimeMs, uid: &Uid) -> Option<TimeMs> {
    let Some(key) = groups.entities.get(uid) else { return Some(now_ms) };
    let group = groups.known.get(key)?;
    if group.has_room {
        return Some(now_ms);
    }
    let (tried_ms, _) = group.queued.filter(|_| key.api == GroupApi::Coscheduling)?;
    (group.tried_at != rooms_made).then(|| now_ms.max(tried_ms.saturating_add(GROUP_PAUSE_MS)))
}

/// Whether another early attempt can have a different result. Always true for a pod, because an event woke it.
fn may_go_ahead(groups: &Groups, rooms_made: u64, now_ms: TimeMs, uid: &Uid) -> bool {
    let Some(group) = groups.entities.get(uid).and_then(|key| groups.known.get(key)) else { return true };
    let tried_ms = group.queued.map_or(now_ms, |(tried_ms, _)| tried_ms);
    group.tried_at != rooms_made && now_ms >= tried_ms.saturating_add(GROUP_PAUSE_MS)
}

/// In simulations: asserts that no pod of higher priority in backoffQ fits on one of these nodes. Scans all pods instead of the queue.
fn assert_none_ahead(machine: &mut Machine, uid: &Uid, nodes: &[Arc<str>]) {
    let Some(SubQueue::Active(place)) = machine.queue.sub_queue(uid) else { return };
    if !machine.queue.pops_from_backoff() {
        return;
    }
    let mut waiting: Vec<(Uid, Subject, i32)> = Vec::new();
    for (uid, pod) in machine.pods.iter() {
        let PodStage::Queued(profile) = pod.stage else { continue };
        let is_ahead = pod.attempts.errors == 0
            && pod.info.priority > place.priority
            && matches!(machine.queue.sub_queue(uid), Some(SubQueue::Backoff(_)))
            // The evaluation already counted the pods nominated to the node, so this pod takes nothing from them.
            && pod.nominated_node().is_none_or(|node| !nodes.contains(node));
        if is_ahead && pod.gate((&machine.settings, &machine.judge), profile).is_none() {
            waiting.push((Arc::clone(uid), (profile, pod.class), pod.info.priority));
        }
    }
    // MAX_KINDS limits the check.
    if waiting.len() > MAX_KINDS {
        return;
    }
    for (ahead, subject, priority) in waiting {
        let node = nodes.iter().find(|node| machine.judge.suits(&ahead, subject, priority, node));
        assert!(node.is_none(), "P4: {uid} takes {nodes:?}, where {ahead} of priority {priority} in backoffQ fits");
    }
}

/// The kinds of pods in backoffQ that go first, and the number of those beyond the limit.
fn kinds_ahead_of(
    (queue, groups): (&Queue, &Groups),
    rooms_made: u64,
    now_ms: TimeMs,
    place: QueuePosition,
) -> (Vec<Ahead>, u64) {
    let mut kinds: Vec<Ahead> = Vec::new();
    let mut unasked = 0;
    for early in queue.early().take_while(|early| early.place < place).take(MAX_LOOKED_THROUGH) {
        let is_known = |known: &Ahead| (known.subject, known.priority) == (early.subject, early.place.priority);
        if kinds.iter().any(is_known) || !may_go_ahead(groups, rooms_made, now_ms, early.uid) {
            continue;
        }
        if kinds.len() < MAX_KINDS {
            kinds.push(early.into());
        } else {
            unasked += 1;
        }
    }
    (kinds, unasked)
}
