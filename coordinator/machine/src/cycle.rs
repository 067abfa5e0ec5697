//! The scheduling cycle: takes pods in queue order, carries out decisions, and handles the result of binds.

use std::sync::Arc;

use flotilla_framework::{
    diagnosis::Diagnosis,
    node::NodeId,
    shard::{RequestId, Revision},
};
use flotilla_planted::planted;

use crate::{
    action::{Action, Binding, Nomination, Reason},
    event::{BindFailure, TimeMs},
    judge::{
        Mismatch,
        decision::{Attempt, Decided, Decision, Need, Placement, PostFilter, Want},
        reserve::MAX_PREPARATIONS,
    },
    machine::Machine,
    pods::PodStage,
    queue::{Plugins, Rejectors},
    subject::{Subject, Uid},
    trace::Choice,
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
        let Some(bound) = self.configuration.as_ref().map(|configuration| configuration.max_binds_in_flight) else {
            return;
        };
        if self.leading.is_none() || !self.synced {
            return;
        }
        self.continue_preemption(now_ms);
        while self.binding.len() < bound && self.extending.is_none() && self.preempting.is_none() {
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
                self.wait_for_preemption(&uid);
                continue;
            }
            self.ask_for_the_sake_of(&uid);
            let refused = self.status.unschedulable;
            let progress = match self.groups.is_entity(&uid) {
                true => self.attempt_group(now_ms, &uid),
                false => self.attempt(now_ms, &uid, subject),
            };
            if matches!(progress, Progress::Waiting) {
                break;
            }
            pops = if self.status.unschedulable > refused { 0 } else { pops };
            if self.judge.states().work.is_enough() {
                // The runtime calls again at once, after handling waiting events.
                self.idle_until = Some(now_ms);
                self.status.events_cut += 1;
                return;
            }
        }
        self.look_ahead(now_ms);
    }

    fn attempt(&mut self, now_ms: TimeMs, uid: &Uid, subject: Subject) -> Progress {
        if self.is_left_untried(now_ms, uid) {
            return Progress::Decided;
        }
        let Some(from) = self.begin(now_ms, uid, subject) else {
            self.queue.remove(uid);
            return Progress::Decided;
        };
        let extenders = self.extenders_of(uid);
        // Every iteration except the last drops a worker.
        loop {
            let alone = self.is_alone(now_ms);
            let Some(pod) = self.pods.get(uid) else { return Progress::Decided };
            let attempt = Attempt {
                alone,
                own_node_refused: pod.attempts.own_node_refused == Some(from),
                extenders: &extenders,
                is_traced: self.traced(pod, pod.attempts.count + 1).is_some(),
                may_prepare: self.preparations.len() < MAX_PREPARATIONS,
                ..Attempt::new(&pod.info, subject, from)
            };
            let decided = self.judge.decide(&attempt);
            if !self.drop_mismatched_workers() || !matches!(decided, Err(Need::Workers(_))) {
                return self.carry_out(now_ms, uid, subject, decided);
            }
        }
    }

    pub(crate) fn carry_out(&mut self, now_ms: TimeMs, uid: &Uid, subject: Subject, decided: Decided) -> Progress {
        match decided {
            Ok(Decision::Place(placement)) => {
                if planted("evicts-first")
                    && let Some(candidate) = self.anyone_below(uid)
                {
                    let diagnosis = Diagnosis::new(String::new(), Vec::new());
                    return self.preempt(now_ms, uid, diagnosis, &candidate);
                }
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
                self.ask(now_ms, subject);
                Progress::Waiting
            }
            Err(Need::Workers(Want::Whole(head))) => {
                self.ask_whole(now_ms, head);
                Progress::Waiting
            }
            Err(Need::Extenders(question)) => {
                let extenders = self.extenders_of(uid);
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

    /// Drops the workers that returned incorrect offers. `false`: there were none.
    pub(crate) fn drop_mismatched_workers(&mut self) -> bool {
        let mismatches = self.judge.take_mismatches();
        let any = !mismatches.is_empty();
        for Mismatch { worker, reason } in mismatches {
            self.give_up(worker, reason);
        }
        any
    }

    /// Drops the holder of a node for an incorrect result, unless the node changed its holder after that request.
    pub(crate) fn drop_holder_of(&mut self, node: NodeId, after: RequestId, reason: &str) {
        let cache = self.judge.cache();
        let holder = cache.snapshot.slot(node).and_then(|slot| cache.holder_at(slot, after + 1).ok()?);
        self.judge.distrust();
        if let Some(worker) = holder {
            self.give_up(worker, reason.to_owned());
        }
    }

    /// Runs PreEnqueue for a pod that woke with its group, because waking a group does not. `true`: the pod is gated.
    pub(crate) fn is_kept_out(&mut self, now_ms: TimeMs, uid: &Uid) -> bool {
        let Some(PodStage::Queued(profile)) = self.pods.get(uid).map(|pod| pod.stage) else { return false };
        let Some((plugin, _)) = self.gate(profile, uid) else { return false };
        self.hold_back(now_ms, uid, profile, Some(plugin));
        true
    }

    /// Assumes a pod on the decided node, and starts PreBind or the bind.
    pub(crate) fn commit(&mut self, now_ms: TimeMs, uid: &Uid, placement: Placement) {
        let subject = placement.subject();
        let Placement { profile, charge, reservations, total, repaired, revision, basis, rivals } = placement;
        let node = Arc::clone(&charge.node);
        let class = self.judge.cache().classes.get(subject.1).map(Arc::clone);
        let mut flushed = false;
        self.edit(now_ms, uid, |pod| {
            flushed = std::mem::take(&mut pod.attempts.trial.flushed);
            pod.stage = PodStage::Assumed(profile);
            pod.charge = Some(charge).filter(|_| !planted("assumes-nothing"));
            pod.attempts.count += 1;
            pod.attempts.from = None;
            pod.attempts.last_report = None;
        });
        let extender = self.binder_of(uid);
        self.count_attempt(now_ms, uid, Some((subject, true)));
        let trace = self.trace_decision(now_ms, uid, Some(Choice { node: Arc::clone(&node), total, repaired, rivals }));
        let Some(pod) = self.pods.get(uid) else { return };
        let binding = Binding {
            uid: Arc::clone(uid),
            namespace: Arc::clone(&pod.info.class.namespace),
            name: Arc::clone(&pod.info.name),
            node,
            scheduler_name: Arc::clone(&pod.info.scheduler_name),
            attempt: pod.attempts.count,
            waited_ms: now_ms.saturating_sub(pod.attempts.first_queued_ms.unwrap_or(now_ms)),
            began_ms: pod.attempts.trial.began_ms.unwrap_or(now_ms),
            decided_ms: now_ms,
            prepared_ms: None,
            pre_bound: Vec::new(),
            flushed,
            revision,
            total,
            extender,
            trace,
        };
        if let Some(class) = &class {
            self.keep_decision(subject, class, &binding, basis);
        }
        self.prepare(profile, binding, reservations);
        self.status.decisions += 1;
        self.status.placed += 1;
        *(if repaired { &mut self.status.offers_repaired } else { &mut self.status.offers_used }) += 1;
    }

    /// The pod is infeasible on all nodes, as are all pods of its class with the same or a lower priority. `nominated` is the node where
    /// preemption makes room, if any.
    pub(crate) fn turn_down(
        &mut self,
        now_ms: TimeMs,
        uid: &Uid,
        diagnosis: Diagnosis,
        nominated: Option<Arc<str>>,
    ) -> Progress {
        let rejectors = Rejectors { plugins: diagnosis.plugins.as_slice().into(), pending: Plugins::default() };
        let known = self.pods.get(uid).map(|pod| (pod.stage, pod.class, pod.info.priority));
        let is_for_all = nominated.is_none() && !rejectors.plugins.is_empty();
        let nomination = self.nominate_local(now_ms, uid, nominated);
        let progress = self.set_aside(now_ms, uid, diagnosis, nomination);
        if let Some((PodStage::Queued(profile), class, priority)) = known.filter(|_| is_for_all) {
            self.queue.answer_for_all((profile, class), priority, rejectors, now_ms);
        }
        progress
    }

    /// The pod is infeasible on all nodes, for reasons that need not apply to other pods of its class: parks it.
    pub(crate) fn set_aside(
        &mut self,
        now_ms: TimeMs,
        uid: &Uid,
        diagnosis: Diagnosis,
        nomination: Nomination,
    ) -> Progress {
        let Some(pod) = self.pods.get(uid) else { return Progress::Decided };
        let PodStage::Queued(profile) = pod.stage else { return Progress::Decided };
        let subject = (profile, pod.class);
        self.count_attempt(now_ms, uid, Some((subject, false)));
        let Some(attempts) = self.pods.attempts_mut(uid) else { return Progress::Decided };
        attempts.count += 1;
        attempts.end();
        if diagnosis.plugins.is_empty() {
            // Without a plugin no event can help; kube-scheduler also counts this as an error.
            attempts.fail();
            self.park_with_error(now_ms, uid);
        } else {
            attempts.errors = 0;
            // An attempt before the end of the backoff keeps the backoff.
            attempts.kept_ms = attempts.popped.take();
            attempts.refusals += u32::from(attempts.kept_ms.is_none());
            let plugins = diagnosis.plugins.as_slice().into();
            self.park(now_ms, uid, Rejectors { plugins, pending: Plugins::default() });
        }
        self.status.decisions += 1;
        self.status.unschedulable += 1;
        self.report_with(uid, Reason::Unschedulable, diagnosis.into_message(), true, nomination);
        Progress::Decided
    }

    pub(crate) fn fail(&mut self, now_ms: TimeMs, uid: &Uid, message: String) -> Progress {
        self.status.decisions += 1;
        self.count_attempt(now_ms, uid, None);
        self.pods.attempts_mut(uid).into_iter().for_each(|attempts| attempts.count += 1);
        self.retry_later(now_ms, uid);
        self.report_failure(now_ms, uid, message);
        Progress::Decided
    }

    pub(crate) fn retry_later(&mut self, now_ms: TimeMs, uid: &Uid) {
        // The profiles may have changed since the attempt began.
        let profile = self.pods.get(uid).and_then(|pod| self.profile_index(&pod.info.scheduler_name));
        let Some(profile) = profile else { return self.edit(now_ms, uid, |pod| pod.enter(PodStage::Foreign)) };
        if let Some(group) = self.pods.get(uid).and_then(|pod| self.group_of(&pod.info)) {
            return self.rejoin_group(now_ms, uid, profile, &group);
        }
        self.edit(now_ms, uid, |pod| {
            pod.stage = PodStage::Queued(profile);
            pod.attempts.end();
            pod.attempts.fail();
        });
        self.park_with_error(now_ms, uid);
    }

    pub(crate) fn bind(&mut self, binding: Binding) {
        self.leave_trace_to_binder(&binding.uid);
        self.binding.insert(Arc::clone(&binding.uid));
        self.actions.push(Action::Bind(binding));
    }

    pub(crate) fn bound(&mut self, uid: &Uid) {
        self.binding.remove(uid);
        self.preparations.binding.remove(uid);
        self.pods.attempts_mut(uid).into_iter().for_each(|attempts| attempts.errors = 0);
    }

    pub(crate) fn bind_failed(&mut self, now_ms: TimeMs, uid: &Uid, failure: BindFailure) {
        self.binding.remove(uid);
        self.status.bind_failures += 1;
        match self.pods.get(uid).map(|pod| pod.stage) {
            Some(PodStage::Assumed(_)) => {}
            Some(PodStage::Foreign) if matches!(failure, BindFailure::Error(_)) => return self.admit(now_ms, uid),
            // The watch reported the result first: nothing to forget.
            _ => return,
        }
        self.unreserve(now_ms, uid);
        match failure {
            // The watch will report the node or the deletion.
            BindFailure::Gone | BindFailure::Elsewhere => {
                self.edit(now_ms, uid, |pod| pod.stage = PodStage::Foreign);
            }
            BindFailure::Error(_) if planted("never-retries-a-bind") => {}
            BindFailure::Error(error) => {
                self.retry_later(now_ms, uid);
                self.report_failure(now_ms, uid, error);
            }
        }
        self.forget(now_ms, uid);
    }

    /// Forgets an assumed pod: removes its charge.
    pub(crate) fn forget(&mut self, now_ms: TimeMs, uid: &Uid) {
        if !planted("never-forgets") {
            self.edit(now_ms, uid, |pod| pod.charge = None);
        }
    }
}
