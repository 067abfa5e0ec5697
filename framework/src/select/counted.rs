//! Groups of nodes by raw scores and domains, evaluated by the counts of one class ([`crate::domains`]).
//!
//! Every pod changes counts, so each decision determines the open groups and their scores. The time depends on the number of groups, which
//! is small; a pod moves at most the nodes of one domain. A group has its own nodes, nodes on a sorted list, or both. Without counts, a
//! group is a stratum.

use std::{collections::BTreeSet, ops::Range};

use smallvec::SmallVec;

use super::{
    best::{Best, better},
    normalized::Normalized,
    scale::Scale,
};
use crate::{
    domains::{Codes, DomainId, Places, Sums, Tables},
    evaluation::{Evaluation, Offer, Stratum},
    explain::lack::Shortfall,
    extension::{Domain, Extremes, Filter, Score, Tally},
    map::Map,
    node::NodeId,
    prepared::{Feasible, Normalization, NormalizedScore, Order, Prepared},
    snapshot::{Slot, Snapshot},
    status::Refusal,
    symbols::Symbol,
};

pub(super) type Raws = SmallVec<[i64; 4]>;

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct CountedKey {
    raws: Raws,
    codes: Codes,
}

#[derive(Debug, Default)]
struct Group {
    key: CountedKey,
    members: BTreeSet<Offer>,
    open: bool,
    bonus: i64,
    /// It also has nodes on a sorted list, as of the last look.
    is_shared: bool,
    shared: usize,
    /// The best of them, and whether it was re-evaluated.
    shared_head: Option<(Offer, bool)>,
}

impl Group {
    fn size(&self) -> usize {
        self.members.len() + self.shared
    }

    /// The plugin's view of the group: its terms start at `first`, its locals are these raws.
    fn sums<'a>(&'a self, tables: &'a Tables, first: usize, locals: Range<usize>) -> Sums<'a> {
        Sums { tables, codes: &self.key.codes, locals: self.key.raws.get(locals).unwrap_or_default(), first }
    }
}

#[derive(Debug)]
struct Row {
    places: Places,
    offer: Offer,
    group: usize,
    repaired: bool,
}

#[derive(Debug)]
pub(super) struct Counted {
    tables: Tables,
    rows: Map<NodeId, Row>,
    keys: Map<CountedKey, usize>,
    groups: Vec<Group>,
    free: Vec<usize>,
    residents: Map<DomainId, Vec<NodeId>>,
    /// The scores match the currently open groups.
    is_scored: bool,
    fault: Option<String>,
}

impl Counted {
    pub(super) fn new(prepared: &Prepared, evaluations: &[Evaluation]) -> Self {
        let tallies = evaluations.iter().map(|evaluation| evaluation.tallies.as_slice());
        let domains = evaluations.iter().flat_map(|evaluation| {
            let strata = evaluation.strata.iter().map(|stratum| stratum.domains.as_slice());
            strata.chain(evaluation.refused.iter().map(|refused| refused.domains.as_slice()))
        });
        Self::with_tables(Tables::new(prepared, tallies, domains))
    }

    pub(super) fn with_tables(tables: Tables) -> Self {
        Self {
            tables,
            rows: Map::default(),
            keys: Map::default(),
            groups: Vec::new(),
            free: Vec::new(),
            residents: Map::default(),
            is_scored: false,
            fault: None,
        }
    }

    pub(super) fn judge(
        &mut self,
        prepared: &Prepared,
        domains: &[Domain],
        before: Order,
    ) -> Result<(), (Order, Refusal)> {
        if domains.is_empty() && !prepared.keys().is_empty() {
            // The shard left the domains out, because no domain-level filter precedes the one that refused.
            return Ok(());
        }
        let places = self.tables.places(domains);
        let codes = self.tables.codes(&places);
        prepared.judge_sums(Sums { tables: &self.tables, codes: &codes, locals: &[], first: 0 }, before)
    }

    pub(super) const fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The counts, for a temporary change that the caller reverts.
    pub(super) const fn tables_mut(&mut self) -> &mut Tables {
        &mut self.tables
    }

    pub(super) fn shortfall(&mut self, prepared: &Prepared, domains: &[Domain]) -> Option<Shortfall> {
        let places = self.tables.places(domains);
        let codes = self.tables.codes(&places);
        prepared.filters().iter().find_map(|prepared| {
            let Filter::Domain(filter) = &prepared.filter else { return None };
            let sums = Sums { tables: &self.tables, codes: &codes, locals: &[], first: prepared.first_term };
            let is_refused = filter.judge(sums).is_err();
            is_refused.then(|| Shortfall { plugin: prepared.plugin, lacks: filter.lacks(sums) })
        })
    }

