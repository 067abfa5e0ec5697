//! What one class counts over domains, and how groups of nodes fare by it.
//!
//! Nodes are in groups of equal raw scores and equal domains: which groups are open, how they score, and by how many nodes
//! the scores are weighed, is worked out anew for each decision from counts that every pod moves. A decision costs time by
//! groups, of which there are few, and a pod that comes or goes costs the time to move the nodes of one domain at most.
//! A group has nodes of its own, nodes on a sorted list, or both. Where nothing is counted, a group is a stratum.
//!
//! Knows: groups over domains, and how counts move. Must not know: how counts are held ([`crate::domains`]), or where
//! nodes come from.

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

/// What nodes of one stratum share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Key {
    raws: Raws,
    codes: Codes,
}

#[derive(Debug, Default)]
struct Group {
    key: Key,
    members: BTreeSet<Offer>,
    open: bool,
    bonus: i64,
    /// It has nodes on a sorted list besides, as of the last look.
    is_shared: bool,
    /// How many.
    shared: usize,
    /// The best of them, and whether it was judged anew.
    shared_head: Option<(Offer, bool)>,
}

impl Group {
    /// How many nodes there are.
    fn size(&self) -> usize {
        self.members.len() + self.shared
    }

    /// What a plugin sees of the group: its terms are those from `first` on, its locals those raws.
    fn sums<'a>(&'a self, tables: &'a Tables, first: usize, locals: Range<usize>) -> Sums<'a> {
        Sums { tables, codes: &self.key.codes, locals: self.key.raws.get(locals).unwrap_or_default(), first }
    }
}

#[derive(Debug)]
struct Row {
    places: Places,
    offer: Offer,
    group: usize,
    /// It was judged anew since the shards answered.
    repaired: bool,
}

/// The groups.
#[derive(Debug)]
pub(super) struct Counted {
    tables: Tables,
    rows: Map<NodeId, Row>,
    keys: Map<Key, usize>,
    groups: Vec<Group>,
    /// Groups without nodes, to be used again.
    free: Vec<usize>,
    /// The nodes of each domain that is told apart by its counts.
    residents: Map<DomainId, Vec<NodeId>>,
    /// The scores are those of the groups that are open.
    is_scored: bool,
    /// Why the scores mean nothing, if so.
    fault: Option<String>,
}

// === impl Counted ===

impl Counted {
    /// Adds up what the shards counted.
    pub(super) fn new(prepared: &Prepared, evaluations: &[Evaluation]) -> Self {
        let tallies = evaluations.iter().map(|evaluation| evaluation.tallies.as_slice());
        let domains = evaluations.iter().flat_map(|evaluation| {
            let strata = evaluation.strata.iter().map(|stratum| stratum.domains.as_slice());
            strata.chain(evaluation.refused.iter().map(|refused| refused.domains.as_slice()))
        });
        Self::with_tables(Tables::new(prepared, tallies, domains))
    }

    /// Starts with counts and no nodes.
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

    /// The first domain-level filter before `before` that refuses nodes in these domains.
    pub(super) fn judge(
        &mut self,
        prepared: &Prepared,
        domains: &[Domain],
        before: Order,
    ) -> Result<(), (Order, Refusal)> {
        if domains.is_empty() && !prepared.keys().is_empty() {
            // The shard has left them out, because no domain-level filter comes before the one that refused.
            return Ok(());
        }
        let places = self.tables.places(domains);
        let codes = self.tables.codes(&places);
        prepared.judge_sums(Sums { tables: &self.tables, codes: &codes, locals: &[], first: 0 }, before)
    }

    /// What is counted.
    pub(super) const fn tables(&self) -> &Tables {
        &self.tables
    }

    /// What is counted, to be changed for a while and put back.
    pub(super) const fn tables_mut(&mut self) -> &mut Tables {
        &mut self.tables
    }

    /// The first domain-level filter that refuses nodes in these domains, and what they lack for it.
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

