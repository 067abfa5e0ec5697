//! One class's view of all nodes: the best of them, and the refusals of the others.
//!
//! The nodes of a class without counts are on its own sorted lists, as the shards answered. A class that counts over domains shares the
//! list of its family. It holds only its special nodes itself: nodes with counted pods, or in a counted domain of a label with many values.
//! So a new class costs time by counted pods, not by nodes. A class that counts and has its own answers holds all nodes itself. Nodes
//! changed by nominations are special in any class ([`super::nominations`]).

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::{
    best::Best,
    counted::{Counted, Raws},
    nominated::{Changed, Judged},
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

/// All nodes as the pods of one class see them, for one decision after the other.
///
/// [`Self::new`] takes the shards' answers for the class; then pass `None` as `family`. [`Self::over`] uses the sorted list of the class's
/// family; then pass that list, up to date.
///
/// 1. Apply changes. After [`Self::new`]: [`Self::repair`] for each changed node, [`Self::shift`] for each added or removed pod. After
///    [`Self::over`]: update the list, then [`Self::follow`].
/// 2. [`Self::lay_over`] with the pod's nominations, even if there are none.
/// 3. [`Self::error`] fails the attempt; otherwise [`Self::best`].
/// 4. On [`Best::Dry`], request new answers and create a new view. On [`Best::Nothing`], [`Self::refused_now`] has the reasons, exact only
///    if [`Self::is_untouched`]. [`Self::has_choice`], [`Self::fault`], [`Self::judged`] and [`Self::confirms`] refer to the last
///    [`Self::best`].
///
/// The best node equals that of a new view of the current cluster, unless the result is [`Best::Dry`]. The view trusts the shards' answers;
/// [`Self::confirms`] compares an offer with a local evaluation.
#[derive(Debug)]
pub struct View {
    pub(super) counted: Counted,
    pub(super) own: Option<SortedNodes>,
    strata: Vec<ViewPosition>,
    /// The special nodes, with their stratum of the sorted list.
    special: Map<NodeId, Option<usize>>,
    stale: Vec<NodeId>,
    pub(super) refused: Vec<Refused>,
    pub(super) failing: BTreeMap<NodeId, (Order, Refusal)>,
    covered: u32,
    /// The number of re-evaluated nodes and of pods that changed counts.
    changes: usize,
    pub(super) changed: BTreeMap<NodeId, Changed>,
    /// The results of the nominated nodes, in ascending order, unless filters count over domains.
    pub(super) judged: Vec<Judged>,
    /// The filter that refuses the pod's own nominated node if PreFilters restrict node names; otherwise 0.
    pub(super) blamed: Order,
}

#[derive(Debug)]
struct ViewPosition {
    group: usize,
    special: usize,
    cursor: Cursor,
}

/// A node, the additions of one pod there ([`Matches::of`]), and the number of pods added or, if negative, removed.
pub type Move<'a> = (NodeId, &'a [(u16, i64)], i64);

impl View {
    /// Merges the answers of all shards and applies domain-level filters.
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
            // A domain-level filter before the one that refused would have refused first.
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

