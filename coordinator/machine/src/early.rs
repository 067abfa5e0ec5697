//! Pods of backoffQ that are tried before their backoff has ended.
//!
//! There are three reasons for that:
//! - activeQ is empty. As upstream, but in the order of activeQ, and only while few events come.
//! - A pod that comes after them in that order has found a node, and the node is feasible for them too. They go first. Upstream
//!   lets the other pod have the node, as the rest of a backoff counts for more than a priority there.
//! - A pod of a lower priority is about to look for victims.
//!
//! A pod group that did not fit waits for no event. The first reason is none for it, or it would be tried without end; the second is
//! one only if room was made since its last attempt, at most once a second, as an attempt takes as long as its pods do. Its first
//! pod alone is asked about the node.
//!
//! Such an attempt does not lengthen the backoff: it did not wait for the backoff, and an event may cause any number of them.
//!
//! Knows: which pod goes ahead of which. Must not know: whether a node is feasible, or what an attempt does.
//!
//! Source: `unlockedPop` in `backend/queue/active_queue.go`, with the gate `SchedulerPopFromBackoffQ`. Without the gate no pod is
//! tried before its backoff has ended.

use std::sync::Arc;

use flotilla_planted::{METERED, planted};

use crate::{
    event::{Event, TimeMs},
    machine::Machine,
    pods::Stage,
    queue::{Early, Place, SubQueue},
    subject::{Subject, Uid},
};

/// How many pods are taken from backoffQ before their time at once: a look at each takes some 20 us, and 1 ms where the
/// coordinator evaluates 5,000 nodes by itself, so that what has happened meanwhile waits for 8 ms at most. That is done
/// when a tick comes, which is when the shell has no more to tell or has told a batch of events, and it ends with the
/// first pod that no node takes. An idle machine gets its tick at once.
const MAX_POPS: usize = 8;

/// After so many events without a tick, half a batch of the shell's, the machine is not idle: no pod is taken from
/// backoffQ before its time because activeQ is empty.
const BUSY_EVENTS: u64 = 128;

/// How many kinds of pods in backoffQ are asked about a node before a pod that comes after them takes it. The filters of
/// one kind take some 300 ns on one node, so that all of them take 10 us, half as long as the decision. Those beyond are counted.
const MAX_KINDS: usize = 32;

/// How many entities of backoffQ are looked through for those kinds. Those of one kind are one entity, unless they were
/// queued one by one.
const MAX_LOOKED_THROUGH: usize = 256;

/// How long after its last attempt a pod group goes ahead of others at the earliest.
const GROUP_PAUSE_MS: TimeMs = 1_000;

