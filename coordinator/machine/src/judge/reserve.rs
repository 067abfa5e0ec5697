//! Reserve: what the plugins that keep objects have planned for a pod, assumed and taken back.
//!
//! Knows: that there may be too many pods on their way. Must not know: what a plan says, what is written of it, or when it
//! is taken back.

use std::sync::Arc;

use flotilla_framework::{
    extension::objects::{Undone, Write, Written},
    objects::Reservation,
};

use super::{Judge, decision::Attempt};

/// How many pods may be on this way at once. They do not count among the binds under way, or ten minutes of a
/// provisioner's silence would keep all other pods from being decided. At some 1 KB each (the binding, the plans, what
/// was written) they take 16 MiB; a provisioner that needs a minute for each volume and has all of them under way at
/// once makes 273 pods a second. A pod more is tried again after its backoff. Those that get ready at once are binds
/// under way then: at most `max_binds_in_flight` and this many.
pub(crate) const MAX_PREPARATIONS: usize = 16_384;

impl Judge {
    /// What Reserve has to do for a pod on a node. Nothing is assumed yet.
    ///
    /// # Errors
    /// Why a plugin's Reserve fails, or why the pod cannot be on its way yet.
    pub(super) fn plan(&self, attempt: &Attempt<'_>, node: &str) -> Result<Vec<Reservation>, String> {
        // Most pods have nothing to reserve.
        if !attempt.pod.class.uses_objects() {
            return Ok(Vec::new());
        }
        let (Some(profile), Some(node)) = (self.profile(attempt.subject.0), self.cache.nodes.get(node)) else {
            return Ok(Vec::new());
        };
        let reservations = self.cache.objects.plan(attempt.pod, &node.info, profile)?;
        let awaited = reservations.first().and_then(|first| self.cache.objects.awaited(first));
        match awaited.filter(|_| !attempt.may_prepare) {
            None => Ok(reservations),
            Some(awaited) => Err(format!(
                "{MAX_PREPARATIONS} pods wait for {}; this one is tried again when there is room, see {}",
                awaited.what, awaited.see
            )),
        }
    }

    /// Assumes what was planned for a pod.
    pub(crate) fn reserve(&mut self, reservations: &[Reservation]) {
        for reservation in reservations {
            let nodes = self.cache.objects.reserve(reservation);
            nodes.iter().for_each(|node| self.refresh_devices(node));
        }
    }

    /// Assumes what was planned for a pod for the length of an attempt at its group.
    pub(crate) fn reserve_tentatively(&mut self, reservations: &[Reservation]) {
        for reservation in reservations {
            let nodes = self.cache.objects.reserve_tentatively(reservation);
            nodes.iter().for_each(|node| self.refresh_devices(node));
        }
    }

    /// Takes back what was assumed for a pod of which nothing is written.
    pub(crate) fn unreserve(&mut self, reservations: &[Reservation]) {
        let none = Written::new();
        reservations.iter().rev().for_each(|reservation| drop(self.unreserve_one(reservation, &none)));
    }

    /// Takes back what was assumed, but for what was written. Gives what has to be written because of it.
    pub(crate) fn unreserve_one(&mut self, reservation: &Reservation, written: &Written) -> Vec<Write> {
        let Undone { writes, nodes } = self.cache.objects.unreserve(reservation, written);
        nodes.iter().for_each(|node| self.refresh_devices(node));
        writes
    }

    /// Other devices of a node are allocated than before, or it can reach others.
    pub(crate) fn refresh_devices(&mut self, name: &Arc<str>) {
        let Some(info) = self.cache.nodes.get(name).map(|node| Arc::clone(&node.info)) else { return };
        let completed = self.cache.objects.complete(&info);
        if completed.devices != info.devices {
            self.cache.set_devices(&completed);
        }
    }
}
