//! What one class finds on all nodes: the best of them, and why the others are refused.
//!
//! The nodes of a class that counts nothing are on sorted lists of its own, as the shards gave them. A class that counts
//! something over domains shares the list of its family: to most of them most nodes are special in nothing but their
//! zone. The class itself holds only the nodes on which, or in whose domain of a label with many values, something is
//! counted. So a class that is new costs time by the pods that it counts, not by the nodes there are. A class that counts
//! and has answers of its own holds all nodes itself. Nodes that nominations change are special to any class
//! ([`super::nominations`]).
//!
//! A view stays exact while the cluster changes: each node that changed is judged again and takes its place among those
//! that did not change, and each pod that came or went moves what is counted. Only when a list runs dry, so that nodes
//! without an offer could be next, must the shards be asked again.
//!
//! Knows: merging, which nodes are special to a class, and what is refused why. Must not know: when to ask, who waits for the
//! answer, or when a family's list is brought up to date.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::{
    best::Best,
    counted::{Counted, Raws},
    nominated::Changed,
    sorted::{Cursor, SortedNodes},
};
use crate::{
    domains::Tables,
    evaluation::{Evaluation, Offer, Refused},
    extension::{Domain, Domains, Score, Tally},
    map::Map,
    matches::Matches,
    node::NodeId,
    prepared::{Feasible, NodeResult, Order, Prepared},
    snapshot::{Slot, Snapshot},
    status::{Code, Refusal},
    symbols::Symbol,
};

/// One class. What takes `family` is given the list that the view was laid over ([`View::over`]), up to date; a view of the
/// class's own answers ([`View::new`]) needs none.
#[derive(Debug)]
pub struct View {
    pub(super) counted: Counted,
    /// The class's own list, where it counts nothing.
    pub(super) own: Option<SortedNodes>,
    /// The strata of the sorted list.
    strata: Vec<Place>,
    /// The special nodes, and which stratum of the sorted list each is in.
    special: Map<NodeId, Option<usize>>,
    /// Special nodes of which something has changed.
    stale: Vec<NodeId>,
    pub(super) refused: Vec<Refused>,
    /// The nodes that were judged anew and of which it cannot be told whether they will do.
    pub(super) failing: BTreeMap<NodeId, (Order, Refusal)>,
    covered: u32,
    /// How many nodes were judged anew, and how many pods moved counts.
    changes: usize,
    /// What nominations change, for the pod that is decided on.
    pub(super) changed: BTreeMap<NodeId, Changed>,
    /// The filter that refuses the pod's own nominated node, where PreFilters left only some names; else 0.
    pub(super) blamed: Order,
}

/// What a class knows of a stratum.
#[derive(Debug)]
struct Place {
    group: usize,
    /// How many of its nodes are special.
    special: usize,
    cursor: Cursor,
}

/// What one pod of a class adds ([`Matches::of`]), the node it came to or left, and how many came.
pub type Move<'a> = (NodeId, &'a [(u16, i64)], i64);

// === impl View ===

impl View {
    /// Merges the answers of all shards and judges whole domains.
    #[must_use]
    pub fn new(prepared: &Prepared, evaluations: Vec<Evaluation>) -> Self {
        let covered = evaluations.iter().fold(0_u32, |sum, evaluation| sum.saturating_add(evaluation.covered));
        let mut refused: Map<(Order, Refusal), u32> = Map::default();
        let mut refuse = |refusal: (Order, Refusal), nodes: u32| {
            let count = refused.entry(refusal).or_default();
            *count = count.saturating_add(nodes);
        };
        let mut counted = Counted::new(prepared, &evaluations);
        for group in evaluations.iter().flat_map(|evaluation| &evaluation.refused) {
            // A domain-level filter that stands before the one that refused would have refused first.
            let earlier = counted.judge(prepared, &group.domains, group.order).err();
            refuse(earlier.unwrap_or((group.order, group.refusal)), group.count);
        }
        let own = if prepared.is_wide() {
            evaluations.iter().flat_map(|evaluation| &evaluation.strata).for_each(|stratum| counted.add(stratum));
            let refusals = counted.refusals(prepared);
            refusals.for_each(|(refusal, nodes)| refuse(refusal, u32::try_from(nodes).unwrap_or(u32::MAX)));
            None
        } else {
            Some(SortedNodes::of_answers(evaluations))
        };
        let refused = refused.into_iter();
        let refused = refused.map(|((order, refusal), count)| Refused { order, refusal, domains: Vec::new(), count });
        let mut view = Self { own, refused: refused.collect(), covered, ..Self::empty(counted) };
        view.learn_own_strata(prepared);
        view
    }

