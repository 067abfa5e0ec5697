//! The number of placed pods of each pod group, and its topology domain.

use std::collections::{BTreeMap, BTreeSet};

use flotilla_cluster::{Cluster, Groups};
use flotilla_framework::{
    class::PodInfo,
    node::NodeInfo,
    pod_group::{GroupApi, GroupKey, Hierarchy, PodGroup, Topology},
};
use serde::Serialize;

/// The limit of groups that one line each is printed for.
const MOST_LINES: usize = 20;

/// A pod group after a simulation.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupResult {
    kind: &'static str,
    /// `namespace/name`.
    group: String,
    placed: usize,
    pods: usize,
    /// `key=value` of the label that all its nodes have, if the group has a topology constraint.
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<String>,
}

#[derive(Default)]
struct Tally<'a> {
    is_decided: bool,
    pods: usize,
    placed: usize,
    /// The values of the topology label on the nodes of the pods.
    values: BTreeSet<Option<&'a str>>,
}

impl GroupResult {
    /// The groups with at least one decided pod: those that are not complete first. `pods` are all pods after the simulation, with their nodes.
    pub(crate) fn all<'a>(
        (cluster, groups): (&'a Cluster, &Groups),
        pods: impl Iterator<Item = (&'a PodInfo, Option<&'a str>)>,
        is_decided: impl Fn(&PodInfo) -> bool,
    ) -> Vec<Self> {
        if !groups.count() {
            return Vec::new();
        }
        let nodes: BTreeMap<&str, &NodeInfo> = cluster.nodes.iter().map(|node| (&*node.name, &**node)).collect();
        let mut tallies: BTreeMap<GroupKey, Tally<'_>> = BTreeMap::new();
        for (pod, node) in pods {
            let node = node.and_then(|name| nodes.get(name).copied());
            let Some((group, _)) = groups.group(pod) else { continue };
            for (key, object) in groups.lineage(&group.group_key()) {
                tallies.entry(key).or_default().add(object, node, is_decided(pod));
            }
        }
        let decided = tallies.into_iter().filter(|(_, tally)| tally.is_decided);
        let end = |(key, tally): (GroupKey, Tally<'_>)| Some(tally.end(groups.object(&key)?));
        let mut all: Vec<Self> = decided.filter_map(end).collect();
        all.sort_by_key(|group| group.placed == group.pods);
        all
    }

    /// One line for each group.
    pub(crate) fn lines(all: &[Self]) -> Vec<String> {
        let mut lines: Vec<String> = all.iter().take(MOST_LINES).map(Self::sentence).collect();
        if all.len() > MOST_LINES {
            lines.push(format!("... and {} more pod groups; -o json has them all", all.len() - MOST_LINES));
        }
        lines
    }

    fn sentence(&self) -> String {
        let Self { kind, group, placed, pods, domain } = self;
        let domain = domain.as_ref().map(|domain| format!(", on nodes with {domain}")).unwrap_or_default();
        format!("{kind} {group}: {placed} of {pods} pods placed{domain}")
    }
}

impl<'a> Tally<'a> {
    fn add(&mut self, group: &PodGroup, node: Option<&'a NodeInfo>, is_decided: bool) {
        self.pods += 1;
        self.is_decided |= is_decided;
        let Some(node) = node else { return };
        self.placed += 1;
        if let Topology::Key(key) = &group.topology {
            self.values.insert(node.label(key));
        }
    }

    fn end(self, group: &PodGroup) -> GroupResult {
        let kind = match group.api {
            GroupApi::Kubernetes => "PodGroup",
            GroupApi::Coscheduling => "PodGroup.scheduling.x-k8s.io",
            GroupApi::Composite => "CompositePodGroup",
        };
        let value = self.values.first().copied().flatten().filter(|_| self.values.len() == 1);
        let domain = match &group.topology {
            Topology::Key(key) => value.map(|value| format!("{key}={value}")),
            Topology::Off | Topology::Unconstrained => None,
        };
        GroupResult { kind, group: group.key(), placed: self.placed, pods: self.pods, domain }
    }
}
