//! Which of the removed pods a group leaves in place.
//!
//! A pod that is put back concerns the group's pods on its node, and each pod with a filter that counts it on other nodes: by
//! affinity, spread constraints or an exclusive claim. Only these are checked again, because nothing changed for the others.
//!
//! Source: `reprieveVictim` of `selectVictimsOnDomain`, which checks all of the group's pods.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::{
    class::ClassId,
    map::Map,
    preemption::{DryRun, PlacedPod, Unit, is_local, reprieve},
};

use super::{
    scratch::{Removed, Scratch},
    tried::GroupRefusal,
};
use crate::{
    judge::{cache::Charge, decision::Placement},
    site::Site,
    subject::{Subject, Uid},
};

/// Maximum number of nodes to recount during the search. Only checks of pods without kept counts recount; at some 20 ns per node the
/// limit is a second.
const MAX_COUNTED: usize = 50_000_000;
/// A check with kept counts takes some 2 us, as long as recounting so many nodes.
const NODES_PER_CHECK: usize = 100;
/// Maximum number of subjects with kept counts over nodes. With a count for each of 500,000 nodes, at some 100 bytes, they take 200 MB.
const MAX_KEPT: usize = 4;

/// The group's pods on their nodes, in the order of the attempt.
struct Placed<'a> {
    pods: &'a [(&'a Uid, &'a Placement)],
    by_node: BTreeMap<&'a str, Vec<usize>>,
    by_subject: BTreeMap<Subject, Vec<usize>>,
    /// Whether a pod of the class changes filters' results for the subject on other nodes.
    concerns: Map<(Subject, ClassId), bool>,
    /// The counts of subjects, without the group's pods.
    kept: BTreeMap<Subject, Kept>,
    /// Nodes recounted so far, or that checks took as long as.
    counted: usize,
}

struct Kept {
    counts: DryRun,
    /// Whether the subject counts over other nodes.
    is_wide: bool,
}

/// The pods to check after a unit was put back, and the others that have to be on their nodes for it.
struct Concerned {
    checked: BTreeSet<usize>,
    others: BTreeSet<usize>,
}

impl<'a> Placed<'a> {
    fn of(pods: &'a [(&'a Uid, &'a Placement)], site: &mut Site<'_>) -> Self {
        let (mut by_node, mut by_subject) = (BTreeMap::<_, Vec<usize>>::new(), BTreeMap::<_, Vec<usize>>::new());
        for (at, (_, placement)) in pods.iter().enumerate() {
            by_node.entry(&*placement.charge.node).or_default().push(at);
            by_subject.entry(placement.subject()).or_default().push(at);
        }
        let (mut kept, mut wide) = (BTreeMap::new(), 0);
        for &subject in by_subject.keys() {
            // A member of a group in a domain was decided with another class.
            let is_open = site.shards.judge.open(subject);
            let is_wide = is_wide(site, subject);
            if !is_open || (is_wide && wide == MAX_KEPT) {
                continue;
            }
            if let Some(counts) = site.shards.judge.counted_dry_run(subject) {
                wide += usize::from(is_wide);
                kept.insert(subject, Kept { counts, is_wide });
            }
        }
        Self { pods, by_node, by_subject, concerns: Map::default(), kept, counted: 0 }
    }

    fn is_too_much(&self) -> bool {
        self.counted > MAX_COUNTED
    }

    /// Whether a pod of the class changes filters' results for the subject on other nodes.
    fn is_concerned(&mut self, site: &mut Site<'_>, subject: Subject, class: ClassId) -> bool {
        let concerns = self.concerns.entry((subject, class));
        *concerns.or_insert_with(|| site.shards.judge.concerns_other_nodes(subject, class))
    }

    /// `nodes` and `classes`: those of the pods that were put back.
    fn concerned(&mut self, site: &mut Site<'_>, nodes: &BTreeSet<Arc<str>>, classes: &BTreeSet<ClassId>) -> Concerned {
        let mut checked: BTreeSet<usize> =
            nodes.iter().filter_map(|node| self.by_node.get(&**node)).flatten().copied().collect();
        let subjects: Vec<Subject> = self.by_subject.keys().copied().collect();
        for &subject in &subjects {
            if classes.iter().any(|&class| self.is_concerned(site, subject, class)) {
                checked.extend(&self.by_subject[&subject]);
            }
        }
        let asked: BTreeSet<Subject> = checked.iter().map(|&at| self.pods[at].1.subject()).collect();
        let mut counted = |at: usize| {
            let class = self.pods[at].1.charge.class;
            asked.iter().any(|&subject| self.is_concerned(site, subject, class))
        };
        let last = checked.last().copied().unwrap_or(0);
        let others = (0..last).filter(|at| !checked.contains(at) && counted(*at)).collect();
        Concerned { checked, others }
    }