    /// Counts for a class whose family's nodes are on a sorted list of its [`super::Ground`].
    #[must_use]
    pub fn over(prepared: &Prepared, nodes: &Snapshot, matches: &Matches, family: &SortedNodes) -> Self {
        let tables = Tables::uncounted(prepared, &family.ground().by_count());
        let mut view = Self::empty(Counted::with_tables(tables));
        view.learn_empty_domains(prepared, nodes);
        for (class, amounts) in matches.all() {
            for (slot, pods) in nodes.homes(class) {
                view.count(prepared, nodes, family, slot, amounts, i64::from(pods));
            }
        }
        view.learn_strata(prepared, nodes, family);
        view.refresh(prepared, nodes, matches, Some(family));
        view
    }

    fn empty(counted: Counted) -> Self {
        Self {
            counted,
            own: None,
            strata: Vec::new(),
            special: Map::default(),
            stale: Vec::new(),
            refused: Vec::new(),
            failing: BTreeMap::new(),
            covered: 0,
            changes: 0,
            changed: BTreeMap::new(),
            blamed: 0,
        }
    }

    /// How many nodes the answers covered.
    #[must_use]
    pub const fn covered(&self) -> u32 {
        self.covered
    }

    /// Whether nothing changed since the shards answered, so that [`Self::refused`] is exact.
    #[must_use]
    pub const fn is_untouched(&self) -> bool {
        self.changes == 0
    }

    /// How many nodes of a class's own list were judged anew since the shards answered.
    #[must_use]
    pub fn touched(&self) -> usize {
        self.own.as_ref().map_or(0, SortedNodes::touched)
    }

