//! Named invariants of the machine's state.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::class::ClassId;

use crate::{
    judge::nominator::Nominated,
    machine::Machine,
    pods::{Pod, PodStage},
    subject::Uid,
};

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub invariant: Invariant,
    /// The object that violates it.
    pub place: String,
}

/// An invariant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invariant {
    /// A pod waits in exactly one place if its stage requires it, otherwise in none.
    OnePlacePerPod,
    /// The charges on nodes equal the charges of pods.
    ChargesAddUp,
    /// A bind in flight belongs to a pod that is assumed, confirmed or gone; an assumed pod is charged.
    BindsHaveCharges,
    /// The pods in PreBind are those of that stage. Reservations of a bind in flight belong to an assumed pod.
    PreparationsHavePods,
    /// If workers are connected, each node has one of them as holder, and the node count of each worker is correct.
    NodesHaveHolders,
    /// The pods that wait with a group are those of that stage. A group without waiting pods is not in the queue.
    GroupsHoldWhoWaits,
    /// The columns and the cache have the same nodes.
    ColumnsMatchCache,
    /// Each resource column equals the nodes' values and the sum over the pods charged to them.
    AmountsAddUp,
    /// A pod's class has all fields that selectors in play read.
    ClassesTellWhatSelectorsRead,
    /// Exactly the waiting nominated pods have a node reserved.
    NominationsAreThoseOfWaitingPods,
}

