//! Invariants with names, checked on the living state.
//!
//! Knows: what must always be true. Must not know: how to mend what is not.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::class::ClassId;

use crate::{
    judge::nominator::Nominated,
    machine::Machine,
    pods::{Pod, Stage},
    subject::Uid,
};

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub invariant: Invariant,
    /// Where it is broken.
    pub place: String,
}

/// What must always be true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invariant {
    /// A pod waits in exactly one place if its stage says so, and in none otherwise.
    OnePlacePerPod,
    /// What is charged to nodes is what pods are charged, no more and no less.
    ChargesAddUp,
    /// A bind under way belongs to a pod that is assumed, confirmed or gone; an assumed pod is charged.
    BindsHaveCharges,
    /// A pod is in PreBind if its stage says so, and otherwise not; what is reserved for a bind belongs to a pod that is
    /// assumed.
    PreparationsHavePods,
    /// Every node belongs to a worker that is there, as soon as one is, and each worker's count is right.
    NodesHaveHolders,
    /// A pod waits with its pod group if its stage says so, and otherwise not; a group without a pod that waits is not in the queue.
    GroupsHoldWhoWaits,
    /// The columns and the cache hold the same nodes.
    ColumnsMatchCache,
    /// Each column of amounts is what the nodes have, and the sum over the pods that are charged to them.
    AmountsAddUp,
    /// Selectors in play can tell as much of each pod's class as of the pod's labels.
    ClassesTellWhatSelectorsRead,
    /// A node is kept free for each pod that waits and is nominated to it, and for no other pod.
    NominationsAreThoseOfWaitingPods,
}

impl Machine {
    /// Checks every invariant on the whole state; linear in pods and nodes.
    #[must_use]
    pub fn audit(&self) -> Vec<Violation> {
        let mut violations = self.audit_gates();
        let mut broken = |invariant, place: String| violations.push(Violation { invariant, place });
        let (entities, places) = self.queue.recount();
        if entities != places {
            broken(Invariant::OnePlacePerPod, format!("{entities} entities are in {places} places"));
        }
        let mut charges: BTreeMap<(&Arc<str>, ClassId), u32> = BTreeMap::new();
        let mut nominations = 0;
        for (uid, pod) in &self.pods {
            if self.queue.contains(uid) != matches!(pod.stage, Stage::Queued(_)) {
                broken(Invariant::OnePlacePerPod, format!("pod {} in stage {:?}", pod.info.key(), pod.stage));
            }
            if matches!(pod.stage, Stage::Preparing(_)) != self.preparations.contains(uid) {
                broken(Invariant::PreparationsHavePods, format!("pod {} in stage {:?}", pod.info.key(), pod.stage));
            }
            if (pod.stage.is_decided() || pod.stage == Stage::Assigned) != pod.charge.is_some() {
                broken(Invariant::BindsHaveCharges, format!("pod {} in stage {:?}", pod.info.key(), pod.stage));
            }
            let nominated = Nominated::of(pod);
            nominations += usize::from(nominated.is_some());
            if self.judge.nominator().of(uid) != nominated.as_ref() {
                broken(Invariant::NominationsAreThoseOfWaitingPods, format!("pod {}", pod.info.key()));
            }
            if let Some(charge) = &pod.charge {
                *charges.entry((&charge.node, charge.class)).or_insert(0) += 1;
            }
        }
        if nominations != self.judge.nominator().len() {
            broken(Invariant::NominationsAreThoseOfWaitingPods, "of a pod that is gone".to_owned());
        }
        let resident: u32 = charges.values().sum();
        if self.residents.len() != resident as usize {
            broken(Invariant::ChargesAddUp, format!("{} residents for {resident} charges", self.residents.len()));
        }
        let mut held: BTreeMap<_, u32> = BTreeMap::new();
        for ((node, class), count) in charges {
            let known = self.judge.cache().residents(node).and_then(|residents| residents.get(&class)).copied();
            if known != Some(count) {
                broken(Invariant::ChargesAddUp, format!("{count} pods of class {} on {node}, not {known:?}", class.0));
            }
        }
        for (name, node) in &self.judge.cache().nodes {
            match node.worker {
                Some(worker) => *held.entry(worker).or_insert(0) += 1,
                None if !self.roster.workers.is_empty() && self.judge.cache().can_be_held(name) => {
                    broken(Invariant::NodesHaveHolders, format!("node {name}"))
                }
                None => {}
            }
            if self.judge.cache().snapshot.slot(node.id).is_none() {
                broken(Invariant::ColumnsMatchCache, format!("node {name} has no columns"));
            }
        }
        for (id, worker) in &self.roster.workers {
            if held.remove(id).unwrap_or(0) != worker.nodes {
                broken(
                    Invariant::NodesHaveHolders,
                    format!("worker {} does not hold {} nodes", worker.name, worker.nodes),
                );
            }
        }
        if let Some(id) = held.keys().next() {
            broken(Invariant::NodesHaveHolders, format!("connection {} is gone and still holds nodes", id.0));
        }
        if self.judge.cache().snapshot.node_count() != self.judge.cache().nodes.len() {
            broken(Invariant::ColumnsMatchCache, "the number of nodes differs".to_owned());
        }
        let others = self.audit_groups().chain(self.audit_classes()).chain(self.audit_preparations());
        violations.extend(others.chain(self.audit_amounts()));
        violations
    }

