//! The differences between the two sides, for JSON and YAML.

use std::collections::{BTreeMap, BTreeSet};

use flotilla_account::why::{self, Refusal};
use flotilla_cluster::Groups;
use flotilla_framework::{profile::Profile, registry::Registry};
use serde::Serialize;

use super::{
    drains::Drain,
    removal::Removal,
    side::{Side, State},
};
use flotilla_account::amount::Amount;

use crate::{
    groups::GroupResult,
    rollouts::{NotCreated, Rollout},
    simulate::usage::Usage,
};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    pub(super) changes: Vec<String>,
    /// Pods with another outcome, by name.
    pub(super) pods: Vec<Row>,
    /// Pods that are preempted because of the changes.
    pub(super) preemptions: Vec<Preempted>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) drains: Vec<Drain>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) rollouts: Vec<Rollout>,
    /// The pod groups of `pods`, after the changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) groups: Vec<GroupResult>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) not_created: Vec<NotCreated>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) removal: Option<Removal>,
    pub(super) before: Totals,
    pub(super) after: Totals,
    pub(super) resources: Vec<Resource>,
    pub(super) zones: Vec<Zone>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bottleneck: Option<Bottleneck>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) pod: String,
    pub(super) change: Change,
    /// Absent for a pending pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Change {
    /// On a node or absent before, pending now.
    Pending,
    /// On another node.
    Moved,
    /// Pending before, on a node now.
    Placed,
    /// Absent before, on a node now.
    New,
    /// Absent now.
    Gone,
    /// Pending before, and on different nodes after the two simulations.
    Elsewhere,
    /// Pending with and without the changes.
    Waiting,
}