    /// Takes over a shard's nodes of one stratum.
    pub(super) fn add(&mut self, stratum: &Stratum) {
        let places = self.tables.places(&stratum.domains);
        let raws = Raws::from_slice(&stratum.raws);
        let group = self.group(Key { raws, codes: self.tables.codes(&places) });
        self.rows.reserve(stratum.offers.len());
        let mut members = Vec::with_capacity(stratum.offers.len());
        for offer in &stratum.offers {
            let row = Row { places: places.clone(), offer: *offer, group, repaired: false };
            // No honest shard offers a node twice, or one of another's.
            if self.rows.insert(offer.node, row).is_none() {
                self.settle(offer.node, &places);
                members.push(*offer);
            }
        }
        let known = &mut self.groups[group].members;
        if members.len() < known.len() / 8 {
            known.extend(members);
        } else {
            // All at once: a set made of a sorted list costs a tenth of one that grows.
            known.append(&mut members.into_iter().collect());
        }
        self.leave_if_empty(group);
    }

    /// Takes over what a node looks like now. `None`: it is gone, or not feasible as far as it alone tells.
    pub(super) fn repair(&mut self, node: NodeId, rank: u64, feasible: Option<Feasible>) {
        self.remove(node);
        if let Some(Feasible { base, raws, domains }) = feasible {
            let places = self.tables.places(&domains);
            self.insert(Offer { node, base, rank }, raws, places, true);
        }
    }

    /// So many pods came to the node at a position, or left it, that add these amounts each.
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

