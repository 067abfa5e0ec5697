//! Preemption for a pod group (PodGroupPostFilter).
//!
//! The machine removes every pod of lower priority than the group from all nodes, and tries the group. If it fits, the machine puts back as
//! many of the removed pods as possible, the most important first, while the group's pods keep their nodes. The runtime deletes the rest,
//! and the group's pods are nominated to their nodes. The group is tried again after its backoff. Pods of a group with disruption mode
//! PodGroup are removed together or not at all.
//!
//! All of this happens on the coordinator's own columns within one event; workers are not involved.
//!
//! Source: `PodGroupEvaluator.Preempt` and `selectVictimsOnDomain`.

use std::{collections::BTreeSet, sync::Arc};

use flotilla_framework::{
    plugins::{default_preemption, dynamic_resources},
    preemption::{PlacedPod, Unit, sort_by_importance, words},
};

use super::{
    claims::FreedClaims,
    scratch::Scratch,
    search::Course,
    tried::{Asks, GroupPreemption, GroupRefusal, MemberNominations, Seeker, Tried},
};
use crate::{
    action::Unreserve,
    judge::decision::Placement,
    pods::Pod,
    preempt::{Location, MAX_VICTIMS, NOW_NS},
    site::Site,
    subject::Uid,
};

const PREFIX: &str = "pod group preemption: ";

/// The result of the search for room.
pub(super) struct Room {
    pub(super) outcome: GroupPreemption,
    /// The pods to delete; `None`: none are searched for.
    pub(super) victims: Option<Vec<PlacedPod>>,
    /// Writes to claims that block members.
    pub(super) freed: Vec<Unreserve>,
}

