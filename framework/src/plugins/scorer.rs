//! Resource scoring of NodeResourcesFit and NodeResourcesBalancedAllocation.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::{
    devices::count::Counter,
    extension::{Facts, MAX_NODE_SCORE, NodeScore, Score},
    profile::{ResourceWeight, ShapePoint},
    resources::is_scalar,
    snapshot::{Accounts, ScalarColumn, Slot, Snapshot, Values},
};

/// Allocatable and requested amounts of a resource on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Requested amount including the pod.
    pub requested: i64,
    /// Requested amount without the pod.
    pub charged: i64,
    /// Never 0: resources that the node lacks have no share.
    pub allocatable: i64,
    /// Weight of the resource.
    pub weight: i64,
}

/// Shares of a node. The default configuration has two, which need no heap allocation.
pub type Shares = SmallVec<[Share; 4]>;

/// Scored resources, with the pod's requests.
#[derive(Debug)]
pub struct Shareholders {
    resources: Vec<(Source, i64, i64)>,
    /// By resource: counts devices if a DeviceClass provides it. Empty if there are no such resources.
    devices: Vec<Option<Counter>>,
}

#[derive(Debug)]
enum Source {
    Cpu { nonzero: bool },
    Memory { nonzero: bool },
    EphemeralStorage,
    Scalar(Arc<str>),
}

impl Shareholders {
    /// `request` returns the pod's amount of a resource. With `nonzero`, containers without requests count with defaults.
    pub fn new(resources: &[ResourceWeight], nonzero: bool, request: impl Fn(&str) -> i64) -> Self {
        let resources = resources.iter().filter_map(|ResourceWeight { name, weight }| {
            let amount = request(name);
            // Skips extended resources that the pod does not request.
            if amount == 0 && is_scalar(name) {
                return None;
            }
            let source = match name.as_str() {
                "cpu" => Source::Cpu { nonzero },
                "memory" => Source::Memory { nonzero },
                "ephemeral-storage" => Source::EphemeralStorage,
                other => Source::Scalar(other.into()),
            };
            Some((source, amount, *weight))
        });
        Self { resources: resources.collect(), devices: Vec::new() }
    }

    /// For extended resources from devices, counts the devices of nodes without a device plugin for them. Source:
    /// `calculateDRAExtendedResourceAllocatableRequest`.
    #[must_use]
    pub fn or_devices(mut self, facts: &Facts) -> Self {
        let Some(extended) = facts.extended() else { return self };
        let counter = |(source, ..): &(Source, i64, i64)| match source {
            Source::Scalar(name) => extended.class(name).map(|class| Counter::of(class)),
            _ => None,
        };
        let counters: Vec<Option<Counter>> = self.resources.iter().map(counter).collect();
        if counters.iter().any(Option::is_some) {
            self.devices = counters;
        }
        self
    }

    /// Resolves the columns of the resources once for all nodes.
    #[must_use]
    pub fn over<'a>(&'a self, nodes: &'a Snapshot) -> SharesOver<'a> {
        SharesOver { holders: self.holders(nodes).collect(), nodes }
    }

    fn on(&self, nodes: &Snapshot, slot: Slot) -> Shares {
        self.holders(nodes).filter_map(|holder| holder.share(nodes, slot)).collect()
    }

    fn holders<'a>(&'a self, nodes: &'a Snapshot) -> impl Iterator<Item = HolderOver<'a>> {
        self.resources.iter().enumerate().map(|(place, (source, request, weight))| {
            let (allocatable, charged) = source.columns(&nodes.accounts);
            let devices = self.devices.get(place).and_then(Option::as_ref);
            HolderOver { allocatable, charged, request: *request, weight: *weight, devices }
        })
    }

    /// A score that applies a formula to the shares of a node.
    pub fn scored_by(self, formula: impl Fn(&Shares) -> i64 + Send + Sync + 'static) -> Score {
        Score::Node(Box::new(ByShares { shareholders: self, formula }))
    }
}