    /// Whether a pod has to be in the snapshot when later pods are checked.
    fn is_needed(&self, at: usize, concerned: &Concerned) -> bool {
        let mut later = concerned.checked.range(at + 1..).map(|&later| self.pods[later].1);
        later.any(|later| later.charge.node == self.pods[at].1.charge.node || !self.kept.contains_key(&later.subject()))
    }

    /// Counts a pod on its node in all kept counts over nodes; negative removes it.
    fn count(&mut self, site: &mut Site<'_>, charge: &Charge, pods: i64) {
        for (&subject, kept) in self.kept.iter_mut().filter(|(_, kept)| kept.is_wide) {
            site.shards.judge.count(subject, &mut kept.counts, charge, pods);
        }
    }
}

/// Whether filters of an open subject count over other nodes.
fn is_wide(site: &Site<'_>, subject: Subject) -> bool {
    !site.shards.judge.states().get(subject).is_some_and(|state| is_local(state.prepared()))
}

impl Scratch<'_, '_> {
    /// Puts back the pods that fit next to the group's pods: first those that a budget protects, then the others. Returns the victims.
    pub(super) fn reprieve(
        mut self,
        units: Vec<Unit<Removed>>,
        placed: &[(&Uid, &Placement)],
    ) -> Result<Vec<PlacedPod>, GroupRefusal> {
        placed.iter().for_each(|(uid, _)| self.withhold(uid));
        let violates = self.violating(&units);
        let mut placed = Placed::of(placed, &mut self);
        let must_go = reprieve(&violates, |at| self.stays(&units[at], &mut placed));
        if placed.is_too_much() {
            return Err(GroupRefusal::Rejected(format!(
                "{} pods or groups of lower priority are too many potential victims for a group with affinity or spread constraints",
                units.len()
            )));
        }
        let victims = units.into_iter().zip(must_go).filter(|(_, must_go)| *must_go);
        Ok(victims.flat_map(|(unit, _)| unit.pods).map(|(standing, _)| standing).collect())
    }

    /// Puts a unit back, and removes it again if the group's pods no longer fit.
    fn stays(&mut self, unit: &Unit<Removed>, placed: &mut Placed<'_>) -> bool {
        if placed.is_too_much() {
            return false;
        }
        for (_, pod) in &unit.pods {
            self.put_back(*pod);
            let charge = self.charge_of(*pod).clone();
            placed.count(self, &charge, 1);
        }
        let fits = self.all_fit(unit, placed);
        if !fits {
            for (_, pod) in unit.pods.iter().rev() {
                let charge = self.charge_of(*pod).clone();
                placed.count(self, &charge, -1);
                self.remove_again(*pod);
            }
        }
        fits
    }

    /// Whether the group's pods still fit after a unit was put back; each is evaluated after the pods before it.
    fn all_fit(&mut self, unit: &Unit<Removed>, placed: &mut Placed<'_>) -> bool {
        let charges = || unit.pods.iter().map(|(_, pod)| self.charge_of(*pod));
        let nodes = charges().map(|charge| Arc::clone(&charge.node)).collect();
        let classes = charges().map(|charge| charge.class).collect();
        let concerned = placed.concerned(self, &nodes, &classes);
        let mut scratch = self.nested();
        let mut counted = Vec::new();
        let mut in_order = concerned.checked.union(&concerned.others).copied();
        let fits = in_order.all(|at| {
            let (uid, placement) = placed.pods[at];
            let fits = !concerned.checked.contains(&at) || scratch.still_fits(uid, placement, placed);
            if fits {
                if placed.is_needed(at, &concerned) {
                    scratch.place(uid, placement);
                }
                placed.count(&mut scratch, &placement.charge, 1);
                counted.push(&placement.charge);
            }
            fits
        });
        counted.into_iter().for_each(|charge| placed.count(&mut scratch, charge, -1));
        fits
    }

    fn still_fits(&mut self, uid: &Uid, placement: &Placement, placed: &mut Placed<'_>) -> bool {
        let subject = placement.subject();
        let nodes = self.shards.judge.cache().nodes();
        let Some(node) = nodes.get(&placement.charge.node).map(|node| node.id) else { return false };
        let all = nodes.len();
        let Some(priority) = self.pods.get(uid).map(|pod| pod.info.priority) else { return false };
        if !self.shards.judge.open(subject) {
            return false;
        }
        let nominations = self.shards.judge.nominator().concerning(uid, priority);
        let beside = nominations.beside(node);
        if let Some(kept) = placed.kept.get_mut(&subject) {
            placed.counted += if kept.is_wide { all.min(NODES_PER_CHECK) } else { 0 };
            return self.shards.judge.fits_counted(subject, &mut kept.counts, node, beside);
        }
        placed.counted += if is_wide(self, subject) { all } else { 0 };
        self.shards.judge.fits_beside(subject, node, beside)
    }
}