    /// How many nodes the class holds by itself, at some 120 bytes each; its own list is what shards gave.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.counted.len()
    }

    /// The refused nodes by first failing filter, as of the class's own answers and apart from nominations.
    #[must_use]
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// Takes over what a node looks like now, into a view of the class's own answers. `None`: it is gone. A node whose labels
    /// or taints changed, one that is new and one that is gone move counts over domains in ways that this does not know of:
    /// the view of a class that counts is no good then.
    pub fn repair(
        &mut self,
        prepared: &Prepared,
        nodes: &Snapshot,
        matches: &Matches,
        node: NodeId,
        result: Option<NodeResult>,
    ) {
        self.changes += 1;
        match result {
            Some(NodeResult::Refused(order, refusal)) if refusal.code == Code::Error => {
                self.failing.insert(node, (order, refusal));
            }
            _ => _ = self.failing.remove(&node),
        }
        match &mut self.own {
            // One that is kept free for others is no choice, whatever it looks like: the next nominations put it back.
            None => self.replace(nodes, node, result.filter(|_| !self.is_out(node))),
            Some(own) => {
                own.repair(nodes, node, result.as_ref());
                self.learn_own_strata(prepared);
                if self.note(None, node) {
                    self.refresh(prepared, nodes, matches, None);
                }
            }
        }
    }

    /// So many pods came to the node at a position, or left it where it is less than none, each of which adds these
    /// amounts to what is counted over domains ([`Prepared::amounts`]), in a view of the class's own answers.
    pub fn shift(&mut self, prepared: &Prepared, nodes: &Snapshot, slot: Slot, amounts: &[(u16, i64)], pods: i64) {
        if self.own.is_none() && !amounts.is_empty() {
            self.changes += 1;
            self.counted.shift(prepared, nodes, slot, amounts, pods);
        }
    }

    /// Takes over what happened to nodes, the family's list being up to date: a node that something happened to, and if it
    /// was a pod that came or left, what of it is counted.
    pub fn follow<'a>(
        &mut self,
        prepared: &Prepared,
        nodes: &Snapshot,
        matches: &Matches,
        family: &SortedNodes,
        moves: impl Iterator<Item = Move<'a>>,
    ) {
        self.learn_strata(prepared, nodes, family);
        for (node, amounts, pods) in moves {
            if let Some(slot) = nodes.slot(node) {
                self.count(prepared, nodes, family, slot, amounts, pods);
            }
            self.note(Some(family), node);
        }
        self.refresh(prepared, nodes, matches, Some(family));
    }

    /// The best node as things stand.
    pub fn best(&mut self, prepared: &Prepared, family: Option<&SortedNodes>) -> Best {
        let Self { counted, own, strata, special, .. } = self;
        if let Some(sorted) = own.as_ref().or(family) {
            let is_special = |node: NodeId| !special.is_empty() && special.contains_key(&node);
            for (at, (place, stratum)) in strata.iter_mut().zip(sorted.strata()).enumerate() {
                let Ok(head) = sorted.head(at, &mut place.cursor, is_special) else { return Best::Dry };
                let len = if sorted.is_indexed() { stratum.len() - place.special } else { usize::from(head.is_some()) };
                counted.set_shared(place.group, len, head);
            }
        }
        counted.best(prepared)
    }

    /// All feasible nodes with their totals, in no order. `None`: the shards know of more than the view does.
    pub fn feasible(&mut self, prepared: &Prepared, family: Option<&SortedNodes>) -> Option<Vec<(Offer, i64)>> {
        if self.best(prepared, family) == Best::Dry {
            return None;
        }
        let mut all: Vec<(Offer, i64)> = self.counted.feasible().collect();
        for (complete, bonus, rest) in self.rest(family) {
            if !complete {
                return None;
            }
            all.extend(rest.map(|offer| (offer, offer.base.saturating_add(bonus))));
        }
        Some(all)
    }

    /// Whether more than one node is feasible; upstream scores only then. Exact after [`Self::best`] gave a node.
    #[must_use]
    pub fn has_choice(&self, family: Option<&SortedNodes>) -> bool {
        if self.own.is_none() {
            return self.counted.has_choice();
        }
        let listed = self.rest(family).map(|(complete, _, rest)| rest.take(2).count() + usize::from(!complete));
        listed.sum::<usize>() + self.counted.feasible().take(2).count() > 1
    }

    /// How a node does whose class counts something over domains: its total as of the last [`Self::best`], or the first
    /// domain-level filter that refuses it. `None` where another filter does, and for a class that counts nothing.
    #[must_use]
    pub fn judged(
        &self,
        prepared: &Prepared,
        node: NodeId,
        family: Option<&SortedNodes>,
    ) -> Option<Result<i64, (Order, Refusal)>> {
        match family {
            _ if self.own.is_some() => None,
            Some(family) if !self.special.contains_key(&node) => {
                let (stratum, offer) = family.row(node)?;
                Some(self.counted.judged_in(prepared, self.strata.get(stratum)?.group, offer.base))
            }
            _ => self.counted.judged(prepared, node),
        }
    }

    /// Whether an offer and its total as of the last [`Self::best`] say of its node what the node is.
    pub fn confirms(&mut self, offer: Offer, total: i64, feasible: &Feasible, family: Option<&SortedNodes>) -> bool {
        match family {
            _ if self.counted.holds(offer.node) => self.counted.confirms(offer.node, feasible),
            // The node may stand among others whose raw scores are not its own.
            None if self.own.is_some() => {
                let group = self.counted.group_of(offer.node, &feasible.raws);
                let bonus = group.and_then(|group| self.counted.bonus(group));
                offer.base == feasible.base && bonus.map(|bonus| offer.base.saturating_add(bonus)) == Some(total)
            }
            None => false,
            Some(family) => {
                let Some((stratum, known)) = family.row(offer.node) else { return false };
                let raws = self.strata.get(stratum).map(|place| self.counted.raws_of(place.group));
                known.base == feasible.base && raws == Some(feasible.raws.as_slice())
            }
        }
    }

    /// Whether a node that is feasible as far as it alone tells, in these domains, is feasible by what is counted too, and
    /// nominations have nothing to say about it.
    pub fn suits(&mut self, prepared: &Prepared, node: NodeId, domains: &[Domain]) -> bool {
        !self.changed.contains_key(&node) && self.counted.judge(prepared, domains, Order::MAX).is_ok()
    }

    /// Whether what is counted over domains is what another process counted on all nodes.
    #[must_use]
    pub fn agrees(&self, prepared: &Prepared, counted: &[Tally]) -> bool {
        self.own.is_some() || self.counted.agrees(prepared, counted)
    }

    /// For each open stratum the nodes that are not special, whether none is left out, and what they score beside what each
    /// scores by itself.
    fn rest<'a>(
        &'a self,
        family: Option<&'a SortedNodes>,
    ) -> impl Iterator<Item = (bool, i64, impl Iterator<Item = Offer> + 'a)> {
        let sorted = self.own.as_ref().or(family);
        let is_special = |node: NodeId| self.special.contains_key(&node);
        sorted.into_iter().flat_map(move |sorted| {
            self.strata.iter().enumerate().filter_map(move |(at, place)| {
                let (complete, rest) = sorted.rest(at, &place.cursor, is_special);
                Some((complete, self.counted.bonus(place.group)?, rest))
            })
        })
    }

    /// Domains of some terms are known although nothing is counted in them.
    fn learn_empty_domains(&mut self, prepared: &Prepared, nodes: &Snapshot) {
        let plugins: SmallVec<[&dyn Domains; 4]> = prepared.domain_plugins().collect();
        for (at, term) in prepared.terms().iter().enumerate().filter(|(_, term)| term.spec.knows_empty) {
            let column = nodes.label_column(term.spec.key);
            let values = nodes.label_values(term.spec.key).filter(|_| !term.spec.lacking_is_empty);
            let (mut known, mut found) = (Vec::new(), 0);
            for slot in nodes.live() {
                let value = column.get(slot);
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
                self.counted.count(at, nodes.symbols.text(value), 0);
                found += 1;
                if Some(found) == values {
                    break;
                }
            }
        }
    }

    /// Takes over the strata that the family's list has got since.
    fn learn_strata(&mut self, prepared: &Prepared, nodes: &Snapshot, family: &SortedNodes) {
        for stratum in family.strata().iter().skip(self.strata.len()) {
            let local = |local| if stratum.has_local(family.ground(), local) { 0 } else { -1 };
            let raws = raws(prepared, stratum.raws(), local);
            let group = self.counted.share(raws, &stratum.domains(family.ground(), nodes));
            self.strata.push(Place { group, special: 0, cursor: Cursor::default() });
        }
    }

    /// As [`Self::learn_strata`], of the class's own list, on which nothing is counted.
    pub(super) fn learn_own_strata(&mut self, prepared: &Prepared) {
        let Some(own) = &self.own else { return };
        for stratum in own.strata().iter().skip(self.strata.len()) {
            let group = self.counted.share(raws(prepared, stratum.raws(), |_| -1), &[]);
            self.strata.push(Place { group, special: 0, cursor: Cursor::default() });
        }
    }

    /// So many pods came to the node at a position, or left it, that add these amounts each.
    fn count(
        &mut self,
        prepared: &Prepared,
        nodes: &Snapshot,
        family: &SortedNodes,
        slot: Slot,
        amounts: &[(u16, i64)],
        pods: i64,
    ) {
        if amounts.is_empty() {
            return;
        }
        self.counted.shift(prepared, nodes, slot, amounts, pods);
        for &(at, _) in amounts {
            match prepared.terms().get(at as usize) {
                None => self.single_out(nodes.id(slot).as_slice()),
                Some(term) if family.ground().is_by_count(term.key) => {
                    self.single_out(family.residents(term.spec.key, nodes.label(term.spec.key, slot)));
                }
                Some(_) => {}
            }
        }
    }

    /// These nodes are special from now on.
    pub(super) fn single_out(&mut self, nodes: &[NodeId]) {
        for &node in nodes {
            if !self.special.contains_key(&node) {
                self.special.insert(node, None);
                self.stale.push(node);
            }
        }
    }

    /// Something has changed on a node of the sorted list. Whether it is special.
    pub(super) fn note(&mut self, family: Option<&SortedNodes>, node: NodeId) -> bool {
        let special = self.special.contains_key(&node);
        if special {
            self.stale.push(node);
        } else if let Some((stratum, offer)) = self.own.as_ref().or(family).and_then(|sorted| sorted.row(node))
            && let Some(place) = self.strata.get_mut(stratum)
        {
            place.cursor.rewind(offer);
        }
        special
    }

    /// Puts the stale nodes where they belong.
    pub(super) fn refresh(
        &mut self,
        prepared: &Prepared,
        nodes: &Snapshot,
        matches: &Matches,
        family: Option<&SortedNodes>,
    ) {
        let mut stale = std::mem::take(&mut self.stale);
        stale.sort_unstable();
        stale.dedup();
        for node in stale.drain(..) {
            let Some(sorted) = self.own.as_ref().or(family) else { continue };
            let Some(known) = self.special.get_mut(&node) else { continue };
            let row = sorted.row(node);
            let place = row.map(|(stratum, _)| stratum);
            if let Some(old) = std::mem::replace(known, place).and_then(|old| self.strata.get_mut(old)) {
                old.special -= 1;
            }
            if let Some(new) = place.and_then(|new| self.strata.get_mut(new)) {
                new.special += 1;
            }
            let row = row.filter(|_| !self.is_out(node));
            let feasible = row.zip(nodes.slot(node)).map(|((stratum, Offer { base, .. }), slot)| {
                let local = |local| prepared.local(nodes, slot, local, matches);
                let raws = raws(prepared, sorted.strata()[stratum].raws(), local);
                Feasible { base, raws, domains: prepared.domains(nodes, slot) }
            });
            self.counted.repair(node, row.map_or(0, |(_, offer)| offer.rank), feasible);
        }
        self.stale = stale;
    }

    /// Takes over what a node looks like among those that the class holds itself.
    pub(super) fn replace(&mut self, nodes: &Snapshot, node: NodeId, result: Option<NodeResult>) {
        let feasible = match result {
            Some(NodeResult::Feasible(feasible)) => Some(feasible),
            Some(NodeResult::Refused(..)) | None => None,
        };
        let rank = nodes.slot(node).map_or(0, |slot| nodes.rank(slot));
        self.counted.repair(node, rank, feasible);
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