impl Source {
    /// Allocatable and requested amounts by slot. They are shorter if the last nodes have none.
    fn columns<'a>(&self, accounts: &'a Accounts) -> (Values<'a, i64>, Values<'a, i64>) {
        let (allocatable, charged) = match self {
            Self::Cpu { nonzero } => (
                &accounts.allocatable_milli_cpu,
                if *nonzero { &accounts.nonzero_milli_cpu } else { &accounts.milli_cpu },
            ),
            Self::Memory { nonzero } => {
                (&accounts.allocatable_memory, if *nonzero { &accounts.nonzero_memory } else { &accounts.memory })
            }
            Self::EphemeralStorage => (&accounts.allocatable_ephemeral_storage, &accounts.ephemeral_storage),
            Self::Scalar(name) => return accounts.scalar(name).map_or_else(Default::default, ScalarColumn::columns),
        };
        (Values::dense(allocatable), Values::dense(charged))
    }
}

struct HolderOver<'a> {
    allocatable: Values<'a, i64>,
    charged: Values<'a, i64>,
    request: i64,
    weight: i64,
    devices: Option<&'a Counter>,
}

/// [`Shareholders`] for the nodes of one snapshot.
pub struct SharesOver<'a> {
    holders: SmallVec<[HolderOver<'a>; 4]>,
    nodes: &'a Snapshot,
}

impl SharesOver<'_> {
    /// Shares of a node, without the resources that it lacks.
    fn fill(&self, slot: Slot, shares: &mut Shares) {
        shares.clear();
        shares.extend(self.holders.iter().filter_map(|holder| holder.share(self.nodes, slot)));
    }
}

impl HolderOver<'_> {
    fn share(&self, nodes: &Snapshot, slot: Slot) -> Option<Share> {
        let (mut allocatable, mut charged) = (self.allocatable.get(slot), self.charged.get(slot));
        if let Some(counter) = self.devices.filter(|_| allocatable == 0) {
            (allocatable, charged) = nodes.devices(slot).map_or((0, 0), |devices| counter.count(devices));
        }
        let requested = charged.wrapping_add(self.request);
        (allocatable != 0).then_some(Share { requested, charged, allocatable, weight: self.weight })
    }
}

