//! Watch events of pods, nodes, namespaces and selectors.

use std::sync::Arc;

use flotilla_framework::{
    class::{ClassId, PodInfo},
    devices::facts::with_claim_names,
    extension::ClusterEvent,
    labels::LabelSelector,
    node::NodeInfo,
    preemption::Budget,
};
use flotilla_planted::planted;

use crate::{
    action::{Action, Nomination, Reason, Report},
    event::{Selecting, TimeMs},
    follow::WakeUps,
    judge::cache::Charge,
    judge::cache::NodeEvent,
    machine::Machine,
    pods::PodStage,
    queue::incoming::UNSCHEDULED_POD_ADD,
    subject::Uid,
    wake::Strategy,
};

impl Machine {
    pub(crate) fn pod_applied(&mut self, now_ms: TimeMs, info: &Arc<PodInfo>) {
        let info = &info.showing(&self.shown);
        let uid = &info.uid;
        let went_back = self.believe(now_ms, info);
        let old = self.pods.get(uid).map(|pod| (pod.stage, Arc::clone(&pod.info)));
        // A pod leaves its node only by finishing: an event without a node is stale.
        let is_placed = old.as_ref().is_some_and(|(stage, _)| *stage == PodStage::Assigned);
        if is_placed && info.node_name.is_none() && !info.finished {
            return;
        }
        let (class, is_same) = self.class_shown(info);
        let stays = self.stays_after_all(info);
        let is_decided = old.as_ref().is_some_and(|(stage, _)| stage.is_decided());
        let settled = match &info.node_name {
            _ if info.finished => Some((None, PodStage::Foreign)),
            Some(node) => Some((Some(Charge { node: Arc::clone(node), class }), PodStage::Assigned)),
            // The watch lags behind the decision: it does not know the node yet.
            None if is_decided && info.deleting => Some((None, PodStage::Foreign)),
            None => None,
        };
        let is_settled = settled.is_some() || is_decided;
        if let Some((charge, _)) = &settled {
            charge.iter().for_each(|charge| self.confirm_reserved(uid, &charge.node));
            self.unreserve(now_ms, uid);
        }
        let changed = self.pods.apply(info, class, |pod| {
            if let Some((charge, stage)) = settled {
                pod.enter(stage);
                pod.charge = charge;
            }
        });
        let WakeUps { ended, moved } = changed.map(|changed| self.follow(&changed)).unwrap_or_default();
        self.wake_for_moved(now_ms, moved);
        if !is_settled {
            let kept = old
                .map(|(_, old)| old)
                .filter(|old| !went_back && !matters(old, info) && self.group_of(old) == self.group_of(info));
            match kept {
                Some(_) if is_same => {}
                Some(old) => self.updated(now_ms, uid, &old),
                None => self.admit(now_ms, uid),
            }
        }
        // Only now: the end of its nomination does not wake a pod that leaves the queue.
        self.wake_for_ended(now_ms, uid, ended);
        if stays {
            // Pods that wait for the termination of this pod have to choose again.
            self.wake_where(now_ms, ClusterEvent::PodRemoved(&info.class), |_| true);
        }
    }

    /// The class of a pod that the watch shows, and whether its fields are the known ones. A class that the pod does not have yet gets a
    /// user.
    fn class_shown(&mut self, info: &PodInfo) -> (ClassId, bool) {
        let known = self.pods.get(&info.uid).map(|pod| (pod.class, &pod.info.class));
        if let Some((class, whole)) = known
            && (Arc::ptr_eq(whole, &info.class) || **whole == *info.class)
        {
            return (class, true);
        }
        let class = self.class_of(&info.class, info.node_name.is_some());
        if self.pods.get(&info.uid).is_some_and(|pod| pod.class == class) {
            self.release_class(class);
        }
        (class, false)
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
        self.pods.doubt(|uid, stage| match stage {
            PodStage::Assigned | PodStage::Foreign => true,
            PodStage::Assumed(_) => !self.binding.contains(uid),
            PodStage::Preparing(_) | PodStage::Gated(_) | PodStage::Queued(_) | PodStage::Member { .. } => false,
        });
    }

