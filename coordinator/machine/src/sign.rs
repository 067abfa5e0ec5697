//! Classes of pods: assigns them by the fields that selectors in play read, and again when a selector comes into play.

use std::sync::Arc;

use flotilla_framework::{
    class::{Class, ClassId},
    extension::PodField,
    signature::Distinction,
};
use flotilla_planted::{planted, spend};

use crate::{machine::Machine, pods::Pod, subject::Uid};

/// Work of a label of a signed pod and of a new distinction, in simulations: units of some 10 ns.
const LABEL: u64 = 10;
const DISTINCTION: u64 = 150;

impl Machine {
    /// The number of label keys that selectors read, counted per namespace.
    #[must_use]
    pub fn label_keys_in_play(&self) -> usize {
        self.judge.cache().in_play().len()
    }

    /// The class of a pod with these fields; its selectors come into play. The caller has to release the class.
    pub(crate) fn class_of(&mut self, whole: &Arc<Class>, is_placed: bool) -> ClassId {
        let (class, distinctions) = self.judge.acquire_class(whole, is_placed);
        self.distinguish(&distinctions);
        class
    }

    /// Adds these metadata fields to all pods, and assigns their classes again.
    pub(crate) fn show(&mut self, fields: Vec<PodField>) {
        if !self.settings.set_shown(fields) {
            return;
        }
        for uid in self.pods.uids(|_| true) {
            let Some(pod) = self.pods.get(&uid) else { continue };
            let info = pod.info.showing(self.settings.shown());
            self.edit(self.tally.now_ms, &uid, |pod| pod.info = info);
            self.renew_signature(&uid);
        }
    }

    /// Assigns classes again to the pods that new selectors distinguish.
    pub(crate) fn distinguish(&mut self, distinctions: &[Distinction]) {
        if distinctions.is_empty() {
            return;
        }
        spend(DISTINCTION * distinctions.len() as u64);
        for uid in self.unread.distinguished_by(distinctions) {
            let times = if planted("signs-for-each-requirement") { distinctions.len() } else { 1 };
            (0..times).for_each(|_| self.renew_signature(&uid));
        }
    }

    /// Updates the class of a pod without a node after a change of its claims.
    pub(crate) fn sign_claiming(&mut self, uid: &Uid) {
        let is_claiming = |pod: &Pod| pod.info.class.devices.is_some() && pod.charge.is_none();
        if self.pods.get(uid).is_some_and(is_claiming) {
            self.renew_signature(uid);
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
        let (new, _) = self.judge.acquire_class(&whole, is_placed);
        if new == old {
            self.shards().release_class(new);
            return;
        }
        let with_devices = pod.charge.as_ref().and_then(|charge| charge.with_devices.clone());
        let charged = with_devices.map(|whole| self.judge.acquire_class(&whole, is_placed).0);
        self.edit(self.tally.now_ms, uid, |pod| {
            pod.class = new;
            pod.charge.iter_mut().for_each(|charge| charge.class = charged.unwrap_or(new));
            if pod.stage.is_queued() {
                pod.attempts.from = None;
            }
        });
        charged.into_iter().for_each(|class| self.shards().release_class(class));
    }
}
