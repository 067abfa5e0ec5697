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
    class::PodInfo,
    plugins::{default_preemption, dynamic_resources},
    pod_group::{GroupApi, PodGroup},
    preemption::{DryRun, PlacedPod, Unit, is_local, reprieve, sort_by_importance, words},
};

use super::{
    scratch::{Removed, Scratch},
    tried::{Asks, GroupPreemption, GroupRefusal, MemberNominations, Seeker},
};
use crate::{
    action::{PodName, Unreserve},
    event::TimeMs,
    judge::decision::Placement,
    machine::Machine,
    pods::Pod,
    preempt::{Location, MAX_VICTIMS, NOW_NS, Preemptor},
    subject::{GroupKey, Uid},
};

const PREFIX: &str = "pod group preemption: ";
/// DynamicResources' message about a group, even without claims.
const CLAIMS: &str = "deallocation and deletion of ResourceClaims completed";
/// Maximum number of nodes to recount during the search. Only groups with affinities or spread constraints recount; at some 20 ns per node
/// the limit is a second.
const MAX_COUNTED: usize = 50_000_000;

impl Machine {
    /// Searches for room, frees claims that block members, and preempts the victims.
    ///
    /// # Errors
    /// Extenders have to be called first.
    pub(super) fn make_room(&mut self, now_ms: TimeMs, seeker: &Seeker<'_>) -> Result<GroupPreemption, Asks> {
        let plugins = self.profile(seeker.profile).map(|profile| profile.plugins.pod_group_post_filter.clone());
        let has = |name: &str| plugins.iter().flatten().any(|known| known == name);
        let claims = has(dynamic_resources::NAME).then_some(CLAIMS);
        // Uses the results of the attempt, before pods are removed for the search.
        let freed = if claims.is_some() { self.claims_to_free(seeker) } else { Vec::new() };
        let room = self.room(now_ms, seeker, claims, has(default_preemption::NAME))?;
        freed.into_iter().for_each(|unreserve| self.free(unreserve));
        Ok(room)
    }

    fn claims_to_free(&self, seeker: &Seeker<'_>) -> Vec<Unreserve> {
        let to_free = |uid: &Uid| {
            let class = self.pods.get(uid)?.class;
            Some(self.claim_to_free(uid, (seeker.profile, class))?.0)
        };
        seeker.members.iter().filter_map(to_free).collect()
    }

    fn room(
        &mut self,
        now_ms: TimeMs,
        seeker: &Seeker<'_>,
        claims: Option<&str>,
        may_preempt: bool,
    ) -> Result<GroupPreemption, Asks> {
        if !may_preempt {
            return Ok(GroupPreemption::None(claims.unwrap_or_default().to_owned()));
        }
        let refused = |reason: &str| {
            let reason = format!("{PREFIX}{reason}");
            Ok(GroupPreemption::None(claims.into_iter().chain([&*reason]).collect::<Vec<_>>().join(", ")))
        };
        let pods_never_preempt = || self.members(seeker).any(|pod| pod.info.never_preempts);
        if seeker.object.never_preempts.unwrap_or_else(pods_never_preempt) {
            return refused(words::NEVER);
        }
        if self.preempts_on_nominated_nodes(seeker) {
            let nominations =
                self.members(seeker).map(|pod| (Arc::clone(&pod.info.uid), pod.nominated_node().cloned()));
            let message = format!("{PREFIX}ongoing preemption on nominated nodes");
            return Ok(GroupPreemption::Coming(message, nominations.collect()));
        }
        let mut units = self.units_of(self.pods.iter().map(|(uid, _)| uid), seeker.object.priority);
        sort_by_importance(&mut units, NOW_NS);
        if units.is_empty() {
            let message = format!("{PREFIX}No preemption victims found for incoming preemptor");
            return Ok(GroupPreemption::None(message));
        }
        let (victims, nominations) = match Scratch::new(self).search(seeker, units)? {
            Ok(found) => found,
            Err(GroupRefusal::Rejected(reason)) => return refused(&reason),
            Err(GroupRefusal::Failed(error)) => {
                let plugin = default_preemption::NAME;
                let message = format!("error in {plugin:?} PodGroupPostFilter plugins: {PREFIX}{error}");
                return Ok(GroupPreemption::Failed(message));
            }
        };
        let under_way = self.preemptions.victims();
        if under_way > 0 && under_way + victims.len() > MAX_VICTIMS {
            self.status.preemptions_postponed += 1;
            return refused(&format!("{under_way} victims are already being deleted; tried again when they are gone"));
        }
        self.evict_for_group(now_ms, seeker, &victims);
        let count = victims.len();
        let message = format!("{PREFIX}found a placement for podgroup, preempting {count} victims");
        Ok(GroupPreemption::Coming(message, nominations))
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
        let profile = self.profile(seeker.profile);
        let is_on = |plugins: &[String]| plugins.iter().any(|known| known == default_preemption::NAME);
        let priority = seeker.object.priority;
        profile.is_some_and(|profile| is_on(&profile.plugins.pod_group_post_filter))
            && (self.residents.any_at_all_below(priority) || self.groups.any_below(priority))
    }

    /// The priority at which a pod is preempted: that of its group of `scheduling.k8s.io`, if it has one.
    ///
    /// Source: `GetPodPriority`.
    pub(crate) fn rank_of(&self, pod: &Pod) -> i32 {
        self.object_of(pod).map_or(pod.info.priority, |object| object.priority)
    }

