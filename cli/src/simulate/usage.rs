//! How full the cluster is.
//!
//! Knows: which amounts add up, and how they are written. Must not know: why any pod is where it is.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::class::PodInfo;
use serde::{Serialize, Serializer};

use super::objects::Cluster;

/// An amount of a resource, in its smallest unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Amount {
    value: i128,
    unit: Unit,
}

/// What a resource is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// Thousandths of a core.
    MilliCores,
    Bytes,
    Pieces,
}

/// How much of a resource there is and is taken.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Usage {
    /// The resource.
    pub(super) name: Arc<str>,
    /// What all nodes offer together, cordoned and tainted ones too.
    pub(super) allocatable: Amount,
    /// What is taken before the simulation.
    pub(super) before: Share,
    /// What is taken after it.
    pub(super) after: Share,
}

/// A part of what all nodes offer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Share {
    /// How much.
    pub(super) used: Amount,
    /// How much of a hundred, to one decimal.
    pub(super) percent: f64,
}

/// Every resource that some node offers: CPU, memory, pods, then the others by name.
pub(super) fn of<'a>(cluster: &'a Cluster, placed: impl Iterator<Item = &'a PodInfo>) -> Vec<Usage> {
    let mut offered: BTreeMap<Arc<str>, i128> = BTreeMap::new();
    for node in &cluster.nodes {
        add(&mut offered, "pods", node.allowed_pods);
        add(&mut offered, "cpu", node.allocatable.milli_cpu);
        add(&mut offered, "memory", node.allocatable.memory);
        add(&mut offered, "ephemeral-storage", node.allocatable.ephemeral_storage);
        node.allocatable.scalars.iter().for_each(|(name, amount)| add(&mut offered, name, *amount));
    }
    let before = taken(cluster.bound.iter().map(|pod| &**pod));
    let more = taken(placed);
    let get = |amounts: &BTreeMap<Arc<str>, i128>, name: &str| amounts.get(name).copied().unwrap_or(0);
    let usage = |(name, offered): (Arc<str>, i128)| {
        let (before, more) = (get(&before, &name), get(&more, &name));
        let unit = unit(&name);
        let share = |used: i128| Share { used: Amount { value: used, unit }, percent: percent(used, offered) };
        let allocatable = Amount { value: offered, unit };
        Usage { name, allocatable, before: share(before), after: share(before + more) }
    };
    let mut usages: Vec<Usage> = offered.into_iter().filter(|(_, offered)| *offered > 0).map(usage).collect();
    let turn = |name: &str| ["cpu", "memory", "pods"].iter().position(|first| *first == name).unwrap_or(usize::MAX);
    usages.sort_by_key(|usage| turn(&usage.name));
    usages
}

fn taken<'a>(pods: impl Iterator<Item = &'a PodInfo>) -> BTreeMap<Arc<str>, i128> {
    let mut taken = BTreeMap::new();
    for pod in pods {
        let accounted = &pod.class.accounted;
        add(&mut taken, "pods", 1);
        add(&mut taken, "cpu", accounted.milli_cpu);
        add(&mut taken, "memory", accounted.memory);
        add(&mut taken, "ephemeral-storage", accounted.ephemeral_storage);
        accounted.scalars.iter().for_each(|(name, amount)| add(&mut taken, name, *amount));
    }
    taken
}

fn add(amounts: &mut BTreeMap<Arc<str>, i128>, name: &str, amount: i64) {
    match amounts.get_mut(name) {
        // 2^63 nodes or pods of the largest amounts would be needed for this to overflow.
        Some(sum) => *sum += i128::from(amount),
        None => {
            amounts.insert(name.into(), i128::from(amount));
        }
    }
}

fn unit(name: &str) -> Unit {
    match name {
        "cpu" => Unit::MilliCores,
        "memory" | "ephemeral-storage" => Unit::Bytes,
        name if name.starts_with("hugepages-") => Unit::Bytes,
        _ => Unit::Pieces,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share in percent needs few digits")]
fn percent(used: i128, offered: i128) -> f64 {
    (used as f64 * 1000.0 / offered.max(1) as f64).round() / 10.0
}

impl Amount {
    /// The amount as a person likes to read it, rounded.
    #[expect(clippy::cast_precision_loss, reason = "it is rounded anyway")]
    pub(super) fn rounded(self) -> String {
        let decimal = |value: f64| format!("{value:.1}").trim_end_matches(".0").to_owned();
        match self.unit {
            Unit::MilliCores => decimal(self.value as f64 / 1000.0),
            Unit::Bytes => {
                let mut units = ["", "Ki", "Mi", "Gi", "Ti", "Pi"].into_iter();
                let (mut value, mut suffix) = (self.value as f64, units.next().unwrap_or_default());
                for next in units {
                    if value < 1024.0 {
                        break;
                    }
                    (value, suffix) = (value / 1024.0, next);
                }
                format!("{}{suffix}", decimal(value))
            }
            Unit::Pieces => self.value.to_string(),
        }
    }

    /// The exact amount as a quantity of Kubernetes.
    pub(super) fn quantity(self) -> String {
        match self.unit {
            Unit::MilliCores if self.value % 1000 != 0 => format!("{}m", self.value),
            Unit::MilliCores => (self.value / 1000).to_string(),
            Unit::Pieces => self.value.to_string(),
            Unit::Bytes => {
                let (mut value, mut suffix) = (self.value, "");
                for next in ["Ki", "Mi", "Gi", "Ti", "Pi"] {
                    if value == 0 || value % 1024 != 0 {
                        break;
                    }
                    (value, suffix) = (value / 1024, next);
                }
                format!("{value}{suffix}")
            }
        }
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.quantity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact_for_programs_and_rounded_for_people() {
        let cases = [
            (Unit::MilliCores, 4000, "4", "4"),
            (Unit::MilliCores, 4150, "4150m", "4.2"),
            (Unit::Bytes, 0, "0", "0"),
            (Unit::Bytes, 1000, "1000", "1000"),
            (Unit::Bytes, 3 << 30, "3Gi", "3Gi"),
            (Unit::Bytes, 1500 << 20, "1500Mi", "1.5Gi"),
            (Unit::Bytes, 2048 << 40, "2Pi", "2Pi"),
            (Unit::Pieces, 110, "110", "110"),
        ];
        for (unit, value, quantity, rounded) in cases {
            let amount = Amount { value, unit };
            assert_eq!((amount.quantity().as_str(), amount.rounded().as_str()), (quantity, rounded));
        }
    }

    #[test]
    fn shares_have_one_decimal() {
        assert_eq!([percent(1, 3), percent(0, 0), percent(3, 2)], [33.3, 0.0, 150.0]);
    }
}
