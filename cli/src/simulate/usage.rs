//! The utilization of the cluster.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_account::amount::Amount;
use flotilla_cluster::Cluster;
use flotilla_framework::class::PodInfo;
use serde::Serialize;

/// Allocatable and used amounts of a resource.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Usage {
    pub(crate) name: Arc<str>,
    /// The sum over all nodes, cordoned and tainted ones included.
    pub(crate) allocatable: Amount,
    /// Used before the simulation.
    pub(crate) before: Share,
    /// Used after it.
    pub(crate) after: Share,
}

/// A share of the allocatable amount.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Share {
    pub(crate) used: Amount,
    /// Percentage with one decimal.
    pub(crate) percent: f64,
}

/// Every allocatable resource: CPU, memory and pods, then all others by name. `gone`: bound pods that are deleted.
pub(crate) fn of<'a>(
    cluster: &'a Cluster,
    placed: impl Iterator<Item = &'a PodInfo>,
    gone: impl Iterator<Item = &'a PodInfo>,
) -> Vec<Usage> {
    let mut offered: BTreeMap<Arc<str>, i128> = BTreeMap::new();
    for node in &cluster.nodes {
        add(&mut offered, "pods", node.allowed_pods);
        add(&mut offered, "cpu", node.allocatable.milli_cpu);
        add(&mut offered, "memory", node.allocatable.memory);
        add(&mut offered, "ephemeral-storage", node.allocatable.ephemeral_storage);
        node.allocatable.scalars.iter().for_each(|(name, amount)| add(&mut offered, name, *amount));
    }
    let before = taken(cluster.bound.iter().map(|pod| &**pod));
    let (more, less) = (taken(placed), taken(gone));
    let get = |amounts: &BTreeMap<Arc<str>, i128>, name: &str| amounts.get(name).copied().unwrap_or(0);
    let usage = |(name, offered): (Arc<str>, i128)| {
        let (before, more) = (get(&before, &name), get(&more, &name) - get(&less, &name));
        let share = |used: i128| Share { used: Amount::of(&name, used), percent: percent(used, offered) };
        let (before, after) = (share(before), share(before + more));
        Usage { allocatable: Amount::of(&name, offered), name, before, after }
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
        // An overflow would need 2^63 nodes or pods of the largest amounts.
        Some(sum) => *sum += i128::from(amount),
        None => {
            amounts.insert(name.into(), i128::from(amount));
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share in percent needs few digits")]
fn percent(used: i128, offered: i128) -> f64 {
    (used as f64 * 1000.0 / offered.max(1) as f64).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_one_decimal() {
        assert_eq!([percent(1, 3), percent(0, 0), percent(3, 2)], [33.3, 0.0, 150.0]);
    }
}
