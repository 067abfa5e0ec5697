//! Watch events of pods, nodes, namespaces and selectors.

use std::sync::Arc;

use flotilla_framework::{
    class::{ClassId, PodInfo},
    devices::facts::{NAMELESS, nameless},
    extension::ClusterEvent,
    labels::LabelSelector,
    node::NodeInfo,
    preemption::Budget,
};
use flotilla_planted::planted;

use crate::{
    action::{Action, Nomination, Reason, Report},
    event::{Selecting, TimeMs},
    judge::cache::Charge,
    judge::cache::NodeEvent,
    machine::Machine,
    pods::{Pod, PodStage},
    queue::incoming::UNSCHEDULED_POD_ADD,
    subject::Uid,
    tally::Trial,
    wake::Strategy,
};

impl Machine {
    pub(crate) fn pod_applied(&mut self, now_ms: TimeMs, info: &Arc<PodInfo>) {
        let info = &info.showing(&self.shown);
        let uid = Arc::clone(&info.uid);
        let went_back = self.believe(now_ms, info);
        // A pod leaves its node only by finishing: an event without a node is stale.
        let is_placed = self.pods.get(&uid).is_some_and(|pod| pod.stage == PodStage::Assigned);
        if is_placed && info.node_name.is_none() && !info.finished {
            return;
        }
        let nominated = self.judge.nominator().of(&uid).cloned();
        let known = self.pods.get(&uid).map(|pod| (pod.class, &pod.info.class));
        let same =
            known.filter(|(_, whole)| Arc::ptr_eq(whole, &info.class) || **whole == info.class).map(|(id, _)| id);
        let class = match same {
            Some(class) => {
                self.judge.cache_mut().classes.retain(class);
                class
            }
            None => {
                let class = self.class_of(&info.class, info.node_name.is_some());
                self.forget_unread(&uid);
                class
            }
        };
        let stays = self.stays_after_all(info);
        let old = match self.pods.get_mut(&uid) {
            Some(pod) => {
                let old_class = std::mem::replace(&mut pod.class, class);
                let old = std::mem::replace(&mut pod.info, Arc::clone(info));
                self.release_class(old_class);
                Some(old)
            }
            None => {
                self.pods.insert(Arc::clone(&uid), Pod::new(Arc::clone(info), class));
                None
            }
        };
        if same.is_none() {
            self.note_unread(&uid);
        }
        self.note_excess(&uid, info);
        self.note_member(&uid, old.as_deref(), info);
        self.observe_nomination(&uid, old.as_deref());
        if info.finished {
            self.settle(now_ms, &uid, None, PodStage::Foreign);
        } else if let Some(node) = &info.node_name {
            self.settle(now_ms, &uid, Some(Charge { node: Arc::clone(node), class }), PodStage::Assigned);
        } else if self.pods.get(&uid).is_some_and(|pod| pod.stage.is_decided()) {
            // The watch lags behind the decision: it does not know the node yet.
            if info.deleting {
                self.settle(now_ms, &uid, None, PodStage::Foreign);
            }
        } else if let Some(old) =
            old.filter(|old| !went_back && !matters(old, info) && self.group_of(old) == self.group_of(info))
        {
            if same.is_none() {
                self.updated(now_ms, &uid, &old);
            }
        } else {
            self.admit(now_ms, &uid);
        }
        self.nominate(&uid);
        self.end_nomination(now_ms, &uid, nominated);
        if stays {
            // Pods that wait for the termination of this pod have to choose again.
            self.wake_where(now_ms, ClusterEvent::PodRemoved(&info.class), |_| true);
        }
    }

    /// Whether a restored backup reverted the deletion of a pod.
    fn stays_after_all(&mut self, info: &PodInfo) -> bool {
        let was_deleting = self.pods.get(&info.uid).is_some_and(|pod| pod.info.deleting);
        self.preemptions.witness(info) || (was_deleting && !info.deleting)
    }

    /// A restored backup may have reverted any placed pod: the next watch event of each decides. It does not decide binds in flight and
    /// later decisions, which the watch may not include yet.
    pub(crate) fn unconfirm_all(&mut self) {
        self.preemptions.unconfirm_all();
        for (uid, pod) in &mut self.pods {
            pod.doubted = match pod.stage {
                PodStage::Assigned | PodStage::Foreign => true,
                PodStage::Assumed(_) => !self.binding.contains(uid),
                PodStage::Preparing(_) | PodStage::Gated(_) | PodStage::Queued(_) | PodStage::Member(_) => false,
            };
        }
    }

