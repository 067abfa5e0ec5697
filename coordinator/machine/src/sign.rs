//! Classes of pods: assigns them by the fields that selectors in play read, and again when a selector comes into play.

use std::sync::Arc;

use flotilla_framework::{
    class::{Class, ClassId, Owner},
    extension::PodField,
    labels::LabelSelector,
    signature::{Distinction, Scope},
};
use flotilla_planted::{planted, spend};

use crate::{
    event::{Selecting, SelectingKind},
    machine::Machine,
    subject::Uid,
};

/// Work of a label of a signed pod and of a new distinction, in simulations: units of some 10 ns.
const LABEL: u64 = 10;
const DISTINCTION: u64 = 150;

impl Machine {
    /// The number of label keys that selectors read, counted per namespace.
    #[must_use]
    pub fn label_keys_in_play(&self) -> usize {
        self.judge.cache().in_play.len()
    }

    /// The class of a pod with these fields; its selectors come into play. The caller has to release the class.
    pub(crate) fn class_of(&mut self, whole: &Arc<Class>, is_placed: bool) -> ClassId {
        let mut distinctions = Vec::new();
        let class = self.judge.cache_mut().acquire_signed(whole, is_placed, &mut distinctions);
        self.distinguish(&distinctions);
        class
    }

    /// Replaces a selector that belongs to no pod. An unchanged one costs a comparison: the status of a PodDisruptionBudget changes with
    /// each of its pods.
    pub(crate) fn replace_selector(
        &mut self,
        namespace: &Arc<str>,
        old: Option<&LabelSelector>,
        new: Option<&LabelSelector>,
    ) {
        if old == new {
            return;
        }
        let mut distinctions = Vec::new();
        let in_play = &mut self.judge.cache_mut().in_play;
        let scope = Scope::Only(namespace);
        new.into_iter().for_each(|selector| in_play.enter(scope, selector, &mut distinctions));
        old.into_iter().for_each(|selector| in_play.leave(scope, selector));
        self.distinguish(&distinctions);
    }

    pub(crate) fn replace_owner(&mut self, object: &Selecting, was_known: bool, is_known: bool) {
        let SelectingKind::Controller(kind) = object.kind else { return };
        let owner = Owner { kind, name: Arc::clone(&object.name) };
        let mut distinctions = Vec::new();
        let in_play = &mut self.judge.cache_mut().in_play;
        match (was_known, is_known) {
            (false, true) => in_play.enter_owner(&object.namespace, &owner, &mut distinctions),
            (true, false) => in_play.leave_owner(&object.namespace, &owner),
            _ => {}
        }
        self.distinguish(&distinctions);
    }

    /// Adds these metadata fields to all pods, and assigns their classes again.
    pub(crate) fn show(&mut self, fields: Vec<PodField>) {
        if self.shown == fields {
            return;
        }
        self.shown = fields;
        for uid in self.pods.uids(|_| true) {
            let Some(pod) = self.pods.get(&uid) else { continue };
            let info = pod.info.showing(&self.shown);
            self.edit(self.tally.now_ms, &uid, |pod| pod.info = info);
            self.renew_signature(&uid);
        }
    }

    /// Assigns classes again to the pods that new selectors distinguish.
    fn distinguish(&mut self, distinctions: &[Distinction]) {
        if distinctions.is_empty() {
            return;
        }
        spend(DISTINCTION * distinctions.len() as u64);
        for uid in self.unread.distinguished_by(distinctions) {
            let times = if planted("signs-for-each-requirement") { distinctions.len() } else { 1 };
            (0..times).for_each(|_| self.renew_signature(&uid));
        }
    }

    /// Assigns the current class to a pod. The pod keeps its place and does not wake, because only the representation changed.
    pub(crate) fn renew_signature(&mut self, uid: &Uid) {
        let Some(pod) = self.pods.get(uid) else { return };
        self.status.pods_signed_again += 1;
        let (old, whole) = (pod.class, Arc::clone(&pod.info.class));
        spend(LABEL * (1 + whole.labels.len() as u64));
        // Its selectors are already in play.
        let is_placed = pod.info.node_name.is_some();
        let new = self.judge.cache_mut().acquire_signed(&whole, is_placed, &mut Vec::new());
        if new == old {
            self.release_class(new);
            return;
        }
        self.edit(self.tally.now_ms, uid, |pod| {
            pod.class = new;
            pod.charge.iter_mut().for_each(|charge| charge.class = new);
            if pod.stage.is_queued() {
                pod.attempts.from = None;
            }
        });
    }
}
