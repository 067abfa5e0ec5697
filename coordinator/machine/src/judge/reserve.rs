//! Reserve and Unreserve of plugins with objects.

use std::sync::Arc;

use flotilla_framework::{
    extension::objects::{Undone, Write, Written},
    objects::Reservation,
};

use super::{Judge, decision::Attempt};

/// Maximum number of pods in PreBind. They do not count as binds in flight, because a slow provisioner would block all other pods for ten
/// minutes. At some 1 KB each they take 16 MiB. If a provisioner needs a minute per volume, all together allow 273 pods a second. A pod
/// beyond the limit is retried after its backoff. Pods that become ready at once are binds in flight: at most `max_binds_in_flight` and
/// this many.
pub(crate) const MAX_PREPARATIONS: usize = 16_384;

impl Judge {
    /// Plans Reserve for a pod on a node, without assuming anything.
    ///
    /// # Errors
    /// Reserve of a plugin fails, or too many pods are in PreBind.
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

    pub(crate) fn reserve(&mut self, reservations: &[Reservation]) {
        for reservation in reservations {
            let nodes = self.cache.objects.reserve(reservation);
            nodes.iter().for_each(|node| self.refresh_devices(node));
        }
    }

    /// Assumes the plans of a pod during an attempt at its group.
    pub(crate) fn reserve_tentatively(&mut self, reservations: &[Reservation]) {
        for reservation in reservations {
            let nodes = self.cache.objects.reserve_tentatively(reservation);
            nodes.iter().for_each(|node| self.refresh_devices(node));
        }
    }

    /// Reverts the plans of a pod without writes.
    pub(crate) fn unreserve(&mut self, reservations: &[Reservation]) {
        let none = Written::new();
        reservations.iter().rev().for_each(|reservation| drop(self.unreserve_one(reservation, &none)));
    }

    /// Reverts a plan except for written objects. Returns the writes of Unreserve.
    pub(crate) fn unreserve_one(&mut self, reservation: &Reservation, written: &Written) -> Vec<Write> {
        let Undone { writes, nodes } = self.cache.objects.unreserve(reservation, written);
        nodes.iter().for_each(|node| self.refresh_devices(node));
        writes
    }

    pub(crate) fn refresh_devices(&mut self, name: &Arc<str>) {
        let Some(info) = self.cache.nodes.get(name).map(|node| Arc::clone(&node.info)) else { return };
        let completed = self.cache.objects.complete(&info);
        if completed.devices != info.devices {
            self.cache.set_devices(&completed);
        }
    }
}