    /// Whether a restored backup reverted the placement of a pod. The watch does not decide a bind in flight.
    fn believe(&mut self, now_ms: TimeMs, info: &PodInfo) -> bool {
        let profile = self.profile_index(&info.scheduler_name);
        let Some(pod) = self.pods.get(&info.uid).filter(|pod| pod.doubted) else { return false };
        let is_unplaced = info.node_name.is_none() && !info.finished;
        let is_under_way = self.binding.contains(&info.uid);
        let mut stage = pod.stage;
        let went_back = match (stage, profile) {
            // The watch reported the bind before its answer, and the backup reverted it. The pod keeps its room until the answer.
            (PodStage::Assigned, Some(profile)) if is_unplaced && is_under_way => {
                stage = PodStage::Assumed(profile);
                false
            }
            (PodStage::Assigned | PodStage::Foreign, _) => is_unplaced,
            (PodStage::Assumed(_), _) => is_unplaced && !is_under_way,
            (PodStage::Preparing(_) | PodStage::Gated(_) | PodStage::Queued(_) | PodStage::Member { .. }, _) => false,
        };
        if went_back {
            self.unreserve(now_ms, &info.uid);
        }
        self.edit(now_ms, &info.uid, |pod| {
            pod.doubted = false;
            if went_back {
                pod.enter(PodStage::Foreign);
                pod.charge = None;
            } else if stage != pod.stage {
                pod.enter(stage);
            }
        });
        went_back
    }

    pub(crate) fn pod_deleted(&mut self, now_ms: TimeMs, uid: &Uid) {
        if !self.pods.contains(uid) || planted("ignores-deleted-pods") {
            return;
        }
        self.preemptions.gone(uid);
        self.unreserve(now_ms, uid);
        if let Some(changed) = self.pods.remove(uid) {
            self.follow_and_wake(now_ms, &changed);
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
            return self.edit(now_ms, uid, |pod| pod.enter(PodStage::Foreign));
        };
        if self.binding.contains(uid) {
            // The pod was deleted and added again. Two binds of one pod cannot be distinguished, so it waits for the answer of the
            // first.
            self.edit(now_ms, uid, |pod| pod.enter(PodStage::Foreign));
        } else if info.deleting {
            let message = format!("skip schedule deleting pod: {}", info.key());
            // kube-scheduler reports this only for a pod that is popped; gated and parked pods are not.
            if self.queue.is_active(uid) || pod.stage.is_member() {
                self.report(uid, Reason::SchedulerError, message, false);
            }
            self.edit(now_ms, uid, |pod| pod.enter(PodStage::Foreign));
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
            self.edit(now_ms, uid, |pod| pod.enter(PodStage::Queued(profile)));
            self.requeue(now_ms, uid, Strategy::AfterBackoff, label);
        }
    }

    pub(crate) fn release_class(&mut self, class: ClassId) {
        self.judge.cache_mut().release_class(class);
        while let Some(gone) = self.judge.cache_mut().take_forgotten() {
            self.judge.forget_class(gone);
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
        let message = match self.pods.get(uid) {
            Some(pod) => with_claim_names(message, &pod.info.class),
            None => return,
        };
        let trace = if condition { self.trace_failure(uid, reason, &message) } else { None };
        let Some(pod) = self.pods.get(uid) else { return };
        let last = pod.attempts.last_report.as_ref();
        let told = last.is_some_and(|(known, text)| *known == reason && *text == message);
        let shown = pod
            .info
            .condition
            .as_ref()
            .is_some_and(|shown| !shown.status && &*shown.reason == reason.as_str() && *shown.message == *message);
        let is_known = shown || (told && pod.info.condition.is_none());
        let last_report = condition.then(|| (reason, message.clone()));
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
            attempt: pod.attempts.count,
            began_ms: pod.attempts.trial.began_ms.filter(|_| condition),
            trace,
        }));
        if let Some((attempts, report)) = self.pods.attempts_mut(uid).zip(last_report) {
            attempts.last_report = Some(report);
        }
    }

    /// Stamps a pod once, when it is first seen; a gated pod keeps that place in the queue.
    fn stamp(&mut self, now_ms: TimeMs, uid: &Uid) {
        if let Some(attempts) = self.pods.attempts_mut(uid).filter(|attempts| attempts.queued.1 == 0) {
            attempts.queued = self.queue.stamp(now_ms);
        }
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
