//! Reserve and the beginning of PreBind, for pods with objects of plugins.

use std::collections::BTreeSet;

use flotilla_framework::{
    extension::objects::{Write, Written},
    objects::Reservation,
};

use super::{Judge, decision::Attempt};
use crate::{preparations::Step, subject::ProfileIndex};

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
        let (Some(profile), Some(node)) = (self.profile(attempt.subject.0), self.cache.nodes().get(node)) else {
            return Ok(Vec::new());
        };
        let reservations = self.cache.objects().plan(attempt.pod, &node.info, profile)?;
        let awaited = reservations.first().and_then(|first| self.cache.objects().awaited(first));
        match awaited.filter(|_| !attempt.may_prepare) {
            None => Ok(reservations),
            Some(awaited) => Err(format!(
                "{MAX_PREPARATIONS} pods wait for {}; this one is tried again when there is room, see {}",
                awaited.what, awaited.see
            )),
        }
    }

    /// Assumes the plans of a pod. Returns the steps of its PreBind, and the writes, each with the index of its step.
    pub(crate) fn begin_pre_bind(
        &mut self,
        profile: ProfileIndex,
        reservations: Vec<Reservation>,
    ) -> (Vec<Step>, Vec<(usize, Write)>) {
        let mut all = Vec::new();
        let mut timeouts = Vec::with_capacity(reservations.len());
        for (place, reservation) in reservations.iter().enumerate() {
            let profile = self.profile(profile);
            let pre_bind = profile.and_then(|profile| self.cache.objects().pre_bind(reservation, profile));
            let (writes, timeout_ms) = pre_bind.map_or((Vec::new(), None), |(writes, ms)| (writes, Some(ms)));
            all.extend(writes.into_iter().map(|write| (place, write)));
            timeouts.push(timeout_ms);
        }
        self.reserve(&reservations);
        let step = |(reservation, timeout_ms)| Step {
            reservation,
            written: Written::new(),
            doubted: BTreeSet::new(),
            timeout_ms,
        };
        (reservations.into_iter().zip(timeouts).map(step).collect(), all)
    }
}
