//! Topology-aware scheduling: tries a pod group in each of its placements, and selects the best.
//!
//! In a placement with a topology domain, the members get classes for which only the nodes of the domain exist. The coordinator evaluates
//! these classes itself, and releases them after the placement.
//!
//! Source: `podGroupSchedulingPlacementAlgorithm`. kube-scheduler selects one of several best placements at random; Flotilla selects the
//! first by name.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    class::{Class, ClassId, TopologyDomain},
    node::NodeId,
    pod_group::{self, Assigned, Feasibility, NoPlacements, Topology, UNSCHEDULABLE},
};

use super::{
    scratch::Scratch,
    tried::{Asks, GroupRefusal, Seeker, Tried},
};
use crate::{
    machine::Machine,
    subject::{GroupKey, Uid},
};

/// The domain in which members are tried, with the class for each class of a member.
#[derive(Debug, Default)]
pub(super) struct Within {
    domain: Option<TopologyDomain>,
    classes: BTreeMap<ClassId, ClassId>,
}

impl Machine {
    /// Whether each of the group's placements consists of the nodes of one topology domain.
    pub(super) fn is_tried_in_domains(&self, seeker: &Seeker<'_>) -> bool {
        let generates = |plugins: &[String]| !plugins.is_empty();
        matches!(seeker.object.topology, Topology::Key(_))
            && self.profile(seeker.profile).is_some_and(|profile| generates(&profile.plugins.placement_generate))
    }

    fn placements(&self, seeker: &Seeker<'_>) -> Result<Vec<Option<TopologyDomain>>, GroupRefusal> {
        let Some(profile) = self.profile(seeker.profile) else { return Ok(vec![None]) };
        let nodes = &self.judge.cache().snapshot;
        let scheduled = self.scheduled(&seeker.object.group_key());
        let placements = pod_group::placements(&seeker.object.topology, &profile.plugins, nodes, &scheduled);
        let is_extended = || seeker.members.iter().any(|uid| !self.extenders_of(uid).is_empty());
        match placements {
            Ok(placements) if placements.iter().any(Option::is_some) && is_extended() => {
                Err(GroupRefusal::Failed(format!(
                    "extenders are not called for pods of a group with a topology constraint; remove the constraint of PodGroup {}, or \
                     the extenders of its pods",
                    seeker.object.key()
                )))
            }
            Ok(placements) => Ok(placements),
            Err(NoPlacements::Unschedulable(reason)) => Err(GroupRefusal::Rejected(reason)),
            Err(NoPlacements::Failed(error)) => Err(GroupRefusal::Failed(error)),
        }
    }

    /// The group's pods with a node, as `namespace/name`, and their nodes.
    fn scheduled(&self, key: &GroupKey) -> Vec<(String, Option<NodeId>)> {
        let members = self.groups.known.get(key).into_iter().flat_map(|group| &group.members);
        let nodes = &self.judge.cache().nodes;
        let node = |uid: &Uid| {
            let pod = self.pods.get(uid)?;
            let charge = pod.charge.as_ref()?;
            Some((pod.info.key(), nodes.get(&charge.node).map(|node| node.id)))
        };
        members.filter_map(node).collect()
    }

    /// The first placement with the highest score. One alone is not scored.
    fn best_placement(&self, seeker: &Seeker<'_>, mut met: Vec<(Option<TopologyDomain>, Tried)>) -> Option<Tried> {
        if met.len() < 2 {
            return met.pop().map(|(_, tried)| tried);
        }
        let classes = &self.judge.cache().classes;
        let class_of = |uid: &Uid| classes.get(self.pods.get(uid)?.class).map(|class| &**class);
        let assigned = met.iter().map(|(domain, tried)| Assigned {
            domain: domain.as_ref(),
            pods: tried.placed().filter_map(|(uid, _)| class_of(uid)).collect(),
        });
        let assigned: Vec<Assigned<'_>> = assigned.collect();
        let profile = self.profile(seeker.profile)?;
        let nodes = &self.judge.cache().snapshot;
        let scores =
            pod_group::scores(&profile.plugins.placement_score, &profile.args, nodes, seeker.scheduled, &assigned);
        match scores {
            Ok(scores) => {
                let best = scores.iter().enumerate().min_by_key(|(at, score)| (Reverse(**score), *at));
                let best = best.map_or(0, |(at, _)| at);
                Some(met.swap_remove(best).1)
            }
            Err(error) => {
                let (_, mut tried) = met.swap_remove(0);
                tried.outcome = Err(GroupRefusal::Failed(error));
                Some(tried)
            }
        }
    }

