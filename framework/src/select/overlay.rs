//! What one class counts, laid over the nodes of its family.
//!
//! To most classes that count something over domains, most nodes are special in nothing but their zone. Those are left on
//! the family's [`SortedNodes`]; the class itself holds only the nodes on which, or in whose domain of a label with many values,
//! something is counted. So a class that is new costs time by the pods that it counts, not by the nodes there are.
//!
//! Knows: which nodes are special to a class. Must not know: when the sorted list is brought up to date.

use smallvec::SmallVec;

use super::{
    best::Best,
    nominated::Nominations,
    sorted::SortedNodes,
    wide::{Raws, Wide},
};
use crate::{
    beside::{self, Beside, known},
    domains::Tables,
    evaluation::Offer,
    extension::{Domains, Score},
    map::Map,
    matches::Matches,
    node::NodeId,
    prepared::{Feasible, Order, Prepared},
    snapshot::{Slot, Snapshot},
    status::Refusal,
    symbols::Symbol,
};

/// Special nodes are passed over where they would be best but for what is counted on them. When as many were passed over
/// as this for each node, a book of the class's own is cheaper.
const MAX_PASSES: usize = 8;

/// One class.
#[derive(Debug)]
pub struct Overlay {
    wide: Wide,
    /// The group of each stratum of the sorted list, and how many of the stratum's nodes are special.
    strata: Vec<(usize, usize)>,
    /// The special nodes, and which stratum of the sorted list each is in.
    special: Map<NodeId, Option<usize>>,
    /// Special nodes of which something has changed.
    stale: Vec<NodeId>,
    /// Special nodes that pods nominated to them take from the pod that is decided on, in order.
    out: SmallVec<[NodeId; 4]>,
    /// How many special nodes were passed over so far.
    passes: usize,
}

/// What one pod of a class adds ([`Matches::of`]), the node it came to or left, and how many came.
pub type Move<'a> = (NodeId, &'a [(u16, i64)], i64);

// === impl Overlay ===

impl Overlay {
    /// Counts for a class whose family's nodes are on a sorted list of its [`super::Ground`].
    #[must_use]
    pub fn new(prepared: &Prepared, nodes: &Snapshot, matches: &Matches, sorted: &SortedNodes) -> Self {
        let wide = Wide::with_tables(Tables::uncounted(prepared, &sorted.ground().by_count()));
        let (strata, special, stale, out) = (Vec::new(), Map::default(), Vec::new(), SmallVec::new());
        let mut overlay = Self { wide, strata, special, stale, out, passes: 0 };
        overlay.learn_empty_domains(prepared, nodes);
        for (class, amounts) in matches.all() {
            for (slot, pods) in nodes.homes(class) {
                overlay.count(prepared, nodes, sorted, slot, amounts, i64::from(pods));
            }
        }
        overlay.refresh(prepared, nodes, matches, sorted);
        overlay
    }