    /// The group that a pod is preempted with. Pods of `scheduling.x-k8s.io` are preempted as pods without a group, as by kube-scheduler.
    pub(crate) fn object_of(&self, pod: &Pod) -> Option<&PodGroup> {
        self.groups.known.get(&self.group_as_victim(&pod.info)?)?.object.as_deref()
    }

    pub(crate) fn group_as_victim(&self, info: &PodInfo) -> Option<GroupKey> {
        self.group_of(info).filter(|key| key.api == GroupApi::Kubernetes)
    }

    /// Deletes the victims for a group.
    fn evict_for_group(&mut self, now_ms: TimeMs, seeker: &Seeker<'_>, victims: &[PlacedPod]) {
        let first = seeker.members.first().and_then(|uid| self.pods.get(uid));
        let Some(scheduler_name) = first.map(|pod| Arc::clone(&pod.info.scheduler_name)) else { return };
        let object = seeker.object;
        // No pod has the UID of a group, so a lookup of the preemptor finds none.
        let name = PodName {
            uid: Arc::clone(&object.uid),
            namespace: Arc::clone(&object.namespace),
            name: Arc::clone(&object.name),
        };
        self.evict(now_ms, Preemptor { name, scheduler_name, node: None }, victims, true);
    }
}

impl Scratch<'_> {
    /// Removes the potential victims, tries the group, and puts back the pods that need not go. Returns the victims, and the nominations of
    /// members.
    fn search(
        mut self,
        seeker: &Seeker<'_>,
        units: Vec<Unit<Location>>,
    ) -> Result<Result<(Vec<PlacedPod>, MemberNominations), GroupRefusal>, Asks> {
        let units = units.into_iter().map(|unit| unit.map(|(_, charge)| self.remove(charge))).collect();
        let tried = self.nested().try_placements(seeker, true)?;
        let placed: Vec<(&Uid, &Placement)> = tried.placed().collect();
        if let Err(refusal) = tried.outcome {
            return Ok(Err(refusal));
        }
        let node = |(uid, placement): &(&Uid, &Placement)| (Arc::clone(uid), Some(Arc::clone(&placement.charge.node)));
        let nominations = placed.iter().map(node).collect();
        Ok(self.reprieve(units, &placed).map(|victims| (victims, nominations)))
    }

    /// Puts back the pods that fit next to the group's pods: first those that a budget protects, then the others. Returns the victims.
    fn reprieve(
        mut self,
        units: Vec<Unit<Removed>>,
        placed: &[(&Uid, &Placement)],
    ) -> Result<Vec<PlacedPod>, GroupRefusal> {
        let is_local = |placement: &Placement| {
            self.judge.states().get(placement.subject()).is_some_and(|state| is_local(&state.prepared))
        };
        let counts = !placed.iter().all(|(_, placement)| is_local(placement));
        let counted = units.len().saturating_mul(placed.len()).saturating_mul(self.judge.cache().nodes.len());
        if counts && counted > MAX_COUNTED {
            return Err(GroupRefusal::Rejected(format!(
                "{} pods or groups of lower priority are too many potential victims for a group with affinity or spread constraints",
                units.len()
            )));
        }
        placed.iter().for_each(|(uid, _)| self.withhold(uid));
        let violates = self.violating(&units);
        let must_go = reprieve(&violates, |at| self.stays(&units[at], placed, counts));
        let victims = units.into_iter().zip(must_go).filter(|(_, must_go)| *must_go);
        Ok(victims.flat_map(|(unit, _)| unit.pods).map(|(standing, _)| standing).collect())
    }

    /// Puts a unit back, and removes it again if the group's pods no longer fit.
    fn stays(&mut self, unit: &Unit<Removed>, placed: &[(&Uid, &Placement)], counts: bool) -> bool {
        unit.pods.iter().for_each(|(_, pod)| self.put_back(*pod));
        let fits = self.all_fit(unit, placed, counts);
        if !fits {
            unit.pods.iter().rev().for_each(|(_, pod)| self.remove_again(*pod));
        }
        fits
    }

    /// Whether the group's pods still fit after a unit was put back; each is evaluated after the pods before it. Unless one of them counts
    /// over other nodes, only the unit's nodes are checked.
    fn all_fit(&mut self, unit: &Unit<Removed>, placed: &[(&Uid, &Placement)], counts: bool) -> bool {
        let nodes: BTreeSet<Arc<str>> =
            unit.pods.iter().map(|(_, pod)| Arc::clone(&self.charge_of(*pod).node)).collect();
        let mut scratch = self.nested();
        let mut concerned = placed.iter().filter(|(_, placement)| counts || nodes.contains(&placement.charge.node));
        concerned.all(|(uid, placement)| {
            let fits = scratch.still_fits(uid, placement);
            if fits {
                scratch.place(uid, placement);
            }
            fits
        })
    }

    fn still_fits(&mut self, uid: &Uid, placement: &Placement) -> bool {
        let subject = placement.subject();
        let Some(node) = self.judge.cache().nodes.get(&placement.charge.node).map(|node| node.id) else { return false };
        let Some(priority) = self.pods.get(uid).map(|pod| pod.info.priority) else { return false };
        if !self.judge.open(subject) {
            return false;
        }
        let nominations = self.judge.nominator().concerning(uid, priority, self.judge.cache());
        self.judge.count_dry_run(subject);
        let fits = self.judge.contained(subject, |judge| {
            let Some((state, cache)) = judge.with_nodes(subject) else { return false };
            let mut dry_run = DryRun::new(&state.prepared, &cache.snapshot, &state.matches);
            let beside = nominations.beside(node);
            dry_run.refusal(&state.prepared, &mut cache.snapshot, node, beside).is_none()
        });
        fits.unwrap_or(false)
    }
}
