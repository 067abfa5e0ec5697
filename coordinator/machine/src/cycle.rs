//! Decisions, one pod after the other in the queue's order, and what follows from each bind.
//!
//! Knows: when there is enough to decide on, when to ask, and what a decision does. Must not know: how offers are
//! merged or kept exact ([`crate::offers`] and the framework do).

use std::sync::Arc;

use flotilla_framework::{
    diagnosis::{self, Diagnosis, NO_NODES},
    evaluation::Offer,
    extension::ClusterEvent,
    node::NodeId,
    prepared::NodeResult,
    select::Best,
    shard::Revision,
};

use crate::{
    action::{Action, Binding, Nomination, Reason},
    event::{BindFailure, TimeMs},
    extend::Step,
    groups::Placement,
    machine::Machine,
    pods::{Charge, Stage},
    queue::{Plugins, Rejectors, Subject, Uid},
    trace::Choice,
};

/// What came of trying to decide on the head of the queue.
pub(crate) enum Progress {
    /// It is decided; the next one is the head now.
    Decided,
    /// It waits for an evaluation.
    Waiting,
}

impl Machine {
    /// Decides on pod after pod until one has to wait, or there is none, or too many binds are under way.
    ///
    /// Where activeQ is empty, up to `pops` pods are taken from backoffQ.
    pub(crate) fn decide(&mut self, now_ms: TimeMs, mut pops: usize) {
        let Some(bound) = self.configuration.as_ref().map(|configuration| configuration.max_binds_in_flight) else {
            return;
        };
        if self.leading.is_none() || !self.synced {
            return;
        }
        self.go_on_preempting(now_ms);
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
            let progress = match self.groups.is_seat(&uid) {
                true => self.attempt_group(now_ms, &uid),
                false => self.attempt(now_ms, &uid, subject),
            };
            if matches!(progress, Progress::Waiting) {
                break;
            }
            pops = if self.status.unschedulable > refused { 0 } else { pops };
        }
        self.look_ahead(now_ms);
    }

    pub(crate) fn attempt(&mut self, now_ms: TimeMs, uid: &Uid, subject: Subject) -> Progress {
        let Some(from) = self.begin(now_ms, uid, subject) else {
            self.queue.remove(uid);
            return Progress::Decided;
        };
        if self.cache.nodes.is_empty() {
            let diagnosis = Diagnosis { message: NO_NODES.to_owned(), plugins: Vec::new() };
            return self.turn_down(now_ms, uid, diagnosis, None);
        }
        if !self.open(subject) {
            return self.fail(now_ms, uid, "its profile or class is unknown".to_owned());
        }
        let extenders = self.extenders_of(uid);
        if extenders.is_empty()
            && self.nominator.is_empty()
            && let Some(progress) = self.attempt_shared(now_ms, uid, subject)
        {
            return progress;
        }
        let in_trial = self.trial.is_some();
        loop {
            if let Some(progress) = self.judge_class(now_ms, uid, subject) {
                return progress;
            }
            if !self.has_offers(now_ms, subject) {
                return Progress::Waiting;
            }
            if let Some(progress) = self.try_own_node(now_ms, uid, subject, &extenders) {
                return progress;
            }
            let Some(dossier) = self.dossiers.get_mut(subject) else { return Progress::Waiting };
            let Some(offers) = &mut dossier.offers else { return Progress::Waiting };
            // What was asked for since this pod is at the head and still says too little is made up for here.
            // Nor is a group's attempt over while nodes that its own pods were charged to are told apart from the others.
            let is_short = (offers.book.is_laid_over() || in_trial) && offers.revision >= from;
            let is_current = offers.book.is_untouched() || offers.revision >= from;
            if let Some(error) = offers.book.error(&dossier.prepared) {
                if is_current {
                    return self.fail(now_ms, uid, error);
                }
                dossier.offers = None;
                continue;
            }
            match offers.book.best(&dossier.prepared) {
                Best::Dry => {
                    self.status.offers_dry += 1;
                    dossier.offers = None;
                    if is_short {
                        self.evaluate_here(subject);
                    }
                }
                // What is said to the pod's owner is counted in one state, as kube-scheduler's is.
                Best::Nothing if (is_short || is_current) && !offers.book.is_untouched() => self.evaluate_here(subject),
                Best::Nothing if is_current => {
                    let covered = offers.book.covered() as usize;
                    let diagnosis = diagnosis::of_nodes(&dossier.prepared, &offers.book.refused_now(), covered);
                    return self.refuse(now_ms, uid, diagnosis);
                }
                Best::Nothing => dossier.offers = None,
                Best::Node { .. } if !extenders.is_empty() => match self.extend(now_ms, uid, subject, &extenders) {
                    Step::Asked => return Progress::Waiting,
                    Step::Again => {}
                },
                Best::Node { offer, total, repaired } => {
                    if let Some(progress) = self.take(now_ms, uid, subject, offer, total, repaired) {
                        return progress;
                    }
                }
            }
        }
    }

    /// The state of the cluster that the pod's attempt has to know of: that in which it got to the head of the queue.
    fn begin(&mut self, now_ms: TimeMs, uid: &Uid, subject: Subject) -> Option<Revision> {
        let revision = self.cache.revision();
        let pod = self.pods.get_mut(uid)?;
        if pod.attempt_from.is_none() {
            pod.trace.begin(pod.queued.0);
            pod.trial.begin(now_ms, self.tally.flushed_ms(subject), pod.first_queued_ms.unwrap_or(now_ms));
        }
        Some(*pod.attempt_from.get_or_insert(revision))
    }

    /// A pod that woke with others was not asked for its gates then.
    fn is_kept_out(&mut self, now_ms: TimeMs, uid: &Uid) -> bool {
        let Some(Stage::Queued(profile)) = self.pods.get(uid).map(|pod| pod.stage) else { return false };
        let Some((plugin, _)) = self.gate(profile, uid) else { return false };
        self.hold_back(now_ms, uid, profile, Some(plugin));
        true
    }

    /// What can be said of the pod whatever the nodes are.
    fn judge_class(&mut self, now_ms: TimeMs, uid: &Uid, subject: Subject) -> Option<Progress> {
        let nodes = self.cache.nodes.len();
        let prepared = &self.dossiers.get(subject)?.prepared;
        if let Some(error) = prepared.error().map(str::to_owned) {
            return Some(self.fail(now_ms, uid, error));
        }
        diagnosis::of_class(prepared, nodes).map(|diagnosis| self.refuse(now_ms, uid, diagnosis))
    }

    /// Takes the best node, if it is as good as it was said to be.
    fn take(
        &mut self,
        now_ms: TimeMs,
        uid: &Uid,
        subject: Subject,
        offer: Offer,
        total: i64,
        repaired: bool,
    ) -> Option<Progress> {
        let dossier = self.dossiers.get_mut(subject)?;
        let has_choice = dossier.offers.as_ref().is_some_and(|offers| offers.book.has_choice());
        let error = dossier.prepared.score_error().filter(|_| has_choice).map(str::to_owned);
        if let Some(error) = error {
            return Some(self.fail(now_ms, uid, error));
        }
        self.verify(subject, offer).then(|| self.assume(now_ms, uid, subject, offer, total, repaired))
    }

    /// Brings the subject's offers up to the present, evaluating here where no worker can. `false`: they are asked for.
    fn has_offers(&mut self, now_ms: TimeMs, subject: Subject) -> bool {
        let alone = self.trial.is_some() || self.is_alone(now_ms);
        let Some(dossier) = self.dossiers.get_mut(subject) else { return false };
        if dossier.repair(&self.cache) {
            return true;
        }
        if alone || !dossier.can_be_asked() {
            self.status.evaluations_refuted += u64::from(dossier.is_refuted());
            self.evaluate_here(subject);
            return true;
        }
        self.ask(now_ms, subject);
        false
    }

    fn evaluate_here(&mut self, subject: Subject) {
        self.status.evaluations_local += 1;
        self.dossiers.evaluate_here(subject, &self.cache);
    }

    /// Opens the subject's dossier. `false`: its profile or class is not known.
    pub(crate) fn open(&mut self, (index, class_id): Subject) -> bool {
        let Some(configuration) = self.configuration.clone() else { return false };
        let Some(profile) = configuration.profiles.get(index) else { return false };
        let Some(class) = self.cache.classes.get(class_id).map(Arc::clone) else { return false };
        self.dossiers.open((index, class_id), self.registry, profile, &class, &mut self.cache);
        true
    }

    /// Runs every filter for the chosen node against our own view before anything is assumed. An offer that is not
    /// what our own view gives is a worker's error: the worker is given up, and its word does not count.
    fn verify(&mut self, subject: Subject, offer: Offer) -> bool {
        let Some(dossier) = self.dossiers.get_mut(subject) else { return false };
        let slot = self.cache.snapshot.slot(offer.node);
        let result = slot.map(|slot| dossier.prepared.judge_with(&self.cache.snapshot, slot, &dossier.matches));
        if let (Some(NodeResult::Feasible(feasible)), Some(offers)) = (&result, &mut dossier.offers)
            && offers.book.confirms(offer, feasible)
        {
            return true;
        }
        self.give_up_holder(offer);
        false
    }

    /// Gives up the worker that made an offer which is not what our own view gives.
    pub(crate) fn give_up_holder(&mut self, offer: Offer) {
        let reason = format!("it offered node {} with a score that is not the node's", offer.node.0);
        self.give_up_holder_of(offer.node, &reason);
    }

    /// Gives up the worker that holds a node, for what it said of it.
    pub(crate) fn give_up_holder_of(&mut self, node: NodeId, reason: &str) {
        let holder = self.cache.name(node).and_then(|name| self.cache.nodes.get(name)?.worker);
        if let Some(worker) = holder {
            self.dossiers.distrust();
            self.drop_worker(worker, reason.to_owned());
        }
    }

    pub(crate) fn assume(
        &mut self,
        now_ms: TimeMs,
        uid: &Uid,
        subject: Subject,
        offer: Offer,
        total: i64,
        repaired: bool,
    ) -> Progress {
        let Some(node) = self.cache.name(offer.node).map(Arc::clone) else { return Progress::Waiting };
        let plan = match self.plan_volumes(subject, &node) {
            Ok(plan) => plan,
            Err(error) => return self.fail(now_ms, uid, error),
        };
        let charge = Charge { node, class: subject.1 };
        let placement = Placement { charge, plan, total, repaired, revision: self.cache.revision() };
        if self.trial.is_some() {
            return self.place_for_now(uid, subject, placement);
        }
        self.charge(&placement.charge);
        self.commit(now_ms, uid, subject, placement);
        Progress::Decided
    }

    /// Has a decision carried out whose charge is made.
    pub(crate) fn commit(&mut self, now_ms: TimeMs, uid: &Uid, subject: Subject, placement: Placement) {
        let Placement { charge, plan, total, repaired, revision } = placement;
        let extender = self.binder_of(uid);
        self.count_attempt(now_ms, uid, Some((subject, true)));
        self.queue.remove(uid);
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let node = Arc::clone(&charge.node);
        pod.stage = Stage::Assumed(subject.0);
        self.residents.moves(uid, pod.info.priority, None, Some(&charge));
        pod.charge = Some(charge);
        pod.attempts += 1;
        pod.attempt_from = None;
        pod.told = None;
        let trace = self.trace_decision(now_ms, uid, Some(Choice { node: Arc::clone(&node), total, repaired }));
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let binding = Binding {
            uid: Arc::clone(uid),
            namespace: Arc::clone(&pod.info.class.namespace),
            name: Arc::clone(&pod.info.name),
            node,
            scheduler_name: Arc::clone(&pod.info.scheduler_name),
            attempt: pod.attempts,
            waited_ms: now_ms.saturating_sub(pod.first_queued_ms.unwrap_or(now_ms)),
            began_ms: pod.trial.began_ms.unwrap_or(now_ms),
            decided_ms: now_ms,
            prepared_ms: None,
            flushed: std::mem::take(&mut pod.trial.flushed),
            revision,
            total,
            extender,
            trace,
        };
        let nominated = self.nominate(uid);
        self.end_nomination(now_ms, uid, nominated);
        if let Some(class) = self.cache.classes.get(subject.1).map(Arc::clone) {
            self.wake_for(now_ms, ClusterEvent::PodAdded(&class));
        }
        self.prepare(subject.0, binding, plan);
        self.status.decisions += 1;
        self.status.placed += 1;
        *(if repaired { &mut self.status.offers_repaired } else { &mut self.status.offers_used }) += 1;
    }

    /// No node would take the pod, nor any other of its class that is not of a higher priority; and nobody makes room for
    /// it, unless `node` says where.
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
        let nomination = self.say(now_ms, uid, nominated);
        let progress = self.set_aside(now_ms, uid, diagnosis, nomination);
        if let Some((Stage::Queued(profile), class, priority)) = known.filter(|_| is_for_all) {
            self.queue.answer_for_all((profile, class), priority, rejectors, now_ms);
        }
        progress
    }

    /// No node would take the pod, for reasons that need not hold for others of its class: it waits for an event that may
    /// change this.
    pub(crate) fn set_aside(
        &mut self,
        now_ms: TimeMs,
        uid: &Uid,
        diagnosis: Diagnosis,
        nomination: Nomination,
    ) -> Progress {
        let Some(pod) = self.pods.get_mut(uid) else { return Progress::Decided };
        let Stage::Queued(profile) = pod.stage else { return Progress::Decided };
        pod.attempts += 1;
        pod.attempt_from = None;
        pod.trial.flushed = false;
        let subject = (profile, pod.class);
        self.count_attempt(now_ms, uid, Some((subject, false)));
        let Some(pod) = self.pods.get_mut(uid) else { return Progress::Decided };
        if diagnosis.plugins.is_empty() {
            // With no plugin to wait for, only time can help; upstream files this under errors too.
            pod.errors += 1;
            self.park_with_error(now_ms, uid);
        } else {
            pod.errors = 0;
            pod.refusals += 1;
            let plugins = diagnosis.plugins.as_slice().into();
            self.park(now_ms, uid, Rejectors { plugins, pending: Plugins::default() });
        }
        self.status.decisions += 1;
        self.status.unschedulable += 1;
        self.report_with(uid, Reason::Unschedulable, diagnosis.message, true, nomination);
        Progress::Decided
    }

    /// Something went wrong that says nothing about the nodes.
    pub(crate) fn fail(&mut self, now_ms: TimeMs, uid: &Uid, message: String) -> Progress {
        if let Some(trial) = &mut self.trial {
            return trial.fail(message);
        }
        self.status.decisions += 1;
        self.count_attempt(now_ms, uid, None);
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.attempts += 1;
        }
        self.retry_later(now_ms, uid);
        self.report_failure(now_ms, uid, message);
        Progress::Decided
    }

    /// Has a pod tried again when its backoff has ended.
    pub(crate) fn retry_later(&mut self, now_ms: TimeMs, uid: &Uid) {
        // The profiles may be others than at the beginning of the attempt.
        let profile = self.pods.get(uid).and_then(|pod| self.profile_index(&pod.info.scheduler_name));
        let Some(profile) = profile else { return self.leave_queue(uid, Stage::Foreign) };
        if let Some(group) = self.pods.get(uid).and_then(|pod| self.group_of(&pod.info)) {
            return self.rejoin_group(now_ms, uid, profile, &group);
        }
        let Some(pod) = self.pods.get_mut(uid) else { return };
        pod.stage = Stage::Queued(profile);
        pod.attempt_from = None;
        pod.trial.flushed = false;
        pod.errors += 1;
        self.nominate(uid);
        self.park_with_error(now_ms, uid);
    }

    /// Has a decided pod bound.
    pub(crate) fn bind(&mut self, binding: Binding) {
        self.leave_trace_to_binder(&binding.uid);
        self.binding.insert(Arc::clone(&binding.uid));
        self.actions.push(Action::Bind(binding));
    }

    pub(crate) fn bound(&mut self, uid: &Uid) {
        self.binding.remove(uid);
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.errors = 0;
        }
    }

    pub(crate) fn bind_failed(&mut self, now_ms: TimeMs, uid: &Uid, failure: BindFailure) {
        self.binding.remove(uid);
        self.status.bind_failures += 1;
        // The watch may have told the truth before the answer came: then there is nothing to forget.
        let Some(pod) = self.pods.get_mut(uid).filter(|pod| matches!(pod.stage, Stage::Assumed(_))) else { return };
        match failure {
            // The watch will say where it went, or that it went.
            BindFailure::Gone | BindFailure::Elsewhere => pod.stage = Stage::Foreign,
            BindFailure::Error(error) => {
                self.retry_later(now_ms, uid);
                self.report_failure(now_ms, uid, error);
            }
        }
        self.forget(now_ms, uid);
    }

    /// Takes the charge of a pod back that does not go where it was to go.
    pub(crate) fn forget(&mut self, now_ms: TimeMs, uid: &Uid) {
        if let Some(charge) = self.pods.get_mut(uid).and_then(|pod| pod.charge.take()) {
            self.residents.moves(uid, 0, Some(&charge), None);
            let class = self.cache.classes.get(charge.class).map(Arc::clone);
            self.discharge(&charge);
            if let Some(class) = class {
                self.wake_for(now_ms, ClusterEvent::PodRemoved(&class));
            }
        }
    }
}