    /// The class of a member in a placement; its own class if the placement has all nodes.
    pub(super) fn class_within(&mut self, uid: &Uid, within: &mut Within) -> Option<ClassId> {
        let pod = self.pods.get(uid)?;
        let Some(domain) = &within.domain else { return Some(pod.class) };
        if let Some(known) = within.classes.get(&pod.class) {
            return Some(*known);
        }
        let class = Arc::new(Class { within: Some(domain.clone()), ..Class::clone(&pod.info.class) });
        let own = pod.class;
        // The selectors of the member's own class are in play already.
        let id = self.judge.cache_mut().acquire_signed(&class, false, &mut Vec::new());
        within.classes.insert(own, id);
        Some(id)
    }
}

impl Scratch<'_> {
    /// Tries the members in each placement. `for_room`: victims are removed during the attempt.
    ///
    /// # Errors
    /// Extenders have to be called first.
    pub(super) fn try_placements(mut self, seeker: &Seeker<'_>, for_room: bool) -> Result<Tried, Asks> {
        if seeker.object.topology == Topology::Off {
            return self.try_members(seeker, &mut Within::default(), for_room).map(Tried::with_any);
        }
        let placements = match self.placements(seeker) {
            Ok(placements) => placements,
            Err(refusal) => return Ok(Tried::refused(refusal, seeker.members)),
        };
        let count = placements.len();
        let (mut first, mut met) = (None, Vec::new());
        for domain in placements {
            let mut within = Within { domain, classes: BTreeMap::new() };
            let tried = self.nested().try_placement(seeker, &mut within, for_room);
            within.classes.values().for_each(|&class| self.release_class(class));
            let tried = tried?;
            self.tally.count_placement(tried.outcome.is_ok());
            match tried.outcome {
                Err(GroupRefusal::Failed(_)) => return Ok(tried),
                Err(GroupRefusal::Rejected(_)) => _ = first.get_or_insert(tried),
                Ok(()) => met.push((within.domain, tried)),
            }
        }
        Ok(match (self.best_placement(seeker, met), first) {
            (Some(best), _) => best.with_any(),
            (None, Some(first)) => first.with_any_of(count),
            (None, None) => Tried::none(UNSCHEDULABLE.to_owned(), seeker.members),
        })
    }

    fn try_placement(self, seeker: &Seeker<'_>, within: &mut Within, for_room: bool) -> Result<Tried, Asks> {
        let Seeker { object, profile, members, scheduled, .. } = *seeker;
        if let Feasibility::Never(reason) = self.feasibility(object, profile, scheduled, members.len()) {
            return Ok(Tried::never(&reason, members));
        }
        self.try_members(seeker, within, for_room)
    }
}

impl Tried {
    fn refused(refusal: GroupRefusal, members: &[Uid]) -> Self {
        Self { outcome: Err(refusal), ..Self::none(String::new(), members) }
    }

    /// PlacementFeasible rejected the group before any member was tried.
    pub(super) fn never(reason: &str, members: &[Uid]) -> Self {
        Self::none(format!("{UNSCHEDULABLE}, {reason}"), members)
    }

    /// A group that no member joins is not scheduled.
    fn with_any(mut self) -> Self {
        if self.outcome.is_ok() && self.placed().next().is_none() {
            self.outcome = Err(GroupRefusal::Rejected(UNSCHEDULABLE.to_owned()));
        }
        self
    }

    /// The result of the first of several placements, none of which is feasible.
    fn with_any_of(mut self, count: usize) -> Self {
        if let Err(GroupRefusal::Rejected(reason)) = &mut self.outcome {
            // kube-scheduler's status prints only its error, if it has one.
            let status = if reason.starts_with(UNSCHEDULABLE) { UNSCHEDULABLE } else { reason.as_str() };
            *reason = format!("{UNSCHEDULABLE}, 0/{count} placements are available, first placement status: {status}");
        }
        self
    }
}
