//! Evaluates one shard for a class: filters and scores the nodes that changed, keeps the results in columns, answers with the best nodes.

use indexmap::map::raw_entry_v1::{RawEntryApiV1 as _, RawEntryMut};
use smallvec::SmallVec;

use crate::{
    evaluation::{Evaluation, MAX_OFFERS, Offer, Refused, Stratum, TooManyStrata},
    extension::{Filter, Score, Tally},
    laps::Laps,
    map::Map,
    matches::Matches,
    node::NodeId,
    prepared::{Order, Prepared, RESTRICTION, domain, parts::Point},
    snapshot::{Slot, Snapshot, Stamp},
    status::Refusal,
    symbols::Symbol,
};

mod failed;

use failed::{Failed, add_column};

const ABSENT: u32 = 0;

const FEASIBLE: u32 = 1;

/// The first refusal; `value - FIRST_REFUSAL` is the refusal's index in the table.
const FIRST_REFUSAL: u32 = 2;

type Domains = SmallVec<[Symbol; 2]>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct StratumKey {
    raws: SmallVec<[i64; 4]>,
    domains: Domains,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RefusalKey {
    order: Order,
    refusal: Refusal,
    domains: Domains,
}

/// The evaluation of all nodes of one shard for one class, updated incrementally.
///
/// Call [`Self::refresh`], then [`Self::answer`] with the same [`Prepared`] and an unchanged [`Snapshot`]. Repeat both when the snapshot
/// changes. Call [`Self::forget`] before using the columns for another class, or when the class is prepared again.
///
/// The answer equals that of an evaluation from scratch: its content depends on the nodes, not on the history of calls.
///
/// Bound: 16 bytes for each position of the snapshot, so 80 KB a class at 5,000 nodes.
#[derive(Debug, Default)]
pub struct Columns {
    as_of: Stamp,
    verdicts: Verdicts,
    bases: Vec<i64>,
    stratum_keys: Map<StratumKey, ()>,
    refusal_keys: Map<RefusalKey, ()>,
    matches: Matches,
}

#[derive(Debug, Default)]
struct Verdicts {
    of: Vec<u32>,
    strata: Vec<u32>,
    sizes: Vec<u32>,
    refused: Vec<u32>,
}

/// Buffers that evaluations reuse, so that none allocates per node.
#[derive(Debug, Default)]
pub struct Scratch {
    todo: Vec<Slot>,
    sums: Vec<i64>,
    raws: Vec<i64>,
    offers: Vec<Offer>,
    failed: Vec<Failed>,
}

impl Verdicts {
    fn clear(&mut self) {
        self.of.clear();
        self.sizes.clear();
        self.refused.clear();
    }

    fn resize(&mut self, capacity: usize) {
        self.of.resize(capacity, ABSENT);
        self.strata.resize(capacity, 0);
    }

    fn is_feasible(&self, slot: Slot) -> bool {
        self.of[slot as usize] == FEASIBLE
    }

    fn set_absent(&mut self, slot: Slot) {
        self.replace(slot, ABSENT);
    }

    fn set_refused(&mut self, slot: Slot, refusal: usize) {
        if self.refused.len() <= refusal {
            self.refused.resize(refusal + 1, 0);
        }
        self.refused[refusal] += 1;
        self.replace(slot, FIRST_REFUSAL.saturating_add(u32::try_from(refusal).unwrap_or(u32::MAX)));
    }

    fn set_feasible(&mut self, slot: Slot, stratum: u32) {
        let place = stratum as usize;
        if self.sizes.len() <= place {
            self.sizes.resize(place + 1, 0);
        }
        self.sizes[place] += 1;
        self.replace(slot, FEASIBLE);
        self.strata[slot as usize] = stratum;
    }

    fn replace(&mut self, slot: Slot, verdict: u32) {
        match std::mem::replace(&mut self.of[slot as usize], verdict) {
            ABSENT => {}
            FEASIBLE => self.sizes[self.strata[slot as usize] as usize] -= 1,
            refusal => self.refused[(refusal - FIRST_REFUSAL) as usize] -= 1,
        }
    }

    fn feasible(&self) -> usize {
        self.sizes.iter().map(|&size| size as usize).sum()
    }

    fn covered(&self) -> u32 {
        self.sizes.iter().chain(&self.refused).sum()
    }
}

impl Columns {
    /// Clears the columns for another class; keeps the memory.
    pub fn forget(&mut self) {
        self.matches.forget();
        self.restart();
    }

    fn restart(&mut self) {
        self.as_of = 0;
        self.verdicts.clear();
        self.stratum_keys.clear();
        self.refusal_keys.clear();
    }

    /// Filters and scores only the nodes that changed since the last call. Returns their number.
    pub fn refresh(&mut self, prepared: &Prepared, nodes: &Snapshot, scratch: &mut Scratch) -> usize {
        self.refresh_timed(prepared, nodes, scratch, &mut ())
    }

    /// As [`Self::refresh`], and times the plugins.
    pub fn refresh_timed(
        &mut self,
        prepared: &Prepared,
        nodes: &Snapshot,
        scratch: &mut Scratch,
        laps: &mut impl Laps,
    ) -> usize {
        self.matches.refresh(prepared, nodes);
        self.collect_changed(prepared, nodes, scratch);
        let changed = scratch.todo.len();
        self.filter(prepared, nodes, &mut scratch.todo, laps);
        self.score(prepared, nodes, scratch, laps);
        self.as_of = nodes.stamp();
        changed
    }

    fn collect_changed(&mut self, prepared: &Prepared, nodes: &Snapshot, scratch: &mut Scratch) {
        let capacity = nodes.capacity();
        // Keys are only added. Once most of them have no node, a new start is cheaper than keeping them.
        if self.stratum_keys.len().max(self.refusal_keys.len()) > 2 * capacity + 64 {
            self.restart();
        }
        self.verdicts.resize(capacity);
        self.bases.resize(capacity, 0);
        scratch.todo.clear();
        nodes.visit_changed_since(self.as_of, |slot| {
            if nodes.id(slot).is_some() && prepared.holds(nodes, slot) {
                scratch.todo.push(slot);
            } else {
                self.verdicts.set_absent(slot);
            }
        });
    }

    /// Leaves the feasible nodes in `todo`.
    fn filter(&mut self, prepared: &Prepared, nodes: &Snapshot, todo: &mut Vec<Slot>, laps: &mut impl Laps) {
        let Self { verdicts, refusal_keys, .. } = self;
        // Consecutive nodes are mostly refused for the same reason. Not cached if the domain matters.
        let mut last: Option<(Order, Refusal, usize)> = None;
        let mut refuse = |slot: Slot, order: Order, refusal: Refusal| {
            if let Some((last_order, last_refusal, number)) = last
                && (last_order, last_refusal) == (order, refusal)
            {
                verdicts.set_refused(slot, number);
                return;
            }
            // The domain of a refused node matters only if a domain-level filter could have refused the node first.
            let by_domain = prepared.is_judged_before(order);
            let keys = if by_domain { prepared.keys() } else { &[] };
            let domains = keys.iter().map(|&key| nodes.label(key, slot)).collect();
            let number = refusal_keys.insert_full(RefusalKey { order, refusal, domains }, ()).0;
            verdicts.set_refused(slot, number);
            last = (!by_domain).then_some((order, refusal, number));
        };
        if prepared.is_restricted() {
            todo.retain(|&slot| {
                let admitted = prepared.admits_name(nodes, slot);
                if !admitted {
                    refuse(slot, RESTRICTION, Refusal::unresolvable(0));
                }
                admitted
            });
        }
        laps.begin();
        for step in prepared.filters() {
            if let Filter::Node(filter) = &step.filter {
                let judged = todo.len();
                filter.sieve(nodes, todo, &mut |slot, refusal| refuse(slot, step.order, refusal));
                laps.lap(step.plugin, Point::Filter, judged);
            }
        }
    }

    fn score(&mut self, prepared: &Prepared, nodes: &Snapshot, scratch: &mut Scratch, laps: &mut impl Laps) {
        let Scratch { todo, sums, raws, failed, .. } = scratch;
        sums.clear();
        sums.resize(todo.len(), 0);
        failed.clear();
        laps.begin();
        for plain in prepared.plain() {
            add_column(&*plain.score, nodes, todo, plain.weight, sums, (plain.order, failed));
            laps.lap(plain.plugin, Point::Score, todo.len());
        }
        let width = prepared.normalized().last().map_or(0, |last| last.raws.1);
        raws.clear();
        raws.resize(todo.len() * width, 0);
        let mut local = 0;
        for normalized in prepared.normalized() {
            let (first, end) = normalized.raws;
            match &normalized.score {
                Score::Node(score) => {
                    let sums = &mut raws[first * todo.len()..][..todo.len()];
                    add_column(&**score, nodes, todo, 1, sums, (normalized.order, failed));
                }
                Score::Domain(_) => {
                    for place in first..end {
                        for (raw, &slot) in raws[place * todo.len()..].iter_mut().zip(todo.iter()) {
                            *raw = prepared.local(nodes, slot, local, &self.matches);
                        }
                        local += 1;
                    }
                }
            }
            laps.lap(normalized.plugin, Point::Score, todo.len());
        }
        let domains: SmallVec<[_; 2]> = prepared.keys().iter().map(|&key| nodes.label_column(key)).collect();
        let (mut key, mut last_key) = (StratumKey::default(), StratumKey::default());
        let mut last = None;
        self.refuse_failed(prepared, nodes, failed);
        for (index, &slot) in todo.iter().enumerate() {
            if !failed.is_empty() && failed.binary_search_by_key(&slot, |(slot, ..)| *slot).is_ok() {
                continue;
            }
            let at = slot as usize;
            key.raws.clear();
            key.raws.extend((0..width).map(|place| raws[place * todo.len() + index]));
            key.domains.clear();
            key.domains.extend(domains.iter().map(|column| column.get(slot)));
            let stratum = match last {
                Some(stratum) if key == last_key => stratum,
                _ => {
                    let stratum = self.stratum(&key);
                    last = Some(stratum);
                    std::mem::swap(&mut key, &mut last_key);
                    stratum
                }
            };
            self.verdicts.set_feasible(slot, stratum);
            self.bases[at] = sums[index];
        }
    }

    fn stratum(&mut self, key: &StratumKey) -> u32 {
        let index = match self.stratum_keys.raw_entry_mut_v1().from_key(key) {
            RawEntryMut::Occupied(known) => known.index(),
            RawEntryMut::Vacant(free) => {
                let index = free.index();
                free.insert(key.clone(), ());
                index
            }
        };
        u32::try_from(index).unwrap_or(u32::MAX)
    }

    /// Evaluates these positions from scratch, as a shard with these nodes. Uses 20 bytes of memory for each position of the snapshot.
    #[must_use]
    pub fn answer_of(
        prepared: &Prepared,
        nodes: &Snapshot,
        slots: &[Slot],
        k: usize,
        scratch: &mut Scratch,
    ) -> Evaluation {
        let mut columns = Self::default();
        columns.matches.refresh(prepared, nodes);
        columns.verdicts.resize(nodes.capacity());
        columns.bases.resize(nodes.capacity(), 0);
        scratch.todo.clear();
        scratch.todo.extend(slots.iter().filter(|&&slot| nodes.id(slot).is_some()));
        columns.filter(prepared, nodes, &mut scratch.todo, &mut ());
        columns.score(prepared, nodes, scratch, &mut ());
        let tallies = tallies_of(prepared, nodes, &columns.matches, slots.iter().copied());
        Evaluation { tallies, ..columns.cut_answer(prepared, nodes, k, scratch) }
    }

    /// The answer as of the last [`Self::refresh`], with up to `k` offers of each stratum.
    ///
    /// # Errors
    /// If one offer of each stratum, or all feasible nodes of a class that counts over domains, exceed [`MAX_OFFERS`].
    pub fn answer(
        &self,
        prepared: &Prepared,
        nodes: &Snapshot,
        k: usize,
        scratch: &mut Scratch,
    ) -> Result<Evaluation, TooManyStrata> {
        if prepared.is_wide() {
            let feasible = self.verdicts.feasible();
            if feasible > MAX_OFFERS {
                return Err(TooManyStrata { strata: feasible });
            }
            return Ok(self.answer_all(prepared, nodes, feasible, scratch));
        }
        let strata = self.verdicts.sizes.iter().filter(|&&size| size > 0).count();
        if strata > MAX_OFFERS {
            return Err(TooManyStrata { strata });
        }
        Ok(self.answer_all(prepared, nodes, k.clamp(1, MAX_OFFERS / strata.max(1)), scratch))
    }

    /// As [`Self::answer`], without a bound, for a caller that does not send the answer.
    pub fn answer_all(&self, prepared: &Prepared, nodes: &Snapshot, k: usize, scratch: &mut Scratch) -> Evaluation {
        let tallies = tallies(prepared, nodes, &self.matches);
        Evaluation { tallies, ..self.cut_answer(prepared, nodes, k, scratch) }
    }

    fn cut_answer(&self, prepared: &Prepared, nodes: &Snapshot, k: usize, scratch: &mut Scratch) -> Evaluation {
        let k = if prepared.is_wide() { usize::MAX } else { k };
        let Verdicts { sizes, refused, .. } = &self.verdicts;
        self.lay_out(nodes, sizes, &mut scratch.offers);
        Evaluation {
            covered: self.verdicts.covered(),
            strata: self.cut(nodes, &mut scratch.offers, sizes, k),
            refused: self.count(nodes, refused),
            tallies: Vec::new(),
        }
    }

    fn lay_out(&self, nodes: &Snapshot, sizes: &[u32], offers: &mut Vec<Offer>) {
        let mut total = 0;
        let mut places: Vec<usize> = Vec::with_capacity(sizes.len());
        for &size in sizes {
            places.push(total);
            total += size as usize;
        }
        offers.clear();
        if total == 0 {
            return;
        }
        offers.resize(total, Offer { node: NodeId(0), base: 0, rank: 0 });
        for slot in nodes.live().filter(|&slot| self.verdicts.is_feasible(slot)) {
            let at = slot as usize;
            let place = &mut places[self.verdicts.strata[at] as usize];
            if let Some(node) = nodes.id(slot) {
                offers[*place] = Offer { node, base: self.bases[at], rank: nodes.rank(slot) };
                *place += 1;
            }
        }
    }

    fn cut(&self, nodes: &Snapshot, offers: &mut [Offer], sizes: &[u32], k: usize) -> Vec<Stratum> {
        let mut rest = offers;
        let mut strata = Vec::new();
        for ((key, ()), &size) in self.stratum_keys.iter().zip(sizes) {
            if size == 0 {
                continue;
            }
            let (own, others) = rest.split_at_mut(size as usize);
            rest = others;
            if k < own.len() {
                own.select_nth_unstable_by(k, Offer::cmp);
            }
            let best = &mut own[..k.min(size as usize)];
            best.sort_unstable_by(Offer::cmp);
            strata.push(Stratum {
                raws: key.raws.to_vec(),
                domains: key.domains.iter().map(|&value| domain(nodes, value)).collect(),
                size,
                offers: best.to_vec(),
            });
        }
        strata
    }

    fn count(&self, nodes: &Snapshot, counts: &[u32]) -> Vec<Refused> {
        let counted = self.refusal_keys.keys().zip(counts).filter(|&(_, &count)| count > 0);
        let refused = counted.map(|(key, &count)| Refused {
            order: key.order,
            refusal: key.refusal,
            domains: key.domains.iter().map(|&value| domain(nodes, value)).collect(),
            count,
        });
        refused.collect()
    }
}

/// The tallies of these nodes for every domain-level plugin, filters first.
#[must_use]
pub fn tallies(prepared: &Prepared, nodes: &Snapshot, matches: &Matches) -> Vec<Tally> {
    tallies_of(prepared, nodes, matches, nodes.live())
}

fn tallies_of(
    prepared: &Prepared,
    nodes: &Snapshot,
    matches: &Matches,
    slots: impl Iterator<Item = Slot>,
) -> Vec<Tally> {
    let plugins: SmallVec<[_; 4]> = prepared.domain_plugins().collect();
    let terms = prepared.terms();
    if terms.is_empty() {
        return vec![Tally::default(); plugins.len()];
    }
    let columns: SmallVec<[_; 8]> = terms.iter().map(|term| nodes.label_column(term.spec.key)).collect();
    let mut counts: Vec<Map<Symbol, i64>> = vec![Map::default(); terms.len()];
    let mut sums = vec![0_i64; terms.len() + prepared.locals().len()];
    let knows_empty = terms.iter().any(|term| term.spec.knows_empty);
    for slot in slots {
        sums.fill(0);
        let mut any = knows_empty;
        for &(class, pods) in nodes.tenants(slot) {
            for &(at, amount) in matches.of(class) {
                sums[at as usize] = sums[at as usize].saturating_add(amount.saturating_mul(i64::from(pods)));
                any = true;
            }
        }
        if !any {
            continue;
        }
        for (index, term) in terms.iter().enumerate() {
            let value = columns[index].get(slot);
            let is_known = sums[index] != 0 || term.spec.knows_empty;
            if is_known && term.counts(value, plugins[term.plugin], nodes, slot) {
                let sum = counts[index].entry(value).or_insert(0);
                *sum = sum.saturating_add(sums[index]);
            }
        }
    }
    let mut tallies = vec![Tally::default(); plugins.len()];
    for (term, counts) in terms.iter().zip(counts) {
        for (value, count) in counts {
            // Nodes without the label count as nodes with an empty value, if they count at all.
            tallies[term.plugin].add(term.number, &nodes.symbols.text(value).into(), count);
        }
    }
    tallies
}