impl Site<'_> {
    /// Searches for room, and for claims that block members.
    ///
    /// # Errors
    /// Extenders have to be called first.
    pub(super) fn find_room(&mut self, seeker: &Seeker<'_>, tried: &Tried) -> Result<Room, Asks> {
        let plugins =
            self.settings.profile(seeker.profile).map(|profile| profile.plugins.pod_group_post_filter.clone());
        let has = |name: &str| plugins.iter().flatten().any(|known| known == name);
        // DynamicResources frees no claim of a composite group, or of one with a topology constraint.
        let frees = !seeker.branch.is_composite() && !seeker.branch.has_constraint();
        // Uses the results of the attempt, before pods are removed for the search.
        let FreedClaims { writes: freed, result } = match frees && has(dynamic_resources::NAME) {
            true => self.claims_to_free(seeker, tried),
            false => FreedClaims::default(),
        };
        let (outcome, victims) = match result {
            Err(error) => (GroupPreemption::Failed(failed(dynamic_resources::NAME, &error)), None),
            Ok(Some((message, true))) => (GroupPreemption::None(message.to_owned()), None),
            Ok(claims) => self.room(seeker, claims.map(|(message, _)| message), has(default_preemption::NAME))?,
        };
        Ok(Room { outcome, victims, freed })
    }

    fn room(
        &mut self,
        seeker: &Seeker<'_>,
        claims: Option<&str>,
        may_preempt: bool,
    ) -> Result<(GroupPreemption, Option<Vec<PlacedPod>>), Asks> {
        if !may_preempt {
            return Ok((GroupPreemption::None(claims.unwrap_or_default().to_owned()), None));
        }
        let refused = |reason: &str| {
            let reason = format!("{PREFIX}{reason}");
            let message = claims.into_iter().chain([&*reason]).collect::<Vec<_>>().join(", ");
            Ok((GroupPreemption::None(message), None))
        };
        let pods_never_preempt = || self.members(seeker).any(|pod| pod.info.never_preempts);
        if seeker.object.never_preempts.unwrap_or_else(pods_never_preempt) {
            return refused(words::NEVER);
        }
        if self.preempts_on_nominated_nodes(seeker) {
            let nominations =
                self.members(seeker).map(|pod| (Arc::clone(&pod.info.uid), pod.nominated_node().cloned()));
            let message = format!("{PREFIX}ongoing preemption on nominated nodes");
            return Ok((GroupPreemption::Coming(message, nominations.collect()), None));
        }
        let mut units = self.units_of(self.pods.iter().map(|(uid, _)| uid), seeker.object.priority);
        sort_by_importance(&mut units, NOW_NS);
        if units.is_empty() {
            let message = format!("{PREFIX}No preemption victims found for incoming preemptor");
            return Ok((GroupPreemption::None(message), None));
        }
        let (victims, nominations) = match Scratch::new(self).search(seeker, units)? {
            Ok(found) => found,
            Err(GroupRefusal::Rejected(reason)) => return refused(&reason),
            Err(GroupRefusal::Failed(error)) => {
                let message = failed(default_preemption::NAME, &format!("{PREFIX}{error}"));
                return Ok((GroupPreemption::Failed(message), None));
            }
        };
        let under_way = self.shards.preemptions.victims();
        if under_way > 0 && under_way + victims.len() > MAX_VICTIMS {
            self.shards.status.preemptions_postponed += 1;
            return refused(&format!("{under_way} victims are already being deleted; tried again when they are gone"));
        }
        let count = victims.len();
        let message = format!("{PREFIX}found a placement for podgroup, preempting {count} victims");
        Ok((GroupPreemption::Coming(message, nominations), Some(victims)))
    }

    fn members(&self, seeker: &Seeker<'_>) -> impl Iterator<Item = &Pod> {
        seeker.members.iter().filter_map(|uid| self.pods.get(uid))
    }

    /// Whether victims are still terminating on a member's nominated node.
    fn preempts_on_nominated_nodes(&self, seeker: &Seeker<'_>) -> bool {
        let priority = seeker.object.priority;
        let is_going = |standing: &PlacedPod| {
            standing.is_preempted && self.pods.get(&standing.uid).is_some_and(|pod| self.rank_of(pod) < priority)
        };
        let nodes: BTreeSet<&Arc<str>> = self.members(seeker).filter_map(Pod::nominated_node).collect();
        nodes.into_iter().any(|node| self.pods_on(node).any(|standing| is_going(&standing)))
    }

    /// Whether the profile enables preemption for groups, and there is a potential victim.
    pub(super) fn may_make_room(&self, seeker: &Seeker<'_>) -> bool {
        let profile = self.settings.profile(seeker.profile);
        let is_on = |plugins: &[String]| plugins.iter().any(|known| known == default_preemption::NAME);
        let priority = seeker.object.priority;
        profile.is_some_and(|profile| is_on(&profile.plugins.pod_group_post_filter))
            && (self.residents.any_at_all_below(priority) || self.groups.any_below(priority))
    }
}

fn failed(plugin: &str, error: &str) -> String {
    format!("error in {plugin:?} PodGroupPostFilter plugins: {error}")
}

impl Scratch<'_, '_> {
    /// Removes the potential victims, tries the group, and puts back the pods that need not go. Returns the victims, and the nominations of
    /// members.
    fn search(
        mut self,
        seeker: &Seeker<'_>,
        units: Vec<Unit<Location>>,
    ) -> Result<Result<(Vec<PlacedPod>, MemberNominations), GroupRefusal>, Asks> {
        let units = units.into_iter().map(|unit| unit.map(|(_, charge)| self.remove(charge))).collect();
        let tried = self.nested().try_root(seeker, &mut Course::greedy(true))?;
        let tried = self.nested().search_after(seeker, true, tried)?;
        if let Err(refusal) = tried.outcome {
            return Ok(Err(refusal));
        }
        // As in the attempt, nominations of members without a node reserve nothing from the others.
        self.try_together(seeker.members);
        let placed: Vec<(&Uid, &Placement)> = tried.found().collect();
        let node = |(uid, placement): &(&Uid, &Placement)| (Arc::clone(uid), Some(Arc::clone(&placement.charge.node)));
        let nominations = placed.iter().map(node).collect();
        Ok(self.reprieve(units, &placed).map(|victims| (victims, nominations)))
    }
}
