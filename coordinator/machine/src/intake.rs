//! Watch events of pods, nodes, namespaces and selectors.

use std::sync::Arc;

use flotilla_framework::{
    class::{ClassId, PodInfo},
    extension::ClusterEvent,
    labels::LabelSelector,
    node::NodeInfo,
};

use crate::{
    event::{Selecting, TimeMs},
    follow::WakeUps,
    judge::cache::Charge,
    judge::cache::NodeEvent,
    machine::Machine,
    pods::{Attempts, Pod, PodStage},
    subject::Uid,
};

impl Machine {
    pub(crate) fn pod_applied(&mut self, now_ms: TimeMs, info: &Arc<PodInfo>) {
        let info = &info.showing(self.settings.shown());
        let uid = &info.uid;
        let went_back = self.believe(now_ms, info);
        let is_placed = self.pods.get(uid).is_some_and(Pod::is_placed);
        let old = self.pods.get(uid).map(|pod| (pod.stage, Arc::clone(&pod.info)));
        // A pod leaves its node only by finishing: an event without a node is stale.
        if is_placed && info.node_name.is_none() && !info.finished {
            return;
        }
        let (class, is_same) = self.class_shown(info);
        // A restored backup may have reverted the deletion of the pod.
        let was_deleting = self.pods.get(uid).is_some_and(|pod| pod.info.deleting);
        let stays = self.preemptions.witness(info) || (was_deleting && !info.deleting);
        self.release_preemptors(now_ms);
        let is_decided = old.as_ref().is_some_and(|(stage, _)| stage.is_decided());
        let settled = match &info.node_name {
            _ if info.finished => Some((None, PodStage::Foreign)),
            Some(node) => Some((Some(Charge::new(Arc::clone(node), class)), PodStage::Assigned)),
            // The watch lags behind the decision: it does not know the node yet.
            None if is_decided && info.deleting => Some((None, PodStage::Foreign)),
            None => None,
        };
        let is_deferred = info.class.resize_deferred && !info.finished;
        let was_deferred = old.as_ref().is_some_and(|(stage, old)| stage.waits() && old.class.resize_deferred);
        let is_settled = settled.is_some() || is_decided;
        if let Some((charge, _)) = &settled {
            let known = self.pods.get(uid).and_then(|pod| pod.charge.as_ref());
            if charge.as_ref().zip(known).is_some_and(|(charge, known)| charge.node == known.node) {
                self.preparations.binding.remove(uid);
            }
            self.unreserve(now_ms, uid);
        }
        let changed = self.pods.apply(info, class, |pod| {
            if let Some((charge, stage)) = settled {
                if is_deferred && !was_deferred {
                    // The attempts at its placement do not count for the resize.
                    pod.attempts = Attempts::default();
                }
                if !is_deferred || !was_deferred {
                    pod.enter(stage);
                }
                pod.charge = charge;
            }
        });
        let WakeUps { ended, moved } = changed.map(|changed| self.follow(&changed)).unwrap_or_default();
        self.wake_for_moved(now_ms, moved);
        if !is_settled || is_deferred {
            let kept = old.map(|(_, old)| old).filter(|_| !is_deferred || was_deferred).filter(|old| {
                !went_back && !matters(old, info) && self.settings.group_of(old) == self.settings.group_of(info)
            });
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
            self.wake_where(now_ms, ClusterEvent::PodRemoved(&info.class), info.node_name.as_deref(), |_| true);
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
            self.shards().release_class(class);
        }
        (class, false)
    }

    /// A restored backup may have reverted any placed pod: the next watch event of each decides. It does not decide binds in flight and
    /// later decisions, which the watch may not include yet.
    pub(crate) fn unconfirm_all(&mut self) {
        self.preemptions.unconfirm_all();
        self.pods.doubt(|uid, pod| match pod.stage {
            PodStage::Assigned | PodStage::Foreign => true,
            PodStage::Assumed(_) => !self.binding.contains(uid),
            PodStage::Gated(_) | PodStage::Queued(_) => pod.is_placed(),
            PodStage::Preparing(_) | PodStage::Member { .. } => false,
        });
    }