    /// Takes over what happened to nodes, the sorted list being up to date: a node that something happened to, and if it was a
    /// pod that came or left, what of it is counted.
    pub fn follow<'a>(
        &mut self,
        prepared: &Prepared,
        nodes: &Snapshot,
        matches: &Matches,
        sorted: &SortedNodes,
        moves: impl Iterator<Item = Move<'a>>,
    ) {
        for (node, amounts, pods) in moves {
            if let Some(slot) = nodes.slot(node) {
                self.count(prepared, nodes, sorted, slot, amounts, pods);
            }
            if self.special.contains_key(&node) {
                self.stale.push(node);
            }
        }
        self.refresh(prepared, nodes, matches, sorted);
    }

    /// Makes the nodes that other pods are nominated to what they are for one pod, the sorted list being up to date: a node is no
    /// choice that is refused with those pods on it. The pod's own nominated node is not looked at.
    pub fn lay_over(
        &mut self,
        prepared: &Prepared,
        nodes: &mut Snapshot,
        matches: &Matches,
        sorted: &SortedNodes,
        nominations: &Nominations,
    ) {
        if nominations.beside.is_empty() && self.out.is_empty() {
            return;
        }
        let (mut shifts, idle) = (beside::no_shifts(prepared), beside::idle(prepared, Some(self.wide.tables())));
        let mut counted = Beside { prepared, tables: Some(self.wide.tables_mut()), shifts: &mut shifts, idle: &idle };
        let mut out: SmallVec<[NodeId; 4]> = SmallVec::new();
        for (node, classes) in &nominations.beside {
            let Some(slot) = nodes.slot(*node) else { continue };
            let others = known(nodes, classes);
            if counted.first_pass(nodes, (*node, slot), &others).is_some() {
                out.push(*node);
            }
        }
        out.sort_unstable();
        let old = std::mem::replace(&mut self.out, out);
        if old == self.out {
            return;
        }
        let moved = |one: &[NodeId], other: &[NodeId]| -> SmallVec<[NodeId; 4]> {
            one.iter().filter(|node| !other.contains(node)).copied().collect()
        };
        let mut changed = moved(&old, &self.out);
        changed.extend(moved(&self.out, &old));
        for node in changed {
            self.special.entry(node).or_insert(None);
            self.stale.push(node);
        }
        self.refresh(prepared, nodes, matches, sorted);
    }

    /// The best node as things stand, the sorted list being up to date.
    pub fn best(&mut self, prepared: &Prepared, nodes: &Snapshot, sorted: &SortedNodes) -> Best {
        self.learn_strata(prepared, nodes, sorted);
        for (&(group, taken), stratum) in self.strata.iter().zip(sorted.strata()) {
            let left = stratum.members.len().saturating_sub(taken);
            let mut members = stratum.members.iter();
            let head = members.by_ref().take(if left == 0 { 0 } else { usize::MAX }).find(|member| {
                let special = !self.special.is_empty() && self.special.contains_key(&member.node);
                self.passes += usize::from(special);
                !special
            });
            let head = head.map(|&member| (member, sorted.is_repaired(member.node)));
            self.wide.set_shared(group, left, head);
        }
        self.wide.best(prepared)
    }

    /// Whether more than one node is feasible, as of the last [`Self::best`].
    #[must_use]
    pub fn has_choice(&self) -> bool {
        self.wide.has_choice()
    }

    /// Whether a book of the class's own is cheaper by now.
    #[must_use]
    pub fn is_outgrown(&self, sorted: &SortedNodes) -> bool {
        self.passes > MAX_PASSES * sorted.len()
    }

    /// How many nodes the class holds by itself.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.special.len()
    }

    /// Whether what is known of a node is what it is by itself.
    pub fn confirms(&mut self, offer: Offer, feasible: &Feasible, sorted: &SortedNodes) -> bool {
        if self.special.contains_key(&offer.node) {
            return self.wide.confirms(offer.node, feasible);
        }
        let group = sorted.stratum_of(offer.node).and_then(|stratum| self.strata.get(stratum));
        sorted.base(offer.node) == Some(feasible.base)
            && group.is_some_and(|&(group, _)| self.wide.raws_of(group) == feasible.raws.as_slice())
    }

    /// How a node that passes every filter which needs it alone does otherwise: its total as of the last [`Self::best`],
    /// or the first domain-level filter that refuses it.
    #[must_use]
    pub fn judged(
        &self,
        prepared: &Prepared,
        sorted: &SortedNodes,
        node: NodeId,
    ) -> Option<Result<i64, (Order, Refusal)>> {
        if self.special.contains_key(&node) {
            return self.wide.judged(prepared, node);
        }
        let (group, _) = *self.strata.get(sorted.stratum_of(node)?)?;
        Some(self.wide.judged_in(prepared, group, sorted.base(node)?))
    }

    /// Domains of some terms are known although nothing is counted in them.
    fn learn_empty_domains(&mut self, prepared: &Prepared, nodes: &Snapshot) {
        let plugins: SmallVec<[&dyn Domains; 4]> = prepared.domain_plugins().collect();
        for (at, term) in prepared.terms().iter().enumerate().filter(|(_, term)| term.spec.knows_empty) {
            let column = nodes.label_column(term.spec.key);
            let values = nodes.label_values(term.spec.key).filter(|_| !term.spec.lacking_is_empty);
            let (mut known, mut found) = (Vec::new(), 0);
            for slot in nodes.live() {
                let value = column.get(slot as usize).copied().unwrap_or(Symbol::NONE);
                // Nodes that lack the label are one with those whose value is empty.
                let number = if value == Symbol::NONE { 0 } else { value.index() + 1 };
                if known.get(number) == Some(&true)
                    || (number == 0 && !term.spec.lacking_is_empty)
                    || !plugins[term.plugin].counts_node(term.number, nodes, slot)
                {
                    continue;
                }
                if known.len() <= number {
                    known.resize(number + 1, false);
                }
                known[number] = true;
                self.wide.count(at, nodes.symbols.text(value), 0);
                found += 1;
                if Some(found) == values {
                    break;
                }
            }
        }
    }

    /// Takes over the strata that the sorted list has got since.
    fn learn_strata(&mut self, prepared: &Prepared, nodes: &Snapshot, sorted: &SortedNodes) {
        for stratum in sorted.strata().iter().skip(self.strata.len()) {
            let local = |local| if stratum.has_local(sorted.ground(), local) { 0 } else { -1 };
            let raws = raws(prepared, stratum.raws(), local);
            let group = self.wide.share(raws, &stratum.domains(sorted.ground(), nodes));
            self.strata.push((group, 0));
        }
    }

    /// So many pods came to the node at a position, or left it, that add these amounts each.
    fn count(
        &mut self,
        prepared: &Prepared,
        nodes: &Snapshot,
        sorted: &SortedNodes,
        slot: Slot,
        amounts: &[(u16, i64)],
        pods: i64,
    ) {
        if amounts.is_empty() {
            return;
        }
        self.wide.shift(prepared, nodes, slot, amounts, pods);
        for &(at, _) in amounts {
            match prepared.terms().get(at as usize) {
                None => self.single_out(nodes.id(slot).as_slice()),
                Some(term) if sorted.ground().is_by_count(term.key) => {
                    self.single_out(sorted.residents(term.spec.key, nodes.label(term.spec.key, slot)));
                }
                Some(_) => {}
            }
        }
    }

    /// These nodes are special from now on.
    fn single_out(&mut self, nodes: &[NodeId]) {
        for &node in nodes {
            if !self.special.contains_key(&node) {
                self.special.insert(node, None);
                self.stale.push(node);
            }
        }
    }

    /// Puts the stale nodes where they belong.
    fn refresh(&mut self, prepared: &Prepared, nodes: &Snapshot, matches: &Matches, sorted: &SortedNodes) {
        self.learn_strata(prepared, nodes, sorted);
        let mut stale = std::mem::take(&mut self.stale);
        stale.sort_unstable();
        stale.dedup();
        for node in stale.drain(..) {
            let Some(known) = self.special.get_mut(&node) else { continue };
            let place = sorted.stratum_of(node);
            if let Some((_, taken)) = std::mem::replace(known, place).and_then(|old| self.strata.get_mut(old)) {
                *taken -= 1;
            }
            if let Some((_, taken)) = place.and_then(|new| self.strata.get_mut(new)) {
                *taken += 1;
            }
            let place = place.filter(|_| !self.out.contains(&node));
            let feasible = place.zip(sorted.base(node)).zip(nodes.slot(node)).map(|((place, base), slot)| {
                let local = |local| prepared.local(nodes, slot, local, matches);
                let raws = raws(prepared, sorted.strata()[place].raws(), local);
                Feasible { base, raws, domains: prepared.domains(nodes, slot) }
            });
            self.wide.repair(node, sorted.rank(node), feasible);
        }
        self.stale = stale;
    }
}

/// The raw scores of a class on nodes of which the head of its family has those, and what is counted on them singly.
fn raws(prepared: &Prepared, of_head: &[i64], local: impl Fn(usize) -> i64) -> Raws {
    let mut of_head = of_head.iter();
    let mut locals = 0..prepared.locals().len();
    let mut raws = Raws::new();
    for normalized in prepared.normalized() {
        match &normalized.score {
            Score::Node(_) => raws.push(of_head.next().copied().unwrap_or_default()),
            Score::Domain(score) => raws.extend(locals.by_ref().take(score.locals().len()).map(&local)),
        }
    }
    raws
}
