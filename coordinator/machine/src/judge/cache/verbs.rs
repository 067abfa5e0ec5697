//! The verbs of [`Judge`] that change the cluster. Each keeps nodes, charges, classes, nominations and objects of plugins consistent.
//!
//! A verb returns its consequences for the machine: changes for workers, pods to sign again, reasons to wake pods. Class states do not change
//! here; a decision repairs them by the log of changes.

use std::sync::Arc;

use flotilla_framework::{
    class::{Class, ClassId, Owner},
    extension::objects::{Attachments, Changes, Object, ObjectCache, ObjectKey, Undone, Write, Written},
    labels::LabelSelector,
    node::{NodeId, NodeInfo},
    objects::Reservation,
    pod_group::{GroupApi, GroupKey, PodGroup},
    shard::{Change, RequestId},
    signature::{Distinction, Scope},
};
use flotilla_planted::planted;

use super::{Cache, Charge, Node, NodeEvent, What, past::Before};
use crate::{
    event::{Selecting, SelectingKind, WorkerId},
    judge::{Judge, nominator::Nominated},
    subject::Uid,
};

impl Judge {
    /// Adds or updates a node, completed by plugins' objects. The caller first removes a node with the same name and another UID.
    pub(crate) fn apply_node(&mut self, info: &Arc<NodeInfo>) -> (Arc<NodeInfo>, NodeEvent) {
        let info = self.cache.objects.complete(info);
        let event = self.cache.apply_node(&info);
        if matches!(event, NodeEvent::Added) {
            self.nominator.note_node(&info.name, self.cache.nodes().get(&info.name).map(|node| node.id));
        }
        self.forget_outdated();
        (info, event)
    }

    /// Removes a node. The charges on its name stay.
    pub(crate) fn remove_node(&mut self, name: &str) -> Option<Node> {
        let cache = &mut self.cache;
        let node = cache.nodes.swap_remove(name)?;
        self.nominator.note_node(name, None);
        cache.images.remove(&node.info);
        cache.names.swap_remove(&node.id);
        let slot = cache.snapshot.slot(node.id);
        let pods = slot.map_or_else(Vec::new, |slot| cache.snapshot.tenants(slot).to_vec());
        cache.snapshot.remove_node(node.id);
        cache.touch_node(node.id, What::Reshaped, Before::Gone(Arc::clone(&node.info), pods));
        cache.objects.forget_node(name);
        Some(node)
    }

    /// Completes a node again after a change of plugins' objects. `None`: its holder need not know, because workers get no devices.
    pub(crate) fn refresh_node(&mut self, name: &str) -> Option<Arc<NodeInfo>> {
        let known = Arc::clone(&self.cache.nodes.get(name)?.info);
        let info = self.cache.objects.complete(&known);
        if info.csi == known.csi {
            if info.devices != known.devices {
                self.cache.set_devices(&info);
            }
            return None;
        }
        let event = self.cache.apply_node(&info);
        self.forget_outdated();
        matches!(event, NodeEvent::Updated(_)).then_some(info)
    }

    /// Sets the holder of a node; `after` is the last request before. Returns the node's number and its previous holder.
    pub(crate) fn set_holder(
        &mut self,
        name: &str,
        worker: Option<WorkerId>,
        after: RequestId,
    ) -> Option<(NodeId, Option<WorkerId>)> {
        let node = self.cache.nodes.get_mut(name)?;
        let (id, old) = (node.id, std::mem::replace(&mut node.worker, worker));
        if old != worker {
            node.held_after = after;
            self.cache.note_holder(name);
        }
        Some((id, old))
    }

    /// Sets the labels of a namespace; `None` removes it. Returns whether that is a change.
    pub(crate) fn set_namespace(&mut self, name: &Arc<str>, labels: Option<&Vec<(Arc<str>, Arc<str>)>>) -> bool {
        self.cache.directory.set_namespace(name, labels)
    }

    /// Sets the selector of a service or controller; `None` removes it. Returns the previous and the current one if that is a change.
    pub(crate) fn set_selector(
        &mut self,
        object: &Selecting,
        selector: Option<&LabelSelector>,
    ) -> Option<[Option<LabelSelector>; 2]> {
        let directory = &mut self.cache.directory;
        let old = directory.selector(object);
        directory.set_selector(object, selector).then(|| [old, directory.selector(object)])
    }