    pub(super) fn add(&mut self, stratum: &Stratum) {
        let places = self.tables.places(&stratum.domains);
        let raws = Raws::from_slice(&stratum.raws);
        let group = self.group(CountedKey { raws, codes: self.tables.codes(&places) });
        self.rows.reserve(stratum.offers.len());
        let mut members = Vec::with_capacity(stratum.offers.len());
        for offer in &stratum.offers {
            let row = Row { places: places.clone(), offer: *offer, group, repaired: false };
            // A correct shard offers each node once, and only its own nodes.
            if self.rows.insert(offer.node, row).is_none() {
                self.settle(offer.node, &places);
                members.push(*offer);
            }
        }
        let known = &mut self.groups[group].members;
        if members.len() < known.len() / 8 {
            known.extend(members);
        } else {
            // In one step: collecting a sorted list into a set takes a tenth of the time of single insertions.
            known.append(&mut members.into_iter().collect());
        }
        self.leave_if_empty(group);
    }

    /// Replaces a node's result. `None`: it was removed or is node-locally infeasible.
    pub(super) fn repair(&mut self, node: NodeId, rank: u64, feasible: Option<Feasible>) {
        self.remove(node);
        if let Some(Feasible { base, raws, domains }) = feasible {
            let places = self.tables.places(&domains);
            self.insert(Offer { node, base, rank }, raws, places, true);
        }
    }

    /// Counts pods added to the node at a position, or removed, that add these amounts each.
    pub(super) fn shift(
        &mut self,
        prepared: &Prepared,
        nodes: &Snapshot,
        slot: Slot,
        amounts: &[(u16, i64)],
        pods: i64,
    ) {
        let plugins: SmallVec<[_; 4]> = prepared.domain_plugins().collect();
        let mut moved: SmallVec<[DomainId; 2]> = SmallVec::new();
        for &(at, amount) in amounts {
            let Some(term) = prepared.terms().get(at as usize) else { continue };
            let value = nodes.label(term.spec.key, slot);
            let somewhere = value != Symbol::NONE || term.spec.lacking_is_empty;
            if !somewhere || !plugins[term.plugin].counts_node(term.number, nodes, slot) {
                continue;
            }
            let domain = self.tables.add(at as usize, nodes.symbols.text(value), amount.saturating_mul(pods));
            if self.tables.is_by_count(domain.0) && !moved.contains(&domain) {
                moved.push(domain);
            }
        }
        for domain in moved {
            for node in self.residents.get(&domain).cloned().unwrap_or_default() {
                self.regroup(node);
            }
        }
    }

    pub(super) fn best(&mut self, prepared: &Prepared) -> Best {
        let (tables, counts) = (&self.tables, prepared.is_wide());
        for group in &mut self.groups {
            let suits = || !counts || prepared.judge_sums(group.sums(tables, 0, 0..0), Order::MAX).is_ok();
            let open = group.size() > 0 && suits();
            self.is_scored &= open == group.open;
            group.open = open;
        }
        // Without counts, scores depend only on the open groups, unless a plugin uses the number of nodes.
        let by_all = |score: &NormalizedScore| matches!(score.normalize, Normalization::ByAll(_));
        if counts || !self.is_scored || prepared.normalized().iter().any(by_all) {
            self.groups.iter_mut().for_each(|group| group.bonus = 0);
            self.fault = None;
            prepared.normalized().iter().for_each(|normalized| self.normalize(normalized));
            self.is_scored = true;
        }
        let heads = self.groups.iter().filter(|group| group.open).filter_map(|group| {
            let own = group.members.first().copied();
            let shared = group.shared_head.filter(|(head, _)| own.is_none_or(|own| *head < own));
            let (offer, repaired) = match shared {
                Some(shared) => shared,
                None => own.map(|own| (own, self.rows.get(&own.node).is_some_and(|row| row.repaired)))?,
            };
            Some((offer.base.saturating_add(group.bonus), offer, repaired))
        });
        better(heads)
    }

    /// The feasible nodes that the groups own, with their totals, as of the last [`Self::best`].
    pub(super) fn feasible(&self) -> impl Iterator<Item = (Offer, i64)> {
        let open = self.groups.iter().filter(|group| group.open);
        open.flat_map(|group| group.members.iter().map(|offer| (*offer, offer.base.saturating_add(group.bonus))))
    }