    /// The best node as things stand.
    pub(super) fn best(&mut self, prepared: &Prepared) -> Best {
        let (tables, counts) = (&self.tables, prepared.is_wide());
        for group in &mut self.groups {
            let suits = || !counts || prepared.judge_sums(group.sums(tables, 0, 0..0), Order::MAX).is_ok();
            let open = group.size() > 0 && suits();
            self.is_scored &= open == group.open;
            group.open = open;
        }
        // Where nothing is counted, scores depend only on which groups are open, unless a plugin sees how many nodes there are.
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

    /// The nodes that groups hold themselves and that are feasible, with their totals, as of the last [`Self::best`].
    pub(super) fn feasible(&self) -> impl Iterator<Item = (Offer, i64)> {
        let open = self.groups.iter().filter(|group| group.open);
        open.flat_map(|group| group.members.iter().map(|offer| (*offer, offer.base.saturating_add(group.bonus))))
    }

    /// What a group's nodes score beside what each scores by itself, as of the last [`Self::best`]; `None`: it is not open.
    pub(super) fn bonus(&self, group: usize) -> Option<i64> {
        self.groups.get(group).filter(|group| group.open).map(|group| group.bonus)
    }

    /// How many nodes are known.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether more than one node is feasible, as of the last [`Self::best`].
    pub(super) fn has_choice(&self) -> bool {
        self.groups.iter().filter(|group| group.open).map(Group::size).sum::<usize>() > 1
    }

    /// How a node that passes every filter which needs it alone does otherwise: its total as of the last [`Self::best`],
    /// or the first domain-level filter that refuses it.
    pub(super) fn judged(&self, prepared: &Prepared, node: NodeId) -> Option<Result<i64, (Order, Refusal)>> {
        let row = self.rows.get(&node)?;
        Some(self.judged_in(prepared, row.group, row.offer.base))
    }

    /// As [`Self::judged`], for a node of a group with this score by itself.
    pub(super) fn judged_in(&self, prepared: &Prepared, group: usize, base: i64) -> Result<i64, (Order, Refusal)> {
        let group = &self.groups[group];
        let total = base.saturating_add(group.bonus);
        prepared.judge_sums(group.sums(&self.tables, 0, 0..0), Order::MAX).map(|()| total)
    }

    /// Adds to a count, without any node's place being looked at.
    pub(super) fn count(&mut self, term: usize, domain: &str, amount: i64) {
        self.tables.add(term, domain, amount);
    }

    /// The group of nodes on a sorted list with these raw scores, in these domains, which stays from now on.
    pub(super) fn share(&mut self, raws: Raws, domains: &[Domain]) -> usize {
        let codes = self.tables.uncounted_codes(domains);
        let group = self.group(Key { raws, codes });
        self.groups[group].is_shared = true;
        group
    }

    /// How many nodes a group has on a sorted list now, and the best of them.
    pub(super) fn set_shared(&mut self, group: usize, shared: usize, head: Option<(Offer, bool)>) {
        let group = &mut self.groups[group];
        (group.shared, group.shared_head) = (shared, head);
    }

    /// The raw scores of a group.
    pub(super) fn raws_of(&self, group: usize) -> &[i64] {
        &self.groups[group].key.raws
    }

    /// Whether what was said of a node is what it is.
    pub(super) fn confirms(&mut self, node: NodeId, feasible: &Feasible) -> bool {
        let places = self.tables.places(&feasible.domains);
        let same = |row: &Row| {
            let raws = &self.groups[row.group].key.raws;
            *raws == feasible.raws && row.places == places && row.offer.base == feasible.base
        };
        self.rows.get(&node).is_some_and(same)
    }

    /// Why nodes are refused that pass every filter which needs one node alone: how many, group by group.
    pub(super) fn refusals(&self, prepared: &Prepared) -> impl Iterator<Item = ((Order, Refusal), usize)> {
        self.groups.iter().filter_map(|group| {
            let refusal = prepared.judge_sums(group.sums(&self.tables, 0, 0..0), Order::MAX).err()?;
            Some((refusal, group.size()))
        })
    }

    /// Whether the counts are what nodes counted together here.
    pub(super) fn agrees(&self, prepared: &Prepared, counted: &[Tally]) -> bool {
        Tables::new(prepared, std::iter::once(counted), std::iter::empty()).counts() == self.tables.counts()
    }

    /// Why the scores of the last [`Self::best`] mean nothing, if so.
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

    /// How the raw scores of a plugin are normalised: those of each group, of which the open ones count.
    fn scale(&self, normalized: &NormalizedScore, raws: &[Option<i64>], extremes: Extremes) -> Result<Scale, String> {
        let open = self.groups.iter().zip(raws).filter(|(group, _)| group.open);
        Scale::new(&normalized.normalize, extremes, open.filter_map(|(group, raw)| Some(((*raw)?, group.size()))))
    }

    /// A plugin's raw score of each group, `None` for one that it leaves out; and the extremes of those that are open.
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

    /// For each group the scores of each plugin that normalises, as of the last [`Self::best`].
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

    /// Whether a plugin counted nothing at all.
    fn is_idle(&self, normalized: &NormalizedScore) -> bool {
        let first = normalized.first_term;
        match &normalized.score {
            Score::Node(_) => false,
            Score::Domain(score) => score.is_idle(Sums { tables: &self.tables, codes: &[], locals: &[], first }),
        }
    }

    /// The group of a node that is held here, or of any node with these raw scores where nothing is counted.
    pub(super) fn group_of(&self, node: NodeId, raws: &[i64]) -> Option<usize> {
        let key = || Key { raws: Raws::from_slice(raws), codes: Codes::new() };
        self.rows.get(&node).map(|row| row.group).or_else(|| self.keys.get(&key()).copied())
    }

    /// Whether a node is held here.
    pub(super) fn holds(&self, node: NodeId) -> bool {
        self.rows.contains_key(&node)
    }

    fn insert(&mut self, offer: Offer, raws: Raws, places: Places, repaired: bool) {
        self.settle(offer.node, &places);
        let group = self.group(Key { raws, codes: self.tables.codes(&places) });
        self.groups[group].members.insert(offer);
        self.rows.insert(offer.node, Row { places, offer, group, repaired });
    }

    /// Notes a node with its domains that are told apart by their counts.
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

    /// Puts a node where it belongs now that the counts of its domains have changed.
    fn regroup(&mut self, node: NodeId) {
        let Some(row) = self.rows.get(&node) else { return };
        let (offer, old) = (row.offer, row.group);
        let key = Key { raws: self.groups[old].key.raws.clone(), codes: self.tables.codes(&row.places) };
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

    /// The place of a group, made now if it is new.
    fn group(&mut self, key: Key) -> usize {
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