    /// The columns are counted again from the charges, and compared with what the nodes have; so is who holds them.
    fn audit_amounts(&self) -> impl Iterator<Item = Violation> {
        let cache = self.judge.cache();
        let noted = (!cache.holders_match()).then(|| Violation {
            invariant: Invariant::NodesHaveHolders,
            place: "the holder noted at some position is not the node's".to_owned(),
        });
        let miscounted = cache.snapshot.miscounted().map(|(node, what)| (cache.name(node).cloned(), what));
        let other = cache.nodes.iter().find_map(|(name, node)| {
            let slot = cache.snapshot.slot(node.id)?;
            let mut charged: Vec<(ClassId, u32)> =
                cache.residents(name).into_iter().flatten().map(|(class, count)| (*class, *count)).collect();
            charged.sort_unstable();
            if charged != cache.snapshot.tenants(slot) {
                return Some((Some(Arc::clone(name)), "the pods by class"));
            }
            let is_same = cache.snapshot.allocates(slot, &node.info.allocatable, node.info.allowed_pods);
            (!is_same).then(|| (Some(Arc::clone(name)), "what it has"))
        });
        let amounts = miscounted.into_iter().chain(other).map(|(name, what)| {
            let place = format!("{what} of node {}", name.as_deref().unwrap_or("without a name"));
            Violation { invariant: Invariant::AmountsAddUp, place }
        });
        amounts.chain(noted)
    }

    /// A pod that has something reserved is known, and is to be bound.
    fn audit_preparations(&self) -> impl Iterator<Item = Violation> {
        let is_known = |uid: &Uid| self.pods.contains_key(uid);
        let is_assumed = |uid: &Uid| self.pods.get(uid).is_some_and(|pod| matches!(pod.stage, Stage::Assumed(_)));
        let gone = self.preparations.by_pod.keys().filter(move |uid| !is_known(uid));
        let gone = gone.map(|uid| format!("pod {uid} is gone"));
        let unbound = self.preparations.binding.keys().filter(move |uid| !is_assumed(uid));
        let unbound = unbound.map(|uid| format!("pod {uid} is not to be bound"));
        gone.chain(unbound).map(|place| Violation { invariant: Invariant::PreparationsHavePods, place })
    }

    fn audit_classes(&self) -> impl Iterator<Item = Violation> {
        let cache = self.judge.cache();
        let is_wrong = |pod: &&Pod| {
            // Of a pod on a node a class has less than of one that waits.
            let whole = cache.objects.share(&pod.info.class, pod.info.node_name.is_some());
            let class = cache.classes.get(pod.class);
            class.is_none_or(|class| !cache.in_play.is_told_by(class, &whole))
        };
        self.pods.values().filter(is_wrong).map(|pod| {
            let place = format!("pod {} of class {}", pod.info.key(), pod.class.0);
            Violation { invariant: Invariant::ClassesTellWhatSelectorsRead, place }
        })
    }

    fn audit_groups(&self) -> impl Iterator<Item = Violation> {
        let astray = self.pods.iter().filter(|(uid, pod)| {
            let waits = self.group_of(&pod.info).is_some_and(|key| self.groups.has_waiting(uid, &key));
            matches!(pod.stage, Stage::Member(_)) != waits
        });
        let astray = astray.map(|(_, pod)| format!("pod {} in stage {:?}", pod.info.key(), pod.stage));
        let empty = self.groups.all_entities().filter(|(entity, waits)| self.queue.contains(entity) && !waits);
        let empty = empty.map(|(entity, _)| format!("no pod waits for {entity}"));
        let places = astray.chain(empty);
        places.map(|place| Violation { invariant: Invariant::GroupsHoldWhoWaits, place })
    }

    /// A pod that PreEnqueue keeps out of the queue is in the list of gated pods.
    fn audit_gates(&self) -> Vec<Violation> {
        let is_gated = |(_, pod): &(&Uid, &Pod)| matches!(pod.stage, Stage::Gated(_));
        let gated = self.pods.iter().filter(is_gated);
        let lost = gated.clone().filter(|(uid, _)| self.gates.of(uid).is_none());
        let mut places: Vec<String> =
            lost.map(|(_, pod)| format!("pod {} is gated by no plugin", pod.info.key())).collect();
        if self.gates.len() != gated.count() {
            places.push(format!("{} pods are kept out of the queue that are not gated", self.gates.len()));
        }
        places.into_iter().map(|place| Violation { invariant: Invariant::OnePlacePerPod, place }).collect()
    }
}