impl Change {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Moved => "moved",
            Self::Placed => "placed",
            Self::New => "new",
            Self::Gone => "gone",
            Self::Elsewhere => "elsewhere",
            Self::Waiting => "waiting",
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Preempted {
    pub(super) pod: String,
    pub(super) node: String,
    pub(super) by: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Totals {
    pub(super) nodes: usize,
    pub(super) pods: usize,
    pub(super) pending: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Resource {
    pub(super) name: String,
    pub(super) before: Share,
    pub(super) after: Share,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Share {
    pub(super) allocatable: Amount,
    pub(super) used: Amount,
    pub(super) percent: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Zone {
    pub(super) zone: String,
    pub(super) nodes_before: usize,
    pub(super) nodes_after: usize,
    pub(super) resources: Vec<Resource>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Bottleneck {
    pub(super) pod: String,
    pub(super) message: String,
    pub(super) refusals: Vec<Refusal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) advice: Option<String>,
}

impl Answer {
    /// Compares the sides; `profiles` are those of the second one.
    pub(super) fn new(
        changes: Vec<String>,
        before: &Side,
        after: &Side,
        profiles: &[Profile],
        registry: Registry,
    ) -> Self {
        let keys: BTreeSet<&String> = before.pods.keys().chain(after.pods.keys()).collect();
        let mut pods: Vec<Row> = keys.into_iter().filter_map(|key| row(key, before, after)).collect();
        pods.sort_by_key(|row| row.change);
        let was_evicted: BTreeSet<String> = before.evicted.iter().map(|evicted| evicted.pod.key()).collect();
        let evicted = after.evicted.iter().filter(|evicted| !was_evicted.contains(&evicted.pod.key()));
        let preemptions = evicted.map(|evicted| Preempted {
            pod: evicted.pod.key(),
            node: evicted.pod.node_name.as_deref().unwrap_or_default().to_owned(),
            by: evicted.by.clone(),
        });
        let drains: Vec<Drain> = after.report.drains.iter().map(Drain::of).collect();
        // A drain has a sentence now.
        let ended = |change: String| {
            let begins = |drain: &&Drain| drain.message.split_once(':').is_some_and(|(drain, _)| drain == change);
            drains.iter().find(begins).map_or_else(|| change.clone(), |drain| drain.message.clone())
        };
        let changes = changes.into_iter().map(ended).collect();
        Self {
            changes,
            preemptions: preemptions.collect(),
            before: Totals::of(before),
            after: Totals::of(after),
            resources: resources(&before.usage(), &after.usage()),
            zones: zones(before, after),
            drains,
            removal: None,
            rollouts: Rollout::all(&after.report.rollouts, after.messages()),
            groups: groups(&pods, after, &Groups::new(registry, &after.cluster, profiles)),
            not_created: NotCreated::all(&after.report),
            bottleneck: bottleneck(&pods, after, profiles, registry),
            pods,
        }
    }

    /// Whether a pod is pending only with the changes.
    pub(super) fn has_pending(&self) -> bool {
        self.pods.iter().any(|row| row.change == Change::Pending)
    }
}

/// The pod groups of these pods.
fn groups(pods: &[Row], after: &Side, groups: &Groups) -> Vec<GroupResult> {
    let changed: BTreeSet<&str> = pods.iter().map(|row| row.pod.as_str()).collect();
    let all = after.cluster.bound.iter().chain(&after.cluster.pending);
    let all = all.map(|pod| (&**pod, pod.node_name.as_deref()));
    GroupResult::all((&after.cluster, groups), all, |pod| changed.contains(pod.key().as_str()))
}

fn row(key: &String, before: &Side, after: &Side) -> Option<Row> {
    let (was, is) = (before.pods.get(key), after.pods.get(key));
    let change = match (was, is) {
        (Some(State::On(was)), Some(State::On(is))) if was == is => return None,
        (Some(State::On(_)), Some(State::On(_))) if before.standing.contains(key) => Change::Moved,
        (Some(State::On(_)), Some(State::On(_))) => Change::Elsewhere,
        (Some(State::Pending(_)), Some(State::Pending(_))) => Change::Waiting,
        (None, None) => return None,
        (_, Some(State::Pending(_))) => Change::Pending,
        (Some(State::Pending(_)), Some(State::On(_))) => Change::Placed,
        (None, Some(State::On(_))) => Change::New,
        (Some(_), None) => Change::Gone,
    };
    let node = |state: Option<&State>| match state {
        Some(State::On(node)) => Some(node.to_string()),
        _ => None,
    };
    let message = match is {
        Some(State::Pending(message)) => message.clone(),
        _ => String::new(),
    };
    Some(Row { pod: key.clone(), change, before: node(was), after: node(is), message })
}

fn bottleneck(rows: &[Row], after: &Side, profiles: &[Profile], registry: Registry) -> Option<Bottleneck> {
    let of = |change| -> BTreeMap<&str, &Row> {
        rows.iter().filter(|row| row.change == change).map(|row| (row.pod.as_str(), row)).collect()
    };
    // Without a pod that is newly pending, one that still waits.
    let (new, waiting) = (of(Change::Pending), of(Change::Waiting));
    let find = |rows: &BTreeMap<&str, &Row>| after.pending.iter().find(|pod| rows.contains_key(pod.key().as_str()));
    let pod = find(&new).or_else(|| find(&waiting))?;
    let why = why::why(&after.cluster, pod, profiles, registry);
    let message = after.message(pod).unwrap_or_default().to_owned();
    Some(Bottleneck { pod: pod.key(), message, refusals: why.refusals, advice: why.advice })
}

impl Totals {
    fn of(side: &Side) -> Self {
        Self { nodes: side.cluster.nodes.len(), pods: side.pods.len(), pending: side.pending.len() }
    }
}

/// A node may have tens of thousands of resources.
fn resources(before: &[Usage], after: &[Usage]) -> Vec<Resource> {
    fn by_name(side: &[Usage]) -> BTreeMap<&str, &Usage> {
        side.iter().map(|usage| (&*usage.name, usage)).collect()
    }
    fn share(side: &BTreeMap<&str, &Usage>, name: &str) -> Share {
        let none = Share { allocatable: Amount::of(name, 0), used: Amount::of(name, 0), percent: 0.0 };
        side.get(name).map_or(none, |usage| Share {
            allocatable: usage.allocatable,
            used: usage.before.used,
            percent: usage.before.percent,
        })
    }
    let (was, is) = (by_name(before), by_name(after));
    let mut seen = BTreeSet::new();
    let names = before.iter().chain(after).map(|usage| &*usage.name).filter(|name| seen.insert(*name));
    names.map(|name| Resource { name: name.to_owned(), before: share(&was, name), after: share(&is, name) }).collect()
}

fn zones(before: &Side, after: &Side) -> Vec<Zone> {
    let (before, after) = (before.zones(), after.zones());
    let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let none = (0, Vec::new());
    let zone = |name: &std::sync::Arc<str>| {
        let (was, is) = (before.get(name).unwrap_or(&none), after.get(name).unwrap_or(&none));
        Zone { zone: name.to_string(), nodes_before: was.0, nodes_after: is.0, resources: resources(&was.1, &is.1) }
    };
    names.into_iter().map(zone).collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn usage(name: &str, allocatable: i128) -> Usage {
        let share = crate::simulate::usage::Share { used: Amount::of(name, 1), percent: 1.0 };
        Usage { name: name.into(), allocatable: Amount::of(name, allocatable), before: share, after: share }
    }

    #[test]
    fn resources_of_both_sides_are_listed_once_in_the_order_of_the_first() {
        let listed = resources(&[usage("cpu", 4), usage("b", 2)], &[usage("b", 3), usage("a", 1)]);
        let listed: Vec<_> = listed.iter().map(|one| (&*one.name, one.before.percent, one.after.percent)).collect();
        assert_eq!(listed, [("cpu", 1.0, 0.0), ("b", 1.0, 1.0), ("a", 0.0, 1.0)]);
    }

    #[test]
    fn tens_of_thousands_of_resources_are_compared_in_a_moment() {
        let side: Vec<Usage> = (0..50_000).map(|number| usage(&format!("example.com/{number:05}"), 1)).collect();
        let begun = Instant::now();
        assert_eq!(resources(&side, &side).len(), side.len());
        // A quadratic comparison takes 5 * 10^9 steps, or a minute.
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}