impl Machine {
    /// Checks every invariant on the whole state; linear in pods and nodes.
    #[must_use]
    pub fn audit(&self) -> Vec<Violation> {
        let mut violations: Vec<Violation> = audit_gates(self).into_iter().chain(audit_nominated_nodes(self)).collect();
        let mut broken = |invariant, place: String| violations.push(Violation { invariant, place });
        let (entities, places) = self.queue.recount();
        if entities != places {
            broken(Invariant::OnePlacePerPod, format!("{entities} entities are in {places} places"));
        }
        let mut charges: BTreeMap<(&Arc<str>, ClassId), u32> = BTreeMap::new();
        let mut nominations = 0;
        for (uid, pod) in self.pods.iter() {
            if self.queue.contains(uid) != matches!(pod.stage, PodStage::Queued(_)) {
                broken(Invariant::OnePlacePerPod, format!("pod {} in stage {:?}", pod.info.key(), pod.stage));
            }
            if matches!(pod.stage, PodStage::Preparing(_)) != self.preparations.contains(uid) {
                broken(Invariant::PreparationsHavePods, format!("pod {} in stage {:?}", pod.info.key(), pod.stage));
            }
            if pod.has_node() != pod.charge.is_some() {
                broken(Invariant::BindsHaveCharges, format!("pod {} in stage {:?}", pod.info.key(), pod.stage));
            }
            let nominated = Nominated::of(&pod.indexed());
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
        for (name, node) in self.judge.cache().nodes() {
            match node.worker {
                Some(worker) => *held.entry(worker).or_insert(0) += 1,
                None if !self.roster.workers.is_empty() && self.judge.cache().can_be_held(name) => {
                    broken(Invariant::NodesHaveHolders, format!("node {name}"))
                }
                None => {}
            }
            if self.judge.cache().snapshot().slot(node.id).is_none() {
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
        if self.judge.cache().snapshot().node_count() != self.judge.cache().nodes().len() {
            broken(Invariant::ColumnsMatchCache, "the number of nodes differs".to_owned());
        }
        let others = audit_groups(self).chain(audit_classes(self)).chain(audit_preparations(self));
        violations.extend(others.chain(audit_amounts(self)));
        violations
    }
}

fn audit_amounts(machine: &Machine) -> impl Iterator<Item = Violation> {
    let cache = machine.judge.cache();
    let noted = (!cache.holders_match()).then(|| Violation {
        invariant: Invariant::NodesHaveHolders,
        place: "the holder noted at some position is not the node's".to_owned(),
    });
    let miscounted = cache.snapshot().miscounted().map(|(node, what)| (cache.name(node).cloned(), what));
    let other = cache.nodes().iter().find_map(|(name, node)| {
        let slot = cache.snapshot().slot(node.id)?;
        let mut charged: Vec<(ClassId, u32)> =
            cache.residents(name).into_iter().flatten().map(|(class, count)| (*class, *count)).collect();
        charged.sort_unstable();
        if charged != cache.snapshot().tenants(slot) {
            return Some((Some(Arc::clone(name)), "the pods by class"));
        }
        let is_same = cache.snapshot().allocates(slot, &node.info.allocatable, node.info.allowed_pods);
        (!is_same).then(|| (Some(Arc::clone(name)), "what it has"))
    });
    let amounts = miscounted.into_iter().chain(other).map(|(name, what)| {
        let place = format!("{what} of node {}", name.as_deref().unwrap_or("without a name"));
        Violation { invariant: Invariant::AmountsAddUp, place }
    });
    amounts.chain(noted)
}

fn audit_preparations(machine: &Machine) -> impl Iterator<Item = Violation> {
    let is_known = |uid: &Uid| machine.pods.contains(uid);
    let is_assumed = |uid: &Uid| machine.pods.get(uid).is_some_and(|pod| matches!(pod.stage, PodStage::Assumed(_)));
    let gone = machine.preparations.by_pod.keys().filter(move |uid| !is_known(uid));
    let gone = gone.map(|uid| format!("pod {uid} is gone"));
    let unbound = machine.preparations.binding.keys().filter(move |uid| !is_assumed(uid));
    let unbound = unbound.map(|uid| format!("pod {uid} is not to be bound"));
    gone.chain(unbound).map(|place| Violation { invariant: Invariant::PreparationsHavePods, place })
}

fn audit_classes(machine: &Machine) -> impl Iterator<Item = Violation> {
    let cache = machine.judge.cache();
    let is_wrong = |pod: &&Pod| {
        // The class of a placed pod has fewer fields than the class of a waiting pod.
        let whole = cache.objects().share(&pod.info.class, pod.info.node_name.is_some());
        let class = cache.classes().get(pod.class);
        class.is_none_or(|class| !cache.in_play().is_distinguished_by(class, &whole))
    };
    machine.pods.values().filter(is_wrong).map(|pod| {
        let place = format!("pod {} of class {}", pod.info.key(), pod.class.0);
        Violation { invariant: Invariant::ClassesTellWhatSelectorsRead, place }
    })
}

fn audit_groups(machine: &Machine) -> impl Iterator<Item = Violation> {
    let astray = machine.pods.iter().filter(|(uid, pod)| {
        let waits = machine.settings.group_of(&pod.info).is_some_and(|key| machine.groups.has_waiting(uid, &key));
        pod.stage.is_member() != waits
    });
    let astray = astray.map(|(_, pod)| format!("pod {} in stage {:?}", pod.info.key(), pod.stage));
    let empty = machine.groups.all_entities().filter(|(entity, waits)| machine.queue.contains(entity) && !waits);
    let empty = empty.map(|(entity, _)| format!("no pod waits for {entity}"));
    let places = astray.chain(empty);
    places.map(|place| Violation { invariant: Invariant::GroupsHoldWhoWaits, place })
}

fn audit_gates(machine: &Machine) -> Vec<Violation> {
    let is_gated = |(_, pod): &(&Uid, &Pod)| matches!(pod.stage, PodStage::Gated(_));
    let gated = machine.pods.iter().filter(is_gated);
    let lost = gated.clone().filter(|(uid, _)| !machine.gates.contains(uid));
    let mut places: Vec<String> =
        lost.map(|(_, pod)| format!("pod {} is gated by no plugin", pod.info.key())).collect();
    if machine.gates.len() != gated.count() {
        places.push(format!("{} pods are kept out of the queue that are not gated", machine.gates.len()));
    }
    places.into_iter().map(|place| Violation { invariant: Invariant::OnePlacePerPod, place }).collect()
}

fn audit_nominated_nodes(machine: &Machine) -> impl Iterator<Item = Violation> {
    let nodes = machine.judge.cache().nodes();
    let mut nominated = machine.judge.nominator().nodes();
    let wrong = nominated.find(|(name, id)| nodes.get(*name).map(|node| node.id) != *id);
    let place = wrong.map(|(name, id)| format!("node {name}, known as {id:?}"));
    place.into_iter().map(|place| Violation { invariant: Invariant::NominationsAreThoseOfWaitingPods, place })
}
