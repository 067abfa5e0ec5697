//! The scheduling cycle: takes pods in queue order, and carries out decisions.

use std::sync::Arc;

use flotilla_framework::shard::Revision;

use crate::{
    event::TimeMs,
    judge::{
        decision::{Attempt, Decided, Decision, Need, PostFilter, Want},
        reserve::MAX_PREPARATIONS,
    },
    machine::Machine,
    subject::{Subject, Uid},
};

pub(crate) enum Progress {
    Decided,
    Waiting,
}

impl Machine {
    /// Decides pods until one has to wait, the queue is empty, or the limit of binds in flight is reached.
    ///
    /// If activeQ is empty, takes up to `pops` pods from backoffQ.
    pub(crate) fn decide(&mut self, now_ms: TimeMs, mut pops: usize) {
        let Some(bound) = self.settings.configuration().map(|configuration| configuration.max_binds_in_flight) else {
            return;
        };
        if self.leading.is_none() || !self.synced {
            return;
        }
        self.continue_preemption(now_ms);
        while self.binding.len() < bound && self.extending.is_none() && self.preemptions.search.is_none() {
            let Some((uid, subject)) = self.queue.head() else {
                if self.pop_from_backoff(now_ms, &mut pops) {
                    continue;
                }
                break;
            };
            let uid = Arc::clone(uid);
            if self.queue.head_woke_with_others() && self.is_kept_out(now_ms, &uid) {
                continue;
            }
            if self.preemptions.defers(&uid) {
                self.queue.wait_for_preemption(&mut self.pods, &uid);
                continue;
            }
            // Requests from now on belong to this pod's trace.
            self.cause = self.tracing.map(|_| Arc::clone(&uid));
            let refused = self.status.unschedulable;
            let progress = match self.groups.is_entity(&uid) {
                true => self.attempt_group(now_ms, &uid),
                false => self.attempt(now_ms, &uid, subject),
            };
            if matches!(progress, Progress::Waiting) {
                break;
            }
            pops = if self.status.unschedulable > refused { 0 } else { pops };
            if self.judge.states().work().is_enough() {
                // The runtime calls again at once, after handling waiting events.
                self.idle_until = Some(now_ms);
                self.status.events_cut += 1;
                return;
            }
        }
        let next_look = self.next_look;
        self.next_look = self.site().look_ahead(now_ms, next_look);
    }

    fn attempt(&mut self, now_ms: TimeMs, uid: &Uid, subject: Subject) -> Progress {
        if self.is_left_untried(now_ms, uid) {
            return Progress::Decided;
        }
        let Some(from) = self.begin(now_ms, uid, subject) else {
            self.queue.remove(uid);
            return Progress::Decided;
        };
        let extenders = self.settings.extenders_of(self.pods.get(uid));
        // Every iteration except the last drops a worker.
        loop {
            let alone = self.shards().is_alone(now_ms);
            let Some(pod) = self.pods.get(uid) else { return Progress::Decided };
            let attempt = Attempt {
                alone,
                own_node_refused: pod.attempts.own_node_refused == Some(from),
                extenders: &extenders,
                is_traced: pod.traced(self.tracing, pod.attempts.count + 1).is_some(),
                may_prepare: self.preparations.len() < MAX_PREPARATIONS,
                ..Attempt::new(&pod.info, subject, from)
            };
            let decided = self.judge.decide(&attempt);
            if !self.shards().drop_mismatched() || !matches!(decided, Err(Need::Workers(_))) {
                return self.carry_out(now_ms, uid, subject, decided);
            }
        }
    }

    pub(crate) fn carry_out(&mut self, now_ms: TimeMs, uid: &Uid, subject: Subject, decided: Decided) -> Progress {
        match decided {
            Ok(Decision::Place(_)) if self.pods.is_resize_deferred(uid) => {
                // The pod is tried again after its backoff, until the kubelet has resized it. Source: `cacheImpl.AssumePod`.
                let key = self.pods.get(uid).map(|pod| pod.info.key()).unwrap_or_default();
                self.fail(now_ms, uid, format!("pod {uid}({key}) is in the cache, so can't be assumed"))
            }
            Ok(Decision::Place(placement)) => {
                if self.gives_way(now_ms, uid, std::slice::from_ref(&placement.charge.node)) {
                    return Progress::Decided;
                }
                self.commit(now_ms, uid, placement);
                Progress::Decided
            }
            Ok(Decision::Refuse(diagnosis, PostFilter::Skip)) => self.turn_down(now_ms, uid, diagnosis, None),
            Ok(Decision::Refuse(diagnosis, PostFilter::Run(objected))) => {
                self.refuse_beside(now_ms, uid, diagnosis, &objected)
            }
            Ok(Decision::Fail(error)) if self.judge.is_held(subject) => {
                self.hold_pod(now_ms, uid, subject, error);
                Progress::Decided
            }
            Ok(Decision::Fail(error)) => self.fail(now_ms, uid, error),
            Err(Need::Workers(Want::Offers(subject))) => {
                self.site().ask(now_ms, subject);
                Progress::Waiting
            }
            Err(Need::Workers(Want::Whole(head))) => {
                self.site().ask_for(now_ms, head, u32::MAX, true);
                Progress::Waiting
            }
            Err(Need::Extenders(question)) => {
                let extenders = self.settings.extenders_of(self.pods.get(uid));
                self.send(now_ms, uid, &extenders, question, None);
                Progress::Waiting
            }
        }
    }

    /// Begins the attempt. Returns the revision at which the pod reached the head of the queue; the decision needs this revision or a later
    /// one.
    fn begin(&mut self, now_ms: TimeMs, uid: &Uid, subject: Subject) -> Option<Revision> {
        let revision = self.judge.cache().revision();
        let attempts = self.pods.attempts_mut(uid)?;
        if attempts.from.is_none() {
            attempts.trace.begin(attempts.queued.0);
            let queued_ms = attempts.first_queued_ms.unwrap_or(now_ms);
            attempts.trial.begin(now_ms, self.tally.flushed_ms(subject), queued_ms);
        }
        Some(*attempts.from.get_or_insert(revision))
    }
}