    /// The addition of a group's scores to its nodes' base scores, as of the last [`Self::best`]; `None` if it is not open.
    pub(super) fn bonus(&self, group: usize) -> Option<i64> {
        self.groups.get(group).filter(|group| group.open).map(|group| group.bonus)
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn has_choice(&self) -> bool {
        self.groups.iter().filter(|group| group.open).map(Group::size).sum::<usize>() > 1
    }

    /// A node's total as of the last [`Self::best`], or the refusal of the first domain-level filter; assumes that node-local filters pass.
    pub(super) fn judged(&self, prepared: &Prepared, node: NodeId) -> Option<Result<i64, (Order, Refusal)>> {
        let row = self.rows.get(&node)?;
        Some(self.judged_in(prepared, row.group, row.offer.base))
    }

    /// As [`Self::judged`], for a node of a group with this base score.
    pub(super) fn judged_in(&self, prepared: &Prepared, group: usize, base: i64) -> Result<i64, (Order, Refusal)> {
        let group = &self.groups[group];
        let total = base.saturating_add(group.bonus);
        prepared.judge_sums(group.sums(&self.tables, 0, 0..0), Order::MAX).map(|()| total)
    }

    /// Adds to a count without moving nodes between groups.
    pub(super) fn count(&mut self, term: usize, domain: &str, amount: i64) {
        self.tables.add(term, domain, amount);
    }

    /// The permanent group of sorted-list nodes with these raw scores and domains.
    pub(super) fn share(&mut self, raws: Raws, domains: &[Domain]) -> usize {
        let codes = self.tables.uncounted_codes(domains);
        let group = self.group(CountedKey { raws, codes });
        self.groups[group].is_shared = true;
        group
    }

    /// Sets the number of a group's nodes on a sorted list, and the best of them.
    pub(super) fn set_shared(&mut self, group: usize, shared: usize, head: Option<(Offer, bool)>) {
        let group = &mut self.groups[group];
        (group.shared, group.shared_head) = (shared, head);
    }

    pub(super) fn raws_of(&self, group: usize) -> &[i64] {
        &self.groups[group].key.raws
    }

    pub(super) fn confirms(&mut self, node: NodeId, feasible: &Feasible) -> bool {
        let places = self.tables.places(&feasible.domains);
        let same = |row: &Row| {
            let raws = &self.groups[row.group].key.raws;
            *raws == feasible.raws && row.places == places && row.offer.base == feasible.base
        };
        self.rows.get(&node).is_some_and(same)
    }

    /// The refusals of nodes that pass every node-local filter, with the number of nodes, group by group.
    pub(super) fn refusals(&self, prepared: &Prepared) -> impl Iterator<Item = ((Order, Refusal), usize)> {
        self.groups.iter().filter_map(|group| {
            let refusal = prepared.judge_sums(group.sums(&self.tables, 0, 0..0), Order::MAX).err()?;
            Some((refusal, group.size()))
        })
    }

    pub(super) fn agrees(&self, prepared: &Prepared, counted: &[Tally]) -> bool {
        Tables::new(prepared, std::iter::once(counted), std::iter::empty()).counts() == self.tables.counts()
    }

    pub(super) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    fn normalize(&mut self, normalized: &NormalizedScore) {
        let (raws, Some(extremes)) = self.raws(normalized) else { return };
        let scale = match self.scale(normalized, &raws, extremes) {
            Ok(scale) => scale,
            Err(error) => {
                self.fault.get_or_insert(error);
                return;
            }
        };
        for (group, raw) in self.groups.iter_mut().zip(raws) {
            if let Some(raw) = raw {
                group.bonus = group.bonus.saturating_add(normalized.weight.saturating_mul(scale.of(raw)));
            }
        }
    }

    /// How a plugin's raw scores are normalised: one raw score per group; open groups count.
    fn scale(&self, normalized: &NormalizedScore, raws: &[Option<i64>], extremes: Extremes) -> Result<Scale, String> {
        let open = self.groups.iter().zip(raws).filter(|(group, _)| group.open);
        Scale::new(&normalized.normalize, extremes, open.filter_map(|(group, raw)| Some(((*raw)?, group.size()))))
    }

    /// A plugin's raw score of each group, `None` if excluded from normalising; and the extremes of open groups.
    fn raws(&self, normalized: &NormalizedScore) -> (Vec<Option<i64>>, Option<Extremes>) {
        let Self { tables, groups, .. } = self;
        let (from, to) = normalized.raws;
        let raws: Vec<Option<i64>> = match &normalized.score {
            Score::Node(_) => groups.iter().map(|group| group.key.raws.get(from).copied()).collect(),
            Score::Domain(score) => {
                let first = normalized.first_term;
                let open = groups.iter().filter(|group| group.open);
                let weights = score.weights(&mut open.map(|group| (group.sums(tables, first, from..to), group.size())));
                let raw = |group: &Group| score.score(&weights, group.sums(tables, first, from..to));
                groups.iter().map(|group| group.open.then(|| raw(group)).flatten()).collect()
            }
        };
        let open = || groups.iter().zip(&raws).filter(|(group, _)| group.open).filter_map(|(_, raw)| *raw);
        let extremes = open().min().zip(open().max()).map(|(min, max)| Extremes { min, max });
        (raws, extremes)
    }

    /// For each group, the scores of each plugin that normalises, as of the last [`Self::best`].
    pub(super) fn all_scores(&self, prepared: &Prepared) -> Vec<Vec<Option<Normalized>>> {
        let mut scores = vec![Vec::with_capacity(prepared.normalized().len()); self.groups.len()];
        for normalized in prepared.normalized() {
            let (raws, extremes) = self.raws(normalized);
            let nothing = (!self.is_idle(normalized)).then_some(Normalized::NOTHING);
            let scale = extremes.and_then(|extremes| self.scale(normalized, &raws, extremes).ok());
            for (own, raw) in scores.iter_mut().zip(raws) {
                let weighted = |raw, scale: &Scale| normalized.weight.saturating_mul(scale.of(raw));
                let score =
                    raw.zip(scale.as_ref()).map(|(raw, scale)| Normalized { raw, weighted: weighted(raw, scale) });
                own.push(nothing.map(|nothing| score.unwrap_or(nothing)));
            }
        }
        scores
    }

    fn is_idle(&self, normalized: &NormalizedScore) -> bool {
        let first = normalized.first_term;
        match &normalized.score {
            Score::Node(_) => false,
            Score::Domain(score) => score.is_idle(Sums { tables: &self.tables, codes: &[], locals: &[], first }),
        }
    }

    /// The group of a node that is held here; without counts, of any node with these raw scores.
    pub(super) fn group_of(&self, node: NodeId, raws: &[i64]) -> Option<usize> {
        let key = || CountedKey { raws: Raws::from_slice(raws), codes: Codes::new() };
        self.rows.get(&node).map(|row| row.group).or_else(|| self.keys.get(&key()).copied())
    }

    pub(super) fn holds(&self, node: NodeId) -> bool {
        self.rows.contains_key(&node)
    }

    fn insert(&mut self, offer: Offer, raws: Raws, places: Places, repaired: bool) {
        self.settle(offer.node, &places);
        let group = self.group(CountedKey { raws, codes: self.tables.codes(&places) });
        self.groups[group].members.insert(offer);
        self.rows.insert(offer.node, Row { places, offer, group, repaired });
    }

    fn settle(&mut self, node: NodeId, places: &[u32]) {
        for (key, &place) in places.iter().enumerate() {
            if place != 0 && self.tables.is_by_count(key) {
                self.residents.entry((key, place)).or_default().push(node);
            }
        }
    }

    fn remove(&mut self, node: NodeId) {
        let Some(row) = self.rows.swap_remove(&node) else { return };
        self.leave(row.group, &row.offer);
        for (key, &place) in row.places.iter().enumerate() {
            if let Some(residents) = self.residents.get_mut(&(key, place)) {
                residents.retain(|known| *known != node);
            }
        }
    }

    /// Moves a node to its group after the counts of its domains changed.
    fn regroup(&mut self, node: NodeId) {
        let Some(row) = self.rows.get(&node) else { return };
        let (offer, old) = (row.offer, row.group);
        let key = CountedKey { raws: self.groups[old].key.raws.clone(), codes: self.tables.codes(&row.places) };
        if self.groups[old].key == key {
            return;
        }
        self.leave(old, &offer);
        let group = self.group(key);
        self.groups[group].members.insert(offer);
        if let Some(row) = self.rows.get_mut(&node) {
            row.group = group;
        }
    }

    fn leave(&mut self, group: usize, offer: &Offer) {
        self.groups[group].members.remove(offer);
        self.leave_if_empty(group);
    }

    fn leave_if_empty(&mut self, group: usize) {
        if self.groups[group].members.is_empty() && !self.groups[group].is_shared {
            self.keys.swap_remove(&self.groups[group].key);
            self.free.push(group);
        }
    }

    fn group(&mut self, key: CountedKey) -> usize {
        if let Some(place) = self.keys.get(&key) {
            return *place;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.groups.push(Group::default());
            self.groups.len() - 1
        });
        self.groups[place] = Group { key: key.clone(), ..Group::default() };
        self.keys.insert(key, place);
        place
    }
}
