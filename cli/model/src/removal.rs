//! The removal of nodes. An attempt that fails is undone with a clone of the controllers.

use std::sync::Arc;

use flotilla_cluster::lifecycle::{Key, PodFacts};
use flotilla_framework::{
    class::{Class, PodInfo},
    preemption::Budget,
};

use crate::{
    change::{Change, Deletion},
    controllers::Controllers,
    drains::Drain,
    report::Blocked,
    world::key,
};

/// A pod on a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Resident {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// The fields that kubelets and evictions read.
    pub facts: PodFacts,
    /// A controller recreates the pod.
    pub is_controlled: bool,
}

impl Resident {
    /// Whether the pod leaves with its node: a pod of a DaemonSet, or a mirror pod.
    #[must_use]
    pub fn goes_with_node(&self) -> bool {
        self.facts.is_of_daemon_set() || self.facts.is_mirror
    }
}

impl Controllers {
    /// All pods, in no order.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.world.all()
    }

    /// The current state of a pod.
    #[must_use]
    pub fn pod(&self, like: &PodInfo) -> Option<&Arc<PodInfo>> {
        self.world.get(&key(like)).filter(|pod| pod.uid == like.uid)
    }

    /// The current state of a budget.
    #[must_use]
    pub fn budget(&self, namespace: &str, name: &str) -> Option<&Budget> {
        self.world.budgets.all().find(|budget| &*budget.namespace == namespace && &*budget.name == name)
    }

    /// The pods on a node, by namespace and name.
    #[must_use]
    pub fn residents(&self, node: &str) -> Vec<Resident> {
        let on_node = self.world.all().filter(|pod| pod.node_name.as_deref() == Some(node));
        let mut pods: Vec<&Arc<PodInfo>> = on_node.collect();
        pods.sort_by_cached_key(|pod| key(pod));
        let resident = |pod: &Arc<PodInfo>| Resident {
            pod: Arc::clone(pod),
            facts: self.world.facts(&pod.uid).cloned().unwrap_or_default(),
            is_controlled: self.world.is_controlled(&pod.uid),
        };
        pods.into_iter().map(resident).collect()
    }

    /// Begins to evict the pods of a cordoned node, as `kubectl drain --force --delete-emptydir-data --ignore-daemonsets` does.
    /// [`Self::report`] leaves this drain out.
    pub fn vacate(&mut self, node: &Arc<str>) {
        let mut drain = Drain::new(node);
        self.residents(node).iter().for_each(|resident| drain.add(&resident.pod, &self.world));
        self.vacated = Some(drain);
    }

    /// The first pod that cannot be evicted from the node of [`Self::vacate`].
    #[must_use]
    pub fn first_blocked(&self) -> Option<Blocked> {
        self.vacated.as_ref()?.report(&self.world).blocked.into_iter().next()
    }

    /// Deletes the pods that leave with a node: those of DaemonSets, also pending ones for this node alone, and mirror pods.
    pub fn remove_node(&mut self, node: &str) -> Vec<Change> {
        self.vacated = None;
        let is_for_node = |pod: &PodInfo| match pod.node_name.as_deref() {
            Some(bound) => bound == node,
            None => only_node(&pod.class) == Some(node),
        };
        let goes = |pod: &PodInfo| {
            self.world
                .facts(&pod.uid)
                .is_some_and(|facts| facts.is_of_daemon_set() || facts.is_mirror && pod.node_name.is_some())
        };
        let pods = self.world.all().filter(|pod| is_for_node(pod) && goes(pod));
        let mut keys: Vec<Key> = pods.map(|pod| key(pod)).collect();
        keys.sort_unstable();
        let mut changes = Vec::new();
        for key in keys {
            self.world.delete(&key, Deletion::Evicted, &mut changes);
        }
        self.sync_budgets(&mut changes);
        changes
    }

    /// Continues the names of another state, so that no name of a deleted pod is used again.
    pub fn continue_names(&mut self, other: &Self) {
        self.world.continue_names(&other.world);
    }
}

/// The node of a DaemonSet's pod.
fn only_node(class: &Class) -> Option<&str> {
    let [term] = class.required_terms.as_deref()? else { return None };
    let [field] = term.fields.as_slice() else { return None };
    let [node] = field.values.as_slice() else { return None };
    Some(node)
}

#[cfg(test)]
mod tests {
    use flotilla_framework::class::{Common, NodeTerm, Requirement};

    use super::*;

    #[test]
    fn a_pod_of_a_daemon_set_is_for_the_node_of_its_only_field() {
        let field = |values: &[&str]| Requirement {
            key: "metadata.name".into(),
            operator: "In".into(),
            values: values.iter().map(|value| (*value).into()).collect(),
        };
        let term = |fields: Vec<Requirement>| NodeTerm { expressions: Vec::new(), fields };
        let cases = [
            (None, None),
            (Some(vec![term(vec![field(&["a"])])]), Some("a")),
            (Some(vec![term(vec![field(&["a", "b"])])]), None),
            (Some(vec![term(vec![field(&["a"])]), term(vec![field(&["b"])])]), None),
            (Some(vec![term(Vec::new())]), None),
        ];
        for (required_terms, expected) in cases {
            let common = Arc::new(Common { required_terms, ..Common::default() });
            assert_eq!(only_node(&Class { common, ..Class::default() }), expected);
        }
    }
}