    /// Replaces a selector in play that belongs to no pod. Returns the new distinctions between pods.
    pub(crate) fn replace_selector(
        &mut self,
        namespace: &Arc<str>,
        old: Option<&LabelSelector>,
        new: Option<&LabelSelector>,
    ) -> Vec<Distinction> {
        let (mut distinctions, scope, in_play) = (Vec::new(), Scope::Only(namespace), &mut self.cache.in_play);
        // The status of a PodDisruptionBudget changes with each of its pods.
        if old == new {
            return distinctions;
        }
        new.into_iter().for_each(|selector| in_play.enter(scope, selector, &mut distinctions));
        old.into_iter().for_each(|selector| in_play.leave(scope, selector));
        distinctions
    }

    /// As [`Self::replace_selector`], for a controller that is known from now on, or no longer.
    pub(crate) fn replace_owner(&mut self, object: &Selecting, was_known: bool, is_known: bool) -> Vec<Distinction> {
        let (mut distinctions, in_play) = (Vec::new(), &mut self.cache.in_play);
        if let SelectingKind::Controller(kind) = object.kind {
            let owner = Owner { kind, name: Arc::clone(&object.name) };
            match (was_known, is_known) {
                (false, true) => in_play.enter_owner(&object.namespace, &owner, &mut distinctions),
                (true, false) => in_play.leave_owner(&object.namespace, &owner),
                _ => {}
            }
        }
        distinctions
    }

    /// The class of a pod with these fields, with a new user. Its selectors come into play: with their new distinctions between pods.
    pub(crate) fn acquire_class(&mut self, whole: &Arc<Class>, is_placed: bool) -> (ClassId, Vec<Distinction>) {
        let mut distinctions = Vec::new();
        (self.cache.acquire_signed(whole, is_placed, &mut distinctions), distinctions)
    }

    /// Removes a user of a class. Returns the classes that are forgotten, which are the ones without users for longest.
    pub(crate) fn release_class(&mut self, class: ClassId) -> Vec<ClassId> {
        self.cache.classes.release(class);
        let mut gone = Vec::new();
        while let Some(class) = self.cache.take_forgotten() {
            self.states.close_class(class);
            self.forget_panics_of(class);
            gone.push(class);
        }
        gone
    }

    pub(crate) fn apply_object(&mut self, object: &Object) -> Option<Changes> {
        self.cache.objects.apply(object)
    }

    pub(crate) fn delete_object(&mut self, key: &ObjectKey) -> Option<Changes> {
        self.cache.objects.delete(key)
    }

    /// A pod group changed; `None`: it is gone.
    pub(crate) fn set_pod_group(&mut self, key: &GroupKey, group: Option<&Arc<PodGroup>>) {
        if key.api == GroupApi::Kubernetes {
            self.cache.objects.set_pod_group(key, group);
        }
    }

    /// A list of ResourceClaims begins, or is complete at a version.
    pub(crate) fn claims_listed(&mut self, version: Option<&str>) -> Changes {
        self.cache.objects.claims_listed(version)
    }

    /// The charge of a placement with its class, which has to be released. The selectors of the class are in play, because the pod has
    /// them too.
    pub(crate) fn acquire_charge(&mut self, charge: &Charge) -> Charge {
        let class = match &charge.with_devices {
            Some(whole) => self.acquire_class(whole, false).0,
            None => {
                self.cache.classes.retain(charge.class);
                charge.class
            }
        };
        Charge { class, ..charge.clone() }
    }

    /// Charges a pod to a node, permanently or for an attempt: in the Snapshot and in the plugins' objects. No other function charges a
    /// pod. Returns the changed attachments, and the change for the node's holder; an attempt does not send it.
    ///
    /// Source: `Snapshot.AssumePod` and `Snapshot.AddPod`.
    pub(crate) fn charge(&mut self, charge: &Charge) -> (Attachments, Option<(WorkerId, Change)>) {
        let attachments = self.enter(charge.class, |kept, id, class| kept.pod_added(id, class));
        (attachments, self.cache.charge(&charge.node, charge.class))
    }