/// [`most_allocated`] for all nodes at these positions together, with a request for the whole. Source: `scorePlacement`.
pub(crate) fn utilization(
    resources: &[ResourceWeight],
    request: impl Fn(&str) -> i64,
    nodes: &Snapshot,
    slots: impl Iterator<Item = Slot>,
) -> i64 {
    let shareholders = Shareholders::new(resources, true, request);
    let mut sums: SmallVec<[(i64, i64); 4]> = SmallVec::from_elem((0, 0), shareholders.resources.len());
    let holders: SmallVec<[HolderOver<'_>; 4]> = shareholders.holders(nodes).collect();
    for slot in slots {
        for (holder, (allocatable, charged)) in holders.iter().zip(&mut sums) {
            let own = holder.allocatable.get(slot);
            *allocatable += own;
            // A node without the resource counts as unused.
            *charged += if own == 0 { 0 } else { holder.charged.get(slot) };
        }
    }
    let share = |(holder, &(allocatable, charged)): (&HolderOver<'_>, &(i64, i64))| {
        let requested = charged.wrapping_add(holder.request);
        (allocatable != 0).then_some(Share { requested, charged, allocatable, weight: holder.weight })
    };
    in_range(most_allocated(&holders.iter().zip(&sums).filter_map(share).collect()))
}

struct ByShares<F> {
    shareholders: Shareholders,
    formula: F,
}

impl<F: Fn(&Shares) -> i64 + Send + Sync> NodeScore for ByShares<F> {
    fn score(&self, nodes: &Snapshot, slot: Slot) -> i64 {
        in_range((self.formula)(&self.shareholders.on(nodes, slot)))
    }

    fn add_column(&self, nodes: &Snapshot, todo: &[Slot], weight: i64, sums: &mut [i64]) {
        let over = self.shareholders.over(nodes);
        let mut shares = Shares::new();
        for (sum, &slot) in sums.iter_mut().zip(todo) {
            over.fill(slot, &mut shares);
            *sum += weight * in_range((self.formula)(&shares));
        }
    }
}

/// Upstream rejects the pod if its arithmetic leaves this range; here the score is clamped.
fn in_range(score: i64) -> i64 {
    score.clamp(0, MAX_NODE_SCORE)
}

/// `part * 100 / whole` in 64 bits, as upstream. Amounts above 2^63 / 100 wrap to the same odd scores.
fn percent(part: i64, whole: i64) -> i64 {
    part.wrapping_mul(MAX_NODE_SCORE).wrapping_div(whole)
}

fn weighted_mean(shares: &Shares, score: impl Fn(&Share) -> i64) -> i64 {
    let (mut sum, mut weights) = (0_i64, 0_i64);
    for share in shares {
        sum = sum.wrapping_add(score(share).wrapping_mul(share.weight));
        weights += share.weight;
    }
    if weights == 0 { 0 } else { sum / weights }
}

/// Prefers low utilization.
#[must_use]
pub fn least_allocated(shares: &Shares) -> i64 {
    weighted_mean(shares, |share| {
        if share.requested > share.allocatable {
            0
        } else {
            percent(share.allocatable.wrapping_sub(share.requested), share.allocatable)
        }
    })
}

/// Prefers high utilization.
#[must_use]
pub fn most_allocated(shares: &Shares) -> i64 {
    weighted_mean(shares, |share| percent(share.requested.min(share.allocatable), share.allocatable))
}

/// Applies the shape in the plugin's arguments. Resources that score 0 carry no weight.
#[must_use]
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "upstream rounds in floating point")]
pub fn requested_to_capacity_ratio(shares: &Shares, shape: &[ShapePoint]) -> i64 {
    let (mut sum, mut weights) = (0_i64, 0_i64);
    for share in shares {
        let utilization =
            if share.requested > share.allocatable { 100 } else { percent(share.requested, share.allocatable) };
        let score = broken_line(shape, utilization);
        if score > 0 {
            sum = sum.wrapping_add(score.wrapping_mul(share.weight));
            weights += share.weight;
        }
    }
    if weights == 0 { 0 } else { (sum as f64 / weights as f64).round() as i64 }
}

/// Interpolates between the points of a shape, and scales their scores of 0..=10 to 0..=100.
pub(crate) fn broken_line(shape: &[ShapePoint], utilization: i64) -> i64 {
    let point = |point: &ShapePoint| (i64::from(point.utilization), i64::from(point.score) * 10);
    let mut before: Option<(i64, i64)> = None;
    for (x, y) in shape.iter().map(point) {
        if utilization <= x {
            return before.map_or(y, |(x0, y0)| y0 + (y - y0) * (utilization - x0) / (x - x0));
        }
        before = Some((x, y));
    }
    before.map_or(0, |(_, y)| y)
}

/// Change of the balance of the shares by the pod: 50 means much less balanced, 100 much more.
#[must_use]
pub fn balanced_allocation(shares: &Shares) -> i64 {
    let with = balance(shares, |share| share.requested);
    let without = balance(shares, |share| share.charged);
    MAX_NODE_SCORE / 2 + (MAX_NODE_SCORE / 2).wrapping_add(with).wrapping_sub(without) / 2
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "upstream computes it so")]
fn balance(shares: &Shares, used: impl Fn(&Share) -> i64) -> i64 {
    let fraction = |share: &Share| (used(share) as f64 / share.allocatable as f64).min(1.0);
    let deviation = match shares.as_slice() {
        [] | [_] => 0.0,
        [first, second] => ((fraction(first) - fraction(second)) / 2.0).abs(),
        many => {
            let count = many.len() as f64;
            let mean = many.iter().map(fraction).sum::<f64>() / count;
            let square = |share| (fraction(share) - mean) * (fraction(share) - mean);
            (many.iter().map(square).sum::<f64>() / count).sqrt()
        }
    };
    ((1.0 - deviation) * MAX_NODE_SCORE as f64) as i64
}

#[cfg(test)]
mod tests;