    /// Whether a restored backup reverted the placement of a pod. The watch does not decide a bind in flight.
    fn believe(&mut self, now_ms: TimeMs, info: &PodInfo) -> bool {
        let profile = self.profile_index(&info.scheduler_name);
        let Some(pod) = self.pods.get_mut(&info.uid).filter(|pod| pod.doubted) else { return false };
        pod.doubted = false;
        let is_unplaced = info.node_name.is_none() && !info.finished;
        let is_under_way = self.binding.contains(&info.uid);
        let went_back = match (pod.stage, profile) {
            // The watch reported the bind before its answer, and the backup reverted it. The pod keeps its room until the answer.
            (PodStage::Assigned, Some(profile)) if is_unplaced && is_under_way => {
                self.set_stage(&info.uid, PodStage::Assumed(profile));
                false
            }
            (PodStage::Assigned | PodStage::Foreign, _) => is_unplaced,
            (PodStage::Assumed(_), _) => is_unplaced && !is_under_way,
            (PodStage::Preparing(_) | PodStage::Gated(_) | PodStage::Queued(_) | PodStage::Member(_), _) => false,
        };
        if went_back {
            self.settle(now_ms, &info.uid, None, PodStage::Foreign);
        }
        went_back
    }

    pub(crate) fn pod_deleted(&mut self, now_ms: TimeMs, uid: &Uid) {
        if !self.pods.contains_key(uid) || planted("ignores-deleted-pods") {
            return;
        }
        let nominated = self.judge.nominator().of(uid).cloned();
        self.preemptions.gone(uid);
        self.settle(now_ms, uid, None, PodStage::Foreign);
        self.end_nomination(now_ms, uid, nominated);
        self.too_large.remove(uid);
        self.forget_held(uid);
        self.note_member_gone(uid);
        self.forget_unread(uid);
        if let Some(pod) = self.pods.swap_remove(uid) {
            self.release_class(pod.class);
        }
    }

    pub(crate) fn node_applied(&mut self, now_ms: TimeMs, info: &Arc<NodeInfo>) {
        if self.judge.cache().nodes.get(&info.name).is_some_and(|known| known.info.uid != info.uid) {
            self.node_deleted(now_ms, &info.name);
        }
        let info = &self.judge.cache_mut().objects.complete(info);
        if info.unschedulable && planted("ignores-cordons") {
            return;
        }
        let applied = self.judge.cache_mut().apply_node(info);
        self.judge.forget_outdated();
        match applied {
            NodeEvent::Added => {
                self.assign_node(&info.name);
                if planted("wakes-nobody-for-new-nodes") {
                    return;
                }
                self.wake_for(now_ms, ClusterEvent::NodeAdded(info));
            }
            NodeEvent::Updated(old) => {
                self.send_to_holder(&info.name, info);
                self.look_at_those_on(now_ms, &info.name);
                if planted("wakes-nobody-for-changed-nodes") {
                    return;
                }
                self.wake_for(now_ms, ClusterEvent::NodeUpdated { old: &old, new: info });
            }
            NodeEvent::Unchanged => {}
        }
    }

    pub(crate) fn node_deleted(&mut self, now_ms: TimeMs, name: &Arc<str>) {
        if planted("ignores-deleted-nodes") {
            return;
        }
        if let Some(node) = self.judge.cache_mut().remove_node(name) {
            self.withdraw_node(&node);
            self.judge.cache_mut().objects.forget_node(name);
            self.look_at_those_on(now_ms, name);
            self.wake_for(now_ms, ClusterEvent::NodeRemoved(&node.info));
        }
    }

    pub(crate) fn namespace_applied(
        &mut self,
        now_ms: TimeMs,
        name: &Arc<str>,
        labels: Option<&Vec<(Arc<str>, Arc<str>)>>,
    ) {
        if self.judge.cache_mut().directory.set_namespace(name, labels) {
            let event = ClusterEvent::NamespaceChanged(name);
            self.wake_for(now_ms, event);
            self.admit_those_that_fit(now_ms, event.label());
        }
    }

    pub(crate) fn selector_applied(&mut self, now_ms: TimeMs, object: &Selecting, selector: Option<&LabelSelector>) {
        let old = self.judge.cache().directory.selector(object);
        if self.judge.cache_mut().directory.set_selector(object, selector) {
            let new = self.judge.cache().directory.selector(object);
            self.replace_selector(&object.namespace, old.as_ref(), new.as_ref());
            self.replace_owner(object, old.is_some(), new.is_some());
            self.wake_for(now_ms, ClusterEvent::SelectorChanged(&object.namespace));
        }
    }