    /// Removes a pod from its node. The caller releases the class. Returns the change for the node's holder.
    ///
    /// Source: `Snapshot.ForgetPod` and `Snapshot.RemovePod`.
    pub(crate) fn discharge(&mut self, charge: &Charge) -> Option<(WorkerId, Change)> {
        let change = self.cache.discharge(&charge.node, charge.class);
        if let Some(class) = self.cache.classes.get(charge.class).filter(|class| class.uses_objects()) {
            self.cache.objects.leave(|kept| kept.pod_removed(charge.class, class));
        }
        change
    }

    /// Sets the nomination of a pod: filters count its class on the node in their first pass. Returns the previous nomination and the
    /// changed attachments.
    pub(crate) fn nominate(&mut self, uid: &Uid, now: Option<Nominated>) -> (Option<Nominated>, Attachments) {
        let class = now.as_ref().map(|now| now.class.0);
        let before = self.nominator.set(uid, now, &self.cache);
        let enter = |class| self.enter(class, |kept, id, class| kept.pod_nominated(id, class));
        let attachments = class.map(enter).unwrap_or_default();
        if let Some(Nominated { class: (class, _), .. }) = before {
            self.cache.objects.leave(|kept| kept.nomination_ended(class));
        }
        (before, attachments)
    }

    /// Removes a nomination temporarily, while the pod is charged.
    pub(crate) fn withhold_nomination(&mut self, uid: &Uid) -> Option<Nominated> {
        self.nominator.set(uid, None, &self.cache)
    }

    /// Reverts [`Self::withhold_nomination`].
    pub(crate) fn give_back_nomination(&mut self, uid: &Uid, nominated: Nominated) {
        self.nominator.set(uid, Some(nominated), &self.cache);
    }

    /// Sets the members of the group that is being tried: their nominations reserve nothing from each other.
    pub(crate) fn try_together(&mut self, members: &[Uid]) {
        self.nominator.try_together(members);
    }

    /// Sets the volume attachments that classes add to their nodes. Returns those that changed.
    pub(crate) fn attach(&mut self, mut attachments: Attachments) -> Attachments {
        attachments.retain(|(class, attachments)| self.cache.snapshot.attachments(*class) != &**attachments);
        attachments.iter().for_each(|(class, attachments)| self.cache.set_attachments(*class, attachments));
        attachments
    }

    fn enter(
        &mut self,
        id: ClassId,
        enter: fn(&mut dyn ObjectCache, ClassId, &Arc<Class>) -> Attachments,
    ) -> Attachments {
        let Some(class) = self.cache.classes.get(id).filter(|class| class.uses_objects()).map(Arc::clone) else {
            return Attachments::new();
        };
        let attachments = self.cache.objects.enter(|kept| enter(kept, id, &class));
        self.attach(attachments)
    }

    pub(in crate::judge) fn reserve(&mut self, reservations: &[Reservation]) {
        if planted("reserves-nothing") {
            return;
        }
        for reservation in reservations {
            let nodes = self.cache.objects.reserve(reservation);
            nodes.iter().for_each(|node| self.cache.refresh_devices(node));
        }
    }

    /// Assumes the plans of a pod during an attempt at its group.
    pub(crate) fn reserve_tentatively(&mut self, reservations: &[Reservation]) {
        for reservation in reservations {
            let nodes = self.cache.objects.reserve_tentatively(reservation);
            nodes.iter().for_each(|node| self.cache.refresh_devices(node));
        }
    }

    /// Reverts the plans of a pod without writes.
    pub(crate) fn unreserve(&mut self, reservations: &[Reservation]) {
        let none = Written::new();
        reservations.iter().rev().for_each(|reservation| drop(self.unreserve_one(reservation, &none)));
    }

    /// The maximum wait of a PreBind has passed. Returns the error.
    pub(crate) fn time_out(&mut self, reservation: &Reservation) -> String {
        self.cache.objects.time_out(reservation)
    }

    /// Reverts a plan except for written objects. Returns the writes of Unreserve.
    pub(crate) fn unreserve_one(&mut self, reservation: &Reservation, written: &Written) -> Vec<Write> {
        let Undone { writes, nodes } = self.cache.objects.unreserve(reservation, written);
        nodes.iter().for_each(|node| self.cache.refresh_devices(node));
        writes
    }
}

impl Cache {
    fn refresh_devices(&mut self, name: &Arc<str>) {
        let Some(info) = self.nodes.get(name).map(|node| Arc::clone(&node.info)) else { return };
        let completed = self.objects.complete(&info);
        if completed.devices != info.devices {
            self.set_devices(&completed);
        }
    }
}
