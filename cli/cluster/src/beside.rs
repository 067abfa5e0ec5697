//! Objects that are added to an existing cluster, as by `kubectl apply`.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use flotilla_framework::{
    class::{PodInfo, Taint},
    devices::model::request::ClaimSpec,
    ingest::Features,
    node::NodeInfo,
};
use serde::{Deserialize, Serialize};

use super::{
    admission::Rules,
    objects::{Cluster, Gatherer},
};

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Objects that others refer to and no plugin reads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct References {
    /// The value of each PriorityClass object, and whether its pods never preempt.
    pub priorities: BTreeMap<String, (i32, bool)>,
    /// Value and policy of pods without a class.
    pub default: (i32, bool),
    /// Creation time of the default StorageClass, in seconds since 1970, and its name.
    pub storage_class: Option<(i64, String)>,
    /// ResourceClaimTemplates by namespace and name.
    #[serde(with = "pairs")]
    pub templates: BTreeMap<(Arc<str>, Arc<str>), Arc<ClaimSpec>>,
    /// LimitRanges, RuntimeClasses and node selectors of namespaces.
    pub rules: Rules,
    /// The feature gates that objects are read with.
    pub features: Features,
}

/// Serializes maps with tuple keys as lists.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(super) fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(deserializer)?.into_iter().collect())
    }
}

impl Gatherer {
    /// Gathers objects that are added to `cluster`. The result has the new objects alone, for [`Cluster::joined`].
    #[must_use]
    pub fn beside(cluster: &Cluster) -> Self {
        let mut gatherer = Self::knowing(cluster);
        gatherer.workloads.class.clone_from(&cluster.references.storage_class);
        let gatherer = if cluster.groups.is_some() { gatherer.with_groups() } else { gatherer };
        if cluster.coscheduling.is_some() { gatherer.with_coscheduling() } else { gatherer }
    }
}

impl Cluster {
    /// The pod groups of both APIs.
    pub fn pod_groups(&self) -> impl Iterator<Item = &flotilla_framework::pod_group::PodGroup> {
        self.groups.iter().chain(&self.coscheduling).flatten()
    }

    /// Adds the objects of `new`; each replaces one of its kind and name.
    #[must_use]
    pub fn joined(mut self, new: Self) -> Self {
        let key = |node: &Arc<NodeInfo>| Arc::clone(&node.name);
        replace(&mut self.nodes, new.nodes, key);
        self.nodes.sort_by(|left, right| left.name.cmp(&right.name));
        let names: HashSet<String> = new.bound.iter().chain(&new.pending).map(|pod| pod.key()).collect();
        let is_other = |pod: &Arc<PodInfo>| !names.contains(&pod.key());
        self.bound.retain(is_other);
        self.pending.retain(is_other);
        self.bound.extend(new.bound);
        self.pending.extend(new.pending);
        self.namespaces = new.namespaces;
        replace(&mut self.storage, new.storage, |object| object.key());
        replace(&mut self.devices, new.devices, |object| object.key());
        let key = |budget: &flotilla_framework::preemption::Budget| (budget.namespace.clone(), budget.name.clone());
        replace(&mut self.budgets, new.budgets, key);
        self.budgets.sort_by_key(key);
        for (object, selector) in new.selectors {
            match self.selectors.iter_mut().find(|(known, _)| *known == object) {
                Some((_, known)) => *known = selector,
                None => self.selectors.push((object, selector)),
            }
        }
        if let (Some(groups), Some(new)) = (&mut self.groups, new.groups) {
            replace(groups, new, |group| group.group_key());
        }
        if let (Some(groups), Some(new)) = (&mut self.coscheduling, new.coscheduling) {
            replace(groups, new, |group| group.key());
        }
        self.lifecycle.join(new.lifecycle);
        self.systems.extend(new.systems);
        self.references = new.references;
        self.topology_keys.extend(new.topology_keys);
        self
    }

    /// Removes nodes and their pods.
    #[must_use]
    pub fn without_nodes(mut self, names: &HashSet<String>) -> Self {
        self.nodes.retain(|node| !names.contains(&*node.name));
        self.bound.retain(|pod| pod.node_name.as_deref().is_none_or(|node| !names.contains(node)));
        self
    }

    /// Cordons or uncordons nodes.
    #[must_use]
    pub fn cordoned(mut self, names: &HashSet<String>, unschedulable: bool) -> Self {
        for node in self.nodes.iter_mut().filter(|node| names.contains(&*node.name)) {
            let mut changed = NodeInfo { unschedulable, ..NodeInfo::clone(node) };
            // As the node controller does.
            changed.taints.retain(|taint| &*taint.key != UNSCHEDULABLE);
            if unschedulable {
                let (key, value, effect) = (UNSCHEDULABLE.into(), Arc::default(), "NoSchedule".into());
                changed.taints.push(Taint { key, value, effect });
            }
            *node = Arc::new(changed);
        }
        self
    }
}

/// Replaces objects of the same key in place, and appends the others.
fn replace<T, K: Eq + std::hash::Hash>(known: &mut Vec<T>, new: Vec<T>, key: impl Fn(&T) -> K) {
    let names: HashSet<K> = new.iter().map(&key).collect();
    known.retain(|object| !names.contains(&key(object)));
    known.extend(new);
}