    pub(crate) fn budget_applied(&mut self, budget: &Budget) {
        let old = self.budgets.apply(budget);
        self.replace_selector(&budget.namespace, old.as_ref(), Some(&budget.selector));
    }

    pub(crate) fn budget_deleted(&mut self, namespace: &Arc<str>, name: &Arc<str>) {
        let old = self.budgets.delete(namespace, name);
        self.replace_selector(namespace, old.as_ref(), None);
    }

    /// Determines the stage of a pod without a node, and moves it there.
    pub(crate) fn admit(&mut self, now_ms: TimeMs, uid: &Uid) {
        self.admit_by(now_ms, uid, UNSCHEDULED_POD_ADD);
    }

    pub(crate) fn admit_by(&mut self, now_ms: TimeMs, uid: &Uid, label: &'static str) {
        let Some(pod) = self.pods.get(uid) else { return };
        let info = Arc::clone(&pod.info);
        let profile = self.profile_index(&info.scheduler_name);
        let Some(profile) = profile.filter(|_| !info.finished && info.node_name.is_none()) else {
            self.leave_queue(uid, PodStage::Foreign);
            return;
        };
        if self.binding.contains(uid) {
            // The pod was deleted and added again. Two binds of one pod cannot be distinguished, so it waits for the answer of the
            // first.
            self.leave_queue(uid, PodStage::Foreign);
        } else if info.deleting {
            let message = format!("skip schedule deleting pod: {}", info.key());
            // kube-scheduler reports this only for a pod that is popped; gated and parked pods are not.
            if self.queue.is_active(uid) || matches!(pod.stage, PodStage::Member(_)) {
                self.report(uid, Reason::SchedulerError, message, false);
            }
            self.leave_queue(uid, PodStage::Foreign);
        } else if let Some(group) = self.group_of(&info) {
            self.join_group(now_ms, uid, profile, &group);
        } else if let Some((plugin, _)) = self.gate(profile, uid) {
            self.stamp(now_ms, uid);
            self.hold_back(now_ms, uid, profile, Some(plugin));
        } else if let Some(message) = self.excess(uid) {
            self.stamp(now_ms, uid);
            self.leave_untried(now_ms, uid, profile, message);
        } else {
            self.stamp(now_ms, uid);
            self.set_stage(uid, PodStage::Queued(profile));
            self.requeue(now_ms, uid, Strategy::AfterBackoff, label);
        }
    }

    /// Sets a pod's charge and stage, and wakes pods that may have room now.
    fn settle(&mut self, now_ms: TimeMs, uid: &Uid, charge: Option<Charge>, stage: PodStage) {
        if let Some(charge) = &charge {
            self.confirm_reserved(uid, &charge.node);
        }
        self.unreserve(now_ms, uid);
        self.leave_queue(uid, stage);
        let Some(pod) = self.pods.get_mut(uid) else { return };
        if pod.charge == charge {
            return;
        }
        let old = std::mem::replace(&mut pod.charge, charge.clone());
        self.residents.moves(uid, pod.info.priority, old.as_ref(), charge.as_ref());
        let class = |machine: &Self, charge: &Option<Charge>| {
            charge.as_ref().and_then(|charge| machine.judge.cache().classes.get(charge.class).map(Arc::clone))
        };
        let (before, after) = (class(self, &old), class(self, &charge));
        let stays = matches!((&old, &charge), (Some(old), Some(new)) if old.node == new.node);
        if let Some(new) = charge {
            self.charge(&new);
        }
        if let Some(old) = old {
            self.discharge(&old);
        }
        match (before, after) {
            (Some(old), Some(new)) if stays => {
                self.wake_for(now_ms, ClusterEvent::PodUpdated { old: &old, new: &new });
            }
            (before, after) => {
                if let Some(new) = after {
                    self.wake_for(now_ms, ClusterEvent::PodAdded(&new));
                }
                if let Some(old) = before.filter(|_| !planted("wakes-nobody-for-pods-that-go")) {
                    self.wake_for(now_ms, ClusterEvent::PodRemoved(&old));
                }
            }
        }
    }

    pub(crate) fn charge(&mut self, charge: &Charge) {
        let change = self.put_on(charge);
        if !self.judge.cache().classes.is_sendable(charge.class) {
            return self.reassign_node(&charge.node);
        }
        if let Some((worker, change)) = change {
            self.send_class(worker, charge.class);
            self.send_change(worker, change);
        }
    }

