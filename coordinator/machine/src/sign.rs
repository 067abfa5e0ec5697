//! Pods get their classes: by what the selectors in play can tell of them, and anew when a selector comes into play.
//!
//! Knows: which pods have to change their class, and what of the machine's state names the class of a pod. Must not know:
//! what a selector is, or whose it is.

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
    judge::cache::Charge,
    machine::Machine,
    pods::Stage,
    subject::Uid,
};

/// What a label of a pod that is signed counts for in simulations, and something new that a selector asks for: units of some 10 ns.
const LABEL: u64 = 10;
const DISTINCTION: u64 = 150;

impl Machine {
    /// How many keys of labels some selector reads now, in each namespace.
    #[must_use]
    pub fn label_keys_in_play(&self) -> usize {
        self.judge.cache().in_play.len()
    }

    /// The number of the class that a pod of these fields is of now; the selectors that it brings with it come into play.
    /// Counts one more that needs the class.
    pub(crate) fn class_of(&mut self, whole: &Arc<Class>, is_placed: bool) -> ClassId {
        let mut distinctions = Vec::new();
        let class = self.judge.cache_mut().acquire_signed(whole, is_placed, &mut distinctions);
        self.tell_apart(&distinctions);
        class
    }

    /// A selector that is no pod's comes into play in the place of another. One that stays costs a comparison: the status of a
    /// PodDisruptionBudget changes with each of its pods.
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
        self.tell_apart(&distinctions);
    }

    /// A controller is known, or is not any more.
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
        self.tell_apart(&distinctions);
    }

    /// All pods show these fields from now on, and get the classes that they are of then.
    pub(crate) fn show(&mut self, fields: Vec<PodField>) {
        if self.shown == fields {
            return;
        }
        self.shown = fields;
        let uids: Vec<Uid> = self.pods.keys().cloned().collect();
        for uid in uids {
            if let Some(pod) = self.pods.get_mut(&uid) {
                pod.info = pod.info.showing(&self.shown);
            }
            self.sign_anew(&uid);
        }
    }

    /// Notes what of a pod its class does not have.
    pub(crate) fn note_unread(&mut self, uid: &Uid) {
        let Some(pod) = self.pods.get(uid) else { return };
        if let Some(class) = self.judge.cache().classes.get(pod.class) {
            self.unread.insert(uid, &pod.info.class, class);
        }
    }

    /// Forgets what was noted of a pod; it has to have the class and the fields that it had then.
    pub(crate) fn forget_unread(&mut self, uid: &Uid) {
        let Some(pod) = self.pods.get(uid) else { return };
        if let Some(class) = self.judge.cache().classes.get(pod.class) {
            self.unread.remove(uid, &pod.info.class, class);
        }
    }

    /// Gives the pods another class that can be told apart now and could not before.
    fn tell_apart(&mut self, distinctions: &[Distinction]) {
        if distinctions.is_empty() {
            return;
        }
        spend(DISTINCTION * distinctions.len() as u64);
        for uid in self.unread.told_apart_by(distinctions) {
            let times = if planted("signs-for-each-requirement") { distinctions.len() } else { 1 };
            (0..times).for_each(|_| self.sign_anew(&uid));
        }
    }

    /// Gives a pod the class that it is of now. It keeps its place wherever it is, and no pod is woken: nothing has
    /// changed but how it is written down.
    pub(crate) fn sign_anew(&mut self, uid: &Uid) {
        let Some(pod) = self.pods.get(uid) else { return };
        self.status.pods_signed_again += 1;
        let (old, whole) = (pod.class, Arc::clone(&pod.info.class));
        spend(LABEL * (1 + whole.labels.len() as u64));
        // Its selectors are in play already.
        let is_placed = pod.info.node_name.is_some();
        let new = self.judge.cache_mut().acquire_signed(&whole, is_placed, &mut Vec::new());
        if new == old {
            self.release_class(new);
            return;
        }
        self.forget_unread(uid);
        let Some(pod) = self.pods.get_mut(uid) else { return };
        pod.class = new;
        let (stage, charge) = (pod.stage, pod.charge.clone());
        if let Some(charge) = charge {
            let other = Charge { node: Arc::clone(&charge.node), class: new };
            self.charge(&other);
            self.discharge(&charge);
            if let Some(pod) = self.pods.get_mut(uid) {
                pod.charge = Some(other);
            }
        }
        self.note_unread(uid);
        match stage {
            Stage::Queued(_) => {
                if let Some(pod) = self.pods.get_mut(uid) {
                    pod.attempt_from = None;
                }
                if let Some(entity_info) = self.entity_info(uid) {
                    self.queue.update_entity(uid, entity_info);
                }
            }
            Stage::Gated(profile) => self.gates.reclass(uid, (profile, new)),
            _ => {}
        }
        self.nominate(uid);
        self.release_class(old);
    }
}
