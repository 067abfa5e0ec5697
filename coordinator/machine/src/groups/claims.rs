//! Claims that DynamicResources frees for a pod group that is not placed (PodGroupPostFilter).
//!
//! Source: `PodGroupPostFilter` of the plugin.

use std::collections::BTreeSet;

use flotilla_framework::{
    extension::objects::{ObjectKey, TriedMember},
    plugins::dynamic_resources,
};

use super::tried::{Seeker, Tried};
use crate::{
    action::{PodName, Unreserve},
    site::Site,
    subject::Uid,
};

/// The message about a group, even without claims.
const COMPLETED: &str = "deallocation and deletion of ResourceClaims completed";

/// The result of PodGroupPostFilter: the message, and whether no further plugin runs.
type Freed = (&'static str, bool);

/// The writes of PodGroupPostFilter, and its result; `None`: it did not run.
pub(super) struct FreedClaims {
    pub(super) writes: Vec<Unreserve>,
    pub(super) result: Result<Option<Freed>, String>,
}

impl Default for FreedClaims {
    fn default() -> Self {
        Self { writes: Vec::new(), result: Ok(None) }
    }
}

impl Site<'_> {
    /// The claims to free for the tried members. If a member blocks without such a claim, and no pod of the group has a node, a claim of the
    /// group may be freed too.
    pub(super) fn claims_to_free(&self, seeker: &Seeker<'_>, tried: &Tried) -> FreedClaims {
        let (mut writes, mut members, mut is_any_blocked) = (Vec::new(), Vec::new(), false);
        for uid in tried.decisions().map(|(uid, _)| uid) {
            let Some(pod) = self.pods.get(uid) else { continue };
            let subject = (seeker.profile, pod.class);
            if self.shards.judge.fails_without_state(subject) {
                continue;
            }
            let freed = self.claim_to_free(uid, subject);
            is_any_blocked |= freed.is_none();
            writes.extend(freed.map(|(unreserve, _)| unreserve));
            members.push((&*pod.info, self.unavailable_claims(subject)));
        }
        let result = match is_any_blocked && seeker.branch.scheduled.is_empty() {
            true => self.free_for_group(seeker, &members, &mut writes),
            false => Ok(None),
        };
        FreedClaims { writes, result: result.map(|freed| freed.or(Some((COMPLETED, false)))) }
    }

    fn free_for_group(
        &self,
        seeker: &Seeker<'_>,
        members: &[TriedMember<'_>],
        writes: &mut Vec<Unreserve>,
    ) -> Result<Option<Freed>, String> {
        let plugin = dynamic_resources::NAME;
        let keys = writes.iter().flat_map(|unreserve| &unreserve.writes).map(|write| write.object.clone());
        let freed: BTreeSet<ObjectKey> = keys.collect();
        let objects = self.shards.judge.cache().objects();
        let freed = objects.group_post_filter(plugin, seeker.object, members, &freed)?;
        let first = seeker.members.first().and_then(|uid: &Uid| self.pods.get(uid));
        let Some((freed, pod)) = freed.zip(first.map(|pod| -> PodName { pod.name() })) else { return Ok(None) };
        writes.push(Unreserve { pod, plugin, writes: vec![freed.write] });
        Ok(Some((freed.message, freed.is_last)))
    }
}
