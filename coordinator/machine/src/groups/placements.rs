//! Topology-aware scheduling: tries a pod group in each of its placements, and selects the best. A composite group is tried in the same way,
//! with the groups below it instead of members.
//!
//! In a placement with a topology domain, the members get classes for which only the nodes of the domain exist. The coordinator evaluates
//! these classes itself, and releases them after the placement.
//!
//! Source: `podGroupSchedulingPlacementAlgorithm` and `compositePodGroupSchedulingPlacementAlgorithm`. kube-scheduler selects one of several best placements at random; Flotilla selects the
//! first by name.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    class::{Class, ClassId, TopologyDomain},
    pod_group::{self, Assigned, Feasibility, NoPlacements, Topology, UNSCHEDULABLE},
};

use super::{
    lacks::{add, lack},
    scratch::Scratch,
    search::Course,
    tree::Branch,
    tried::{Asks, GroupRefusal, Seeker, Tried},
};
use crate::{site::Site, subject::Uid};

/// The domain in which members are tried, with the class for each class of a member.
#[derive(Debug, Default)]
pub(super) struct Within {
    domain: Option<Arc<TopologyDomain>>,
    classes: BTreeMap<ClassId, ClassId>,
}

impl Site<'_> {
    /// Whether a group of the tree is tried in topology domains.
    pub(super) fn is_tried_in_domains(&self, seeker: &Seeker<'_>) -> bool {
        seeker.branch.has_constraint()
            && self
                .settings
                .profile(seeker.profile)
                .is_some_and(|profile| !profile.plugins.placement_generate.is_empty())
    }

    fn placements(
        &self,
        (seeker, branch): (&Seeker<'_>, &Branch),
        outer: Option<&Arc<TopologyDomain>>,
    ) -> Result<Vec<Option<Arc<TopologyDomain>>>, GroupRefusal> {
        let Some(profile) = self.settings.profile(seeker.profile) else { return Ok(vec![outer.cloned()]) };
        let nodes = self.shards.judge.cache().snapshot();
        let object = &branch.object;
        let placements =
            pod_group::placements(&object.topology, &profile.plugins, nodes, &branch.all_scheduled(), outer);
        let mut members = branch.all().into_iter().flat_map(|branch| &branch.members);
        let mut is_extended = || members.any(|uid| !self.settings.extenders_of(self.pods.get(uid)).is_empty());
        match placements {
            Ok(placements) if placements.iter().any(Option::is_some) && is_extended() => {
                let kind = if branch.is_composite() { "CompositePodGroup" } else { "PodGroup" };
                Err(GroupRefusal::Failed(format!(
                    "extenders are not called for pods of a group with a topology constraint; remove the constraint of {kind} {}, or \
                     the extenders of its pods",
                    object.key()
                )))
            }
            Ok(placements) => Ok(placements),
            Err(NoPlacements::Unschedulable(reason)) => Err(GroupRefusal::Rejected(reason)),
            Err(NoPlacements::Failed(error)) => Err(GroupRefusal::Failed(error)),
        }
    }

    /// The results in the placements, those with the highest score first. One alone is not scored.
    fn best_first(
        &self,
        (seeker, branch): (&Seeker<'_>, &Branch),
        met: Vec<(Option<Arc<TopologyDomain>>, Tried)>,
    ) -> Vec<Tried> {
        let profile = self.settings.profile(seeker.profile).filter(|_| met.len() > 1);
        let Some(profile) = profile else { return met.into_iter().map(|(_, tried)| tried).collect() };
        let classes = self.shards.judge.cache().classes();
        let class_of = |uid: &Uid| classes.get(self.pods.get(uid)?.class).map(|class| &**class);
        let assigned = met.iter().map(|(domain, tried)| Assigned {
            domain: domain.as_deref(),
            pods: tried.placed().into_iter().filter_map(|(uid, _)| class_of(uid)).collect(),
        });
        let assigned: Vec<Assigned<'_>> = assigned.collect();
        let (nodes, scheduled) = (self.shards.judge.cache().snapshot(), branch.all_scheduled().len());
        let scores = pod_group::scores(&profile.plugins.placement_score, &profile.args, nodes, scheduled, &assigned);
        match scores {
            Ok(scores) => {
                let mut scored: Vec<_> = scores.into_iter().zip(met).collect();
                scored.sort_by_key(|(score, _)| Reverse(*score));
                scored.into_iter().map(|(_, (_, tried))| tried).collect()
            }
            Err(error) => vec![Tried::refused(GroupRefusal::Failed(error), branch)],
        }
    }

    /// The class of a member in a placement; its own class if the placement has all nodes.
    pub(super) fn class_within(&mut self, uid: &Uid, within: &mut Within) -> Option<ClassId> {
        let pod = self.pods.get(uid)?;
        let Some(domain) = &within.domain else { return Some(pod.class) };
        if let Some(known) = within.classes.get(&pod.class) {
            return Some(*known);
        }
        let class = Arc::new(Class { within: Some(Arc::clone(domain)), ..Class::clone(&pod.info.class) });
        let own = pod.class;
        // The selectors of the member's own class are in play already.
        let (id, _) = self.shards.judge.acquire_class(&class, false);
        within.classes.insert(own, id);
        Some(id)
    }
}

impl Scratch<'_, '_> {
    /// Tries the whole tree. A tree without a placed member is rejected.
    ///
    /// # Errors
    /// Extenders have to be called first.
    pub(super) fn try_root(mut self, seeker: &Seeker<'_>, course: &mut Course) -> Result<Tried, Asks> {
        self.try_together(seeker.members);
        let mut tried = self.nested().try_branch((seeker, seeker.branch), None, course)?;
        if tried.outcome.is_ok() && tried.placed().is_empty() {
            tried.outcome = Err(GroupRefusal::Rejected(UNSCHEDULABLE.to_owned()));
        }
        Ok(tried)
    }

    /// The best result of a group.
    fn try_branch(
        self,
        (seeker, branch): (&Seeker<'_>, &Branch),
        outer: Option<&Arc<TopologyDomain>>,
        course: &mut Course,
    ) -> Result<Tried, Asks> {
        let (met, refused) = self.try_placements((seeker, branch), outer, course)?;
        Ok(met.into_iter().next().unwrap_or(refused))
    }

    /// Tries a group in each of its placements within that of the group above. Returns the results of the placements where it fits, the best
    /// first, and the result that counts without one.
    pub(super) fn try_placements(
        mut self,
        (seeker, branch): (&Seeker<'_>, &Branch),
        outer: Option<&Arc<TopologyDomain>>,
        course: &mut Course,
    ) -> Result<(Vec<Tried>, Tried), Asks> {
        let only = |tried: Tried| match tried.outcome {
            Ok(()) => (vec![tried], Tried::none(UNSCHEDULABLE.to_owned(), branch)),
            Err(_) => (Vec::new(), tried),
        };
        if branch.object.topology == Topology::Off {
            return self.try_members((seeker, branch), &mut Within::default(), course).map(only);
        }
        let placements = match self.placements((seeker, branch), outer) {
            Ok(placements) => placements,
            Err(refusal) => return Ok(only(Tried::refused(refusal, branch))),
        };
        let count = placements.len();
        let (mut first, mut met, mut lacks) = (None, Vec::new(), Vec::new());
        for (number, domain) in placements.into_iter().enumerate() {
            let others = course.share(count - number);
            let tried = self.nested().try_placement((seeker, branch), domain.clone(), course)?;
            course.put_back(others);
            match tried.outcome {
                Err(GroupRefusal::Failed(_)) => return Ok(only(tried)),
                Err(GroupRefusal::Rejected(_)) => {
                    let own = domain.filter(|_| matches!(branch.object.topology, Topology::Key(_)));
                    own.into_iter().for_each(|domain| add(&mut lacks, number, lack(branch, &domain, &tried)));
                    first.get_or_insert(tried);
                }
                Ok(()) => met.push((domain, tried)),
            }
        }
        let refused = match first {
            Some(first) => Tried { lacks, ..first.of_infeasible(count) },
            None => Tried::none(UNSCHEDULABLE.to_owned(), branch),
        };
        Ok((self.best_first((seeker, branch), met), refused))
    }

    fn try_placement(
        mut self,
        (seeker, branch): (&Seeker<'_>, &Branch),
        domain: Option<Arc<TopologyDomain>>,
        course: &mut Course,
    ) -> Result<Tried, Asks> {
        if branch.is_composite() {
            return match course.search.is_some() {
                true => self.search_children((seeker, branch), domain.as_ref(), course),
                false => self.try_children((seeker, branch), domain.as_ref(), course),
            };
        }
        let tried = match self.settings.feasibility(&branch.object, seeker.profile, branch.met(), branch.remaining()) {
            Feasibility::Never(reason) => Tried::never(&reason, branch),
            Feasibility::Met | Feasibility::Wait => {
                let mut within = Within { domain, classes: BTreeMap::new() };
                let tried = self.nested().try_members((seeker, branch), &mut within, course);
                within.classes.values().for_each(|&class| self.shards.release_class(class));
                tried?
            }
        };
        if course.search.is_none() {
            self.tally.count_placement(tried.outcome.is_ok());
        }
        Ok(tried)
    }

    /// Tries the groups below a composite group in a placement, each with the pods of those before it.
    ///
    /// Source: `compositePodGroupSchedulingDefaultAlgorithm`.
    fn try_children(
        mut self,
        (seeker, branch): (&Seeker<'_>, &Branch),
        domain: Option<&Arc<TopologyDomain>>,
        course: &mut Course,
    ) -> Result<Tried, Asks> {
        let mut tried = Tried::of(Ok(()), Vec::new());
        let (mut scheduled, mut left) = (0, branch.remaining());
        let mut children = branch.children.iter();
        loop {
            let feasibility = self.settings.feasibility(&branch.object, seeker.profile, scheduled, left);
            if let Feasibility::Never(reason) = feasibility {
                tried.outcome = Err(GroupRefusal::Rejected(reason));
                return Ok(tried);
            }
            let Some(child) = children.next() else { return Ok(tried) };
            let result = self.nested().try_branch((seeker, child), domain, course)?;
            if let Err(GroupRefusal::Failed(error)) = &result.outcome {
                let error = format!("composite pod group evaluation failed due to child error: {error}");
                return Ok(Tried::refused(GroupRefusal::Failed(error), branch));
            }
            let placed = result.placed();
            placed.into_iter().for_each(|(uid, placement)| self.place(uid, placement));
            scheduled += usize::from(result.outcome.is_ok());
            left -= 1;
            tried.children.push(result);
        }
    }
}

impl Tried {
    /// The first result of `count` placements as the result of the group: none of them is feasible.
    fn of_infeasible(mut self, count: usize) -> Self {
        if let Err(GroupRefusal::Rejected(reason)) = &mut self.outcome {
            // kube-scheduler's status prints only its error, if it has one.
            let status = if reason.starts_with(UNSCHEDULABLE) { UNSCHEDULABLE } else { reason.as_str() };
            *reason = format!("{UNSCHEDULABLE}, 0/{count} placements are available, first placement status: {status}");
        }
        self
    }
}