    /// Whether a restored backup reverted the placement of a pod. The watch does not decide a bind in flight.
    fn believe(&mut self, now_ms: TimeMs, info: &PodInfo) -> bool {
        let profile = self.settings.profile_index(&info.scheduler_name);
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
            (PodStage::Gated(_) | PodStage::Queued(_), _) => is_unplaced && pod.is_placed(),
            (PodStage::Preparing(_) | PodStage::Member { .. }, _) => false,
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
        if !self.pods.contains(uid) {
            return;
        }
        self.preemptions.gone(uid);
        // Before the event of the deletion, which wakes them.
        self.release_preemptors(now_ms);
        self.unreserve(now_ms, uid);
        if let Some(changed) = self.pods.remove(uid) {
            self.follow_and_wake(now_ms, &changed);
        }
    }

    pub(crate) fn node_applied(&mut self, now_ms: TimeMs, info: &Arc<NodeInfo>) {
        if self.judge.cache().nodes().get(&info.name).is_some_and(|known| known.info.uid != info.uid) {
            self.node_deleted(now_ms, &info.name);
        }
        let (info, applied) = &self.judge.apply_node(info);
        match applied {
            NodeEvent::Added => {
                self.shards().assign_node(&info.name);
                self.wake_for(now_ms, ClusterEvent::NodeAdded(info));
            }
            NodeEvent::Updated(old) => {
                self.shards().send_to_holder(&info.name, info);
                self.look_at_those_on(now_ms, &info.name);
                self.wake_for(now_ms, ClusterEvent::NodeUpdated { old, new: info });
            }
            NodeEvent::Unchanged => {}
        }
    }

    /// Removes a node: from the cache, then from its holder. Pods in PreBind on it are checked, and parked pods wake by their hints. Charges
    /// on its name stay until their pods go, and nominations to it stay too (`Nominator`).
    pub(crate) fn node_deleted(&mut self, now_ms: TimeMs, name: &Arc<str>) {
        if let Some(node) = self.judge.remove_node(name) {
            self.shards().withdraw(node.id, node.worker);
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
        if self.judge.set_namespace(name, labels) {
            let event = ClusterEvent::NamespaceChanged(name);
            self.wake_for(now_ms, event);
            let fitting = self.gates.fitting(&self.pods, &self.judge);
            fitting.iter().for_each(|uid| self.admit_by(now_ms, uid, event.label()));
        }
    }

    pub(crate) fn selector_applied(&mut self, now_ms: TimeMs, object: &Selecting, selector: Option<&LabelSelector>) {
        if let Some([old, new]) = self.judge.set_selector(object, selector) {
            let distinctions = self.judge.replace_selector(&object.namespace, old.as_ref(), new.as_ref());
            self.distinguish(&distinctions);
            let distinctions = self.judge.replace_owner(object, old.is_some(), new.is_some());
            self.distinguish(&distinctions);
            self.wake_for(now_ms, ClusterEvent::SelectorChanged(&object.namespace));
        }
    }

    /// A budget changed its selector.
    pub(crate) fn budget_changed(
        &mut self,
        namespace: &Arc<str>,
        old: Option<&LabelSelector>,
        new: Option<&LabelSelector>,
    ) {
        let distinctions = self.judge.replace_selector(namespace, old, new);
        self.distinguish(&distinctions);
    }
}

/// Whether fields changed that determine the stage, apart from the class.
fn matters(old: &PodInfo, new: &PodInfo) -> bool {
    old.gates != new.gates
        || old.deleting != new.deleting
        || old.finished != new.finished
        || old.scheduler_name != new.scheduler_name
        || old.priority != new.priority
        || old.node_name != new.node_name
        || old.excess != new.excess
}