    /// Counts for a class with the sorted list of its family, which has its [`super::Ground`].
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
            judged: Vec::new(),
            blamed: 0,
        }
    }

    /// The number of nodes in the answers.
    #[must_use]
    pub const fn covered(&self) -> u32 {
        self.covered
    }

    /// Whether nothing changed since the shards answered, so that [`Self::refused`] is exact.
    #[must_use]
    pub const fn is_untouched(&self) -> bool {
        self.changes == 0
    }

    /// The number of re-evaluated nodes on the class's own list.
    #[must_use]
    pub fn touched(&self) -> usize {
        self.own.as_ref().map_or(0, SortedNodes::touched)
    }

    /// The number of nodes that the class holds itself, at some 120 bytes each, besides its own list: those that it counts, and those with
    /// nominated pods.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.counted.len() + self.judged.len()
    }

    /// The refused nodes by first failing filter, from the class's own answers, without nominations.
    #[must_use]
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// Replaces a node's result in a view of the class's own answers. `None`: removed. For a class that counts over domains, a node that
    /// was added, removed, or changed its labels or taints invalidates the view.
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
            // A node that nominations make infeasible stays out; the next nominations put it back.
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

    /// Counts `pods` pods added to a node, negative if removed, with these [`Prepared::amounts`], in a view of the class's own answers.
    pub fn shift(&mut self, prepared: &Prepared, nodes: &Snapshot, slot: Slot, amounts: &[(u16, i64)], pods: i64) {
        if self.own.is_none() && !amounts.is_empty() {
            self.changes += 1;
            self.counted.shift(prepared, nodes, slot, amounts, pods);
        }
    }

    /// Applies changes of nodes and pods, after the family's list was updated.
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

    /// The current best node.
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

    /// All feasible nodes with their totals, unordered. `None` if only the shards know all of them.
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

    /// Whether more than one node is feasible; kube-scheduler scores only then. Exact after [`Self::best`] returned a node.
    #[must_use]
    pub fn has_choice(&self, family: Option<&SortedNodes>) -> bool {
        if self.own.is_none() {
            return self.counted.has_choice();
        }
        let listed = self.rest(family).map(|(complete, _, rest)| rest.take(2).count() + usize::from(!complete));
        listed.sum::<usize>() + self.counted.feasible().take(2).count() > 1
    }

    /// The result of a node for a class that counts over domains: its total as of the last [`Self::best`], or the refusal of the first
    /// domain-level filter. `None` if another filter refuses it, and for other classes.
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

    /// Whether an offer and its total as of the last [`Self::best`] match the node's local evaluation.
    pub fn confirms(&mut self, offer: Offer, total: i64, feasible: &Feasible, family: Option<&SortedNodes>) -> bool {
        match family {
            _ if self.counted.holds(offer.node) => self.counted.confirms(offer.node, feasible),
            // The offer's stratum may not match the node's actual raw scores.
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

    /// Whether a node that passes all node-local filters also passes the domain-level ones and is not changed by nominations.
    pub fn suits(&mut self, prepared: &Prepared, node: NodeId, domains: &[Domain]) -> bool {
        !self.changed.contains_key(&node) && self.counted.judge(prepared, domains, Order::MAX).is_ok()
    }

    /// Whether the counts over domains equal another process's counts of all nodes.
    #[must_use]
    pub fn agrees(&self, prepared: &Prepared, counted: &[Tally]) -> bool {
        self.own.is_some() || self.counted.agrees(prepared, counted)
    }

    /// For each open stratum: whether its nodes are complete, the addition to their base scores, and the nodes that are not special.
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

    /// Some terms know domains in which nothing is counted.
    fn learn_empty_domains(&mut self, prepared: &Prepared, nodes: &Snapshot) {
        let plugins: SmallVec<[&dyn Domains; 4]> = prepared.domain_plugins().collect();
        for (at, term) in prepared.terms().iter().enumerate().filter(|(_, term)| term.spec.knows_empty) {
            let column = nodes.label_column(term.spec.key);
            let values = nodes.label_values(term.spec.key).filter(|_| !term.spec.lacking_is_empty);
            let (mut known, mut found) = (Vec::new(), 0);
            for slot in nodes.live() {
                let value = column.get(slot);
                // Nodes without the label count as nodes with an empty value.
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

    fn learn_strata(&mut self, prepared: &Prepared, nodes: &Snapshot, family: &SortedNodes) {
        for stratum in family.strata().iter().skip(self.strata.len()) {
            let local = |local| if stratum.has_local(family.ground(), local) { 0 } else { -1 };
            let raws = raws(prepared, stratum.raws(), local);
            let group = self.counted.share(raws, &stratum.domains(family.ground(), nodes));
            self.strata.push(ViewPosition { group, special: 0, cursor: Cursor::default() });
        }
    }

    /// As [`Self::learn_strata`], for the class's own list, which has no counts.
    pub(super) fn learn_own_strata(&mut self, prepared: &Prepared) {
        let Some(own) = &self.own else { return };
        for stratum in own.strata().iter().skip(self.strata.len()) {
            let group = self.counted.share(raws(prepared, stratum.raws(), |_| -1), &[]);
            self.strata.push(ViewPosition { group, special: 0, cursor: Cursor::default() });
        }
    }

    /// Counts pods added to the node at a position, or removed, that add these amounts each.
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

    pub(super) fn single_out(&mut self, nodes: &[NodeId]) {
        for &node in nodes {
            if !self.special.contains_key(&node) {
                self.special.insert(node, None);
                self.stale.push(node);
            }
        }
    }

    /// Records a change of a node on the sorted list. Returns whether it is special.
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

    /// Moves the stale nodes to their groups.
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

    /// Replaces a node's result among those that the class holds itself.
    pub(super) fn replace(&mut self, nodes: &Snapshot, node: NodeId, result: Option<NodeResult>) {
        let feasible = match result {
            Some(NodeResult::Feasible(feasible)) => Some(feasible),
            Some(NodeResult::Refused(..)) | None => None,
        };
        let rank = nodes.slot(node).map_or(0, |slot| nodes.rank(slot));
        self.counted.repair(node, rank, feasible);
    }
}

/// The raw scores of a class from those of its family's head, with node-local counts inserted.
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