/// An entity of backoffQ, and when its backoff expires.
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
    /// How many pods may be taken from backoffQ for an event, because activeQ is empty.
    pub(crate) const fn pops_for(&mut self, event: &Event) -> usize {
        if !matches!(event, Event::Tick) {
            return 0;
        }
        let is_busy = self.events - std::mem::replace(&mut self.ticked, self.events) > BUSY_EVENTS;
        if is_busy { 0 } else { MAX_POPS }
    }

    /// Takes a pod from backoffQ, for activeQ is empty: at a tick, which is asked for if this is none.
    pub(crate) fn pop_from_backoff(&mut self, now_ms: TimeMs, pops: &mut usize) -> bool {
        let first = self.queue.early().find(|early| !self.groups.is_entity(early.uid)).map(Ahead::from);
        if *pops == 0 {
            self.idle_until = first.is_some().then_some(now_ms);
            return false;
        }
        let Some(first) = first else { return false };
        *pops -= 1;
        self.pop_early(now_ms, first);
        true
    }

    /// Whether a pod or a group leaves these nodes to one of backoffQ that comes before it in the order of activeQ and that
    /// fits on one of them: that one is tried next.
    pub(crate) fn gives_way(&mut self, now_ms: TimeMs, uid: &Uid, nodes: &[Arc<str>]) -> bool {
        let gives_way = self.pops_ahead(now_ms, uid, nodes);
        if METERED && !gives_way {
            self.assert_none_ahead(uid, nodes);
        }
        gives_way
    }

    /// In simulations: no pod of a higher priority in backoffQ fits on one of these nodes. Looks at all pods instead of the queue.
    fn assert_none_ahead(&mut self, uid: &Uid, nodes: &[Arc<str>]) {
        let Some(SubQueue::Active(place)) = self.queue.sub_queue(uid) else { return };
        if !self.queue.pops_from_backoff() {
            return;
        }
        let mut waiting: Vec<(Uid, Subject, i32)> = Vec::new();
        for (uid, pod) in &self.pods {
            let Stage::Queued(profile) = pod.stage else { continue };
            let is_ahead = pod.errors == 0
                && pod.info.priority > place.priority
                && matches!(self.queue.sub_queue(uid), Some(SubQueue::Backoff(_)))
                // The pod was evaluated beside those that are nominated to its node, so that it takes nothing from them.
                && pod.nominated_node().is_none_or(|node| !nodes.contains(node));
            if is_ahead && self.gate(profile, uid).is_none() {
                waiting.push((Arc::clone(uid), (profile, pod.class), pod.info.priority));
            }
        }
        // Not all are asked: MAX_KINDS.
        if waiting.len() > MAX_KINDS {
            return;
        }
        for (ahead, subject, priority) in waiting {
            let node = nodes.iter().find(|node| self.judge.suits(&ahead, subject, priority, node));
            assert!(node.is_none(), "P4: {uid} takes {nodes:?}, where {ahead} of priority {priority} in backoffQ fits");
        }
    }

    fn pops_ahead(&mut self, now_ms: TimeMs, uid: &Uid, nodes: &[Arc<str>]) -> bool {
        let Some(SubQueue::Active(place)) = self.queue.sub_queue(uid) else { return false };
        if planted("lets-lower-priorities-first") {
            return false;
        }
        for ahead in self.kinds_ahead_of(now_ms, place) {
            self.status.ahead_asked += 1;
            let Ahead { uid, subject, priority, .. } = &ahead;
            if nodes.iter().any(|node| self.judge.suits(uid, *subject, *priority, node))
                && self.pop_early(now_ms, ahead)
            {
                self.status.ahead_first += 1;
                return true;
            }
        }
        false
    }

    /// The first of each kind in backoffQ that comes before a place in activeQ.
    fn kinds_ahead_of(&mut self, now_ms: TimeMs, place: Place) -> Vec<Ahead> {
        let mut kinds: Vec<Ahead> = Vec::new();
        let mut unasked = 0;
        for early in self.queue.early().take_while(|early| early.place < place).take(MAX_LOOKED_THROUGH) {
            let is_known = |known: &Ahead| (known.subject, known.priority) == (early.subject, early.place.priority);
            if kinds.iter().any(is_known) || !self.may_go_ahead(now_ms, early.uid) {
                continue;
            }
            if kinds.len() < MAX_KINDS {
                kinds.push(early.into());
            } else {
                unasked += 1;
            }
        }
        self.status.ahead_unasked += unasked;
        kinds
    }

    /// Whether another attempt before its time may end otherwise than the last one: of a pod always, as an event woke it.
    fn may_go_ahead(&self, now_ms: TimeMs, uid: &Uid) -> bool {
        let Some(group) = self.groups.entities.get(uid).and_then(|key| self.groups.known.get(key)) else { return true };
        let tried_ms = group.queued.map_or(now_ms, |(tried_ms, _)| tried_ms);
        group.tried_at != self.rooms_made && now_ms >= tried_ms.saturating_add(GROUP_PAUSE_MS)
    }

    /// Whether a pod that is about to look for victims is tried after pods of higher priority in backoffQ, which may find room
    /// or victims there. Once in an attempt, and for at most [`MAX_POPS`] of them: the pod is not kept from preempting for longer.
    pub(crate) fn lets_others_preempt_first(&mut self, now_ms: TimeMs, uid: &Uid) -> bool {
        let Some(pod) = self.pods.get_mut(uid).filter(|pod| !pod.info.never_preempts) else { return false };
        let priority = pod.info.priority;
        if !self.residents.any_at_all_below(priority) && !self.groups.any_below(priority) {
            return false;
        }
        if pod.gave_way == pod.attempt_from || planted("lets-lower-priorities-first") {
            return false;
        }
        pod.gave_way = pod.attempt_from;
        let higher = self.queue.early().take_while(|early| early.place.priority > priority).take(MAX_LOOKED_THROUGH);
        let higher = higher.filter(|early| self.may_go_ahead(now_ms, early.uid));
        let higher: Vec<Ahead> = higher.take(MAX_POPS).map(Ahead::from).collect();
        let mut any = false;
        for ahead in higher {
            any |= self.pop_early(now_ms, ahead);
        }
        any
    }

    /// Puts an entity of backoffQ in activeQ. `false`: a PreEnqueue plugin keeps it out, which was not asked when it woke
    /// with others.
    fn pop_early(&mut self, now_ms: TimeMs, Ahead { uid, until_ms, .. }: Ahead) -> bool {
        if self.is_kept_out(now_ms, &uid) {
            return false;
        }
        let key = self.groups.entities.get(&uid);
        if let Some(group) = key.and_then(|key| self.groups.known.get_mut(key)) {
            group.popped = Some(until_ms);
        } else if let Some(pod) = self.pods.get_mut(&uid) {
            pod.popped = Some(until_ms);
        }
        self.queue.pop_from_backoff(&uid);
        true
    }
}