    pub(crate) fn discharge(&mut self, charge: &Charge) {
        if let Some((worker, change)) = self.take_off(charge) {
            self.send_change(worker, change);
        }
        if !self.judge.cache().classes.is_sendable(charge.class) {
            self.reassign_node(&charge.node);
        }
        self.release_class(charge.class);
    }

    pub(crate) fn release_class(&mut self, class: ClassId) {
        self.judge.cache_mut().release_class(class);
        while let Some(gone) = self.judge.cache_mut().take_forgotten() {
            self.judge.states_mut().close_class(gone);
            self.judge.forget_panics_of(gone);
            self.budgets.forget_class(gone);
            self.forget_class(gone);
        }
    }

    /// Reports why a pod is not placed. Remembers the report, so that the condition is written only when it changes.
    pub(crate) fn report(&mut self, uid: &Uid, reason: Reason, message: String, condition: bool) {
        self.report_with(uid, reason, message, condition, Nomination::Keep);
    }

    /// As [`Self::report`], for a failed attempt: also removes the nomination.
    pub(crate) fn report_failure(&mut self, now_ms: TimeMs, uid: &Uid, message: String) {
        let nomination = self.nominate_local(now_ms, uid, None);
        self.report_with(uid, Reason::SchedulerError, message, true, nomination);
    }

    /// As [`Self::report`], with a change of the nomination.
    pub(crate) fn report_with(
        &mut self,
        uid: &Uid,
        reason: Reason,
        message: String,
        condition: bool,
        nomination: Nomination,
    ) {
        if self.leading.is_none() {
            return;
        }
        let message = self.with_names(uid, message);
        let trace = if condition { self.trace_failure(uid, reason, &message) } else { None };
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let told = pod.last_report.as_ref().is_some_and(|(known, text)| *known == reason && *text == message);
        let shown = pod
            .info
            .condition
            .as_ref()
            .is_some_and(|shown| !shown.status && &*shown.reason == reason.as_str() && *shown.message == *message);
        if condition {
            pod.last_report = Some((reason, message.clone()));
        }
        let is_known = shown || (told && pod.info.condition.is_none());
        self.actions.push(Action::Report(Report {
            uid: Arc::clone(uid),
            namespace: Arc::clone(&pod.info.class.namespace),
            name: Arc::clone(&pod.info.name),
            scheduler_name: Arc::clone(&pod.info.scheduler_name),
            generation: pod.info.generation,
            reason,
            message,
            write_condition: condition && !is_known,
            nomination,
            attempt: pod.attempts,
            began_ms: pod.trial.began_ms.filter(|_| condition),
            trace,
        }));
    }

    /// Replaces the claim names of the class by the names of the pod's own claims.
    fn with_names(&self, uid: &Uid, message: String) -> String {
        if !message.contains(NAMELESS) {
            return message;
        }
        let Some(class) = self.pods.get(uid).map(|pod| &pod.info.class) else { return message };
        let names = class.devices.iter().flat_map(|devices| devices.names()).enumerate();
        names.fold(message, |message, (place, (name, _))| {
            message.replace(&nameless(place), &format!("{}/{name}", class.namespace))
        })
    }

    /// Stamps a pod once, when it is first seen; a gated pod keeps that place in the queue.
    fn stamp(&mut self, now_ms: TimeMs, uid: &Uid) {
        if let Some(pod) = self.pods.get_mut(uid).filter(|pod| pod.queued.1 == 0) {
            pod.queued = self.queue.stamp(now_ms);
        }
    }

    pub(crate) fn leave_queue(&mut self, uid: &Uid, stage: PodStage) {
        self.queue.remove(uid);
        self.set_stage(uid, stage);
    }

    pub(crate) fn set_stage(&mut self, uid: &Uid, stage: PodStage) {
        self.leave_group_unless(uid, stage);
        let Some(pod) = self.pods.get_mut(uid) else { return };
        self.gates.open(uid);
        pod.stage = stage;
        pod.attempt_from = None;
        pod.popped = None;
        pod.trial = Trial::NONE;
        self.nominate(uid);
    }
}

/// Whether fields changed that determine the stage, apart from the class.
fn matters(old: &PodInfo, new: &PodInfo) -> bool {
    planted("wakes-itself")
        || old.gates != new.gates
        || old.deleting != new.deleting
        || old.finished != new.finished
        || old.scheduler_name != new.scheduler_name
        || old.priority != new.priority
        || old.node_name != new.node_name
        || old.excess != new.excess
}
