//! The cluster state derived from a machine's inputs, for the beginning of a later part.
//!
//! It shares the machine's objects: a pointer and a key each. Only claims and device classes with parameters are copied, without the
//! parameters.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    class::{OwnerKind, PodInfo},
    extension::objects::{Object, ObjectKey},
    labels::LabelSelector,
    map::Map,
    node::NodeInfo,
    pod_group::{GroupKey, PodGroup},
    preemption::Budget,
};
use flotilla_machine::event::{BindFailure, Configuration, Event, Selecting, SelectingKind};

use crate::decision::Decision;

type Name = Arc<str>;

/// The cluster state. A clone copies only pointers.
#[derive(Debug, Clone, Default)]
pub struct World {
    configuration: Option<Arc<Configuration>>,
    is_synced: bool,
    namespaces: BTreeMap<Name, Vec<(Name, Name)>>,
    selectors: BTreeMap<(u8, Name, Name), (Selecting, LabelSelector)>,
    objects: BTreeMap<ObjectKey, Object>,
    groups: BTreeMap<GroupKey, Arc<PodGroup>>,
    budgets: BTreeMap<(Name, Name), Arc<Budget>>,
    nodes: Map<Name, Arc<NodeInfo>>,
    pods: Map<Name, Arc<PodInfo>>,
    placed: BTreeMap<Name, Name>,
}

/// Sort order of kinds that select pods.
const fn number(kind: SelectingKind) -> u8 {
    match kind {
        SelectingKind::Service => 0,
        SelectingKind::Controller(OwnerKind::ReplicationController) => 1,
        SelectingKind::Controller(OwnerKind::ReplicaSet) => 2,
        SelectingKind::Controller(OwnerKind::StatefulSet) => 3,
    }
}

fn key(object: &Selecting) -> (u8, Name, Name) {
    (number(object.kind), Arc::clone(&object.namespace), Arc::clone(&object.name))
}

impl World {
    /// Applies an input.
    pub fn apply(&mut self, event: &Event) {
        let pair = |namespace: &Name, name: &Name| (Arc::clone(namespace), Arc::clone(name));
        match event {
            Event::Configured(configuration) => self.configuration = Some(Arc::clone(configuration)),
            Event::Synced => self.is_synced = true,
            Event::PodApplied(pod) => self.pod(pod),
            Event::PodDeleted { uid } => {
                self.pods.swap_remove(uid);
                self.placed.remove(uid);
            }
            Event::NodeApplied(node) => {
                self.nodes.insert(Arc::clone(&node.name), Arc::clone(node));
            }
            Event::NodeDeleted { name } => {
                self.nodes.swap_remove(name);
            }
            Event::NamespaceApplied { name, labels } => {
                self.namespaces.insert(Arc::clone(name), labels.clone());
            }
            Event::NamespaceDeleted { name } => {
                self.namespaces.remove(name);
            }
            Event::SelectorApplied { object, selector } => {
                self.selectors.insert(key(object), (object.clone(), selector.clone()));
            }
            Event::SelectorDeleted { object } => {
                self.selectors.remove(&key(object));
            }
            Event::ObjectApplied(object) => {
                self.objects.insert(object.key(), object.clone());
            }
            Event::ObjectDeleted(key) => {
                self.objects.remove(key);
            }
            Event::PodGroupApplied(group) => {
                self.groups.insert(group.group_key(), Arc::clone(group));
            }
            Event::PodGroupDeleted(key) => {
                self.groups.remove(key);
            }
            Event::BudgetApplied(budget) => {
                self.budgets.insert(pair(&budget.namespace, &budget.name), Arc::clone(budget));
            }
            Event::BudgetDeleted { namespace, name } => {
                self.budgets.remove(&pair(namespace, name));
            }
            Event::BindFailed { uid, failure: BindFailure::Error(_) | BindFailure::Gone }
            | Event::Written { uid, failure: Some(_), .. } => {
                self.placed.remove(uid);
            }
            _ => {}
        }
    }

    fn pod(&mut self, pod: &Arc<PodInfo>) {
        if pod.node_name.is_some() {
            self.placed.remove(&pod.uid);
        }
        self.pods.insert(Arc::clone(&pod.uid), Arc::clone(pod));
    }

    /// Applies decisions.
    pub fn decided(&mut self, decisions: &[Decision]) {
        for decision in decisions {
            match decision {
                Decision::Bind { pod, node, .. } | Decision::Reserve { pod, node, .. } => {
                    self.placed.insert(Arc::clone(&pod.uid), Arc::clone(node));
                }
                Decision::Refuse { pod, .. } => {
                    self.placed.remove(&pod.uid);
                }
                _ => {}
            }
        }
    }

    /// Number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        let few = self.namespaces.len() + self.selectors.len() + self.groups.len() + self.budgets.len();
        few + self.objects.len() + self.nodes.len() + self.pods.len()
    }

    /// Whether there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Events that recreate the state.
    pub fn events(&self) -> impl Iterator<Item = Event> {
        let configured = self.configuration.iter().map(|configuration| Event::Configured(Arc::clone(configuration)));
        let namespaces = self.namespaces.iter();
        let namespaces =
            namespaces.map(|(name, labels)| Event::NamespaceApplied { name: Arc::clone(name), labels: labels.clone() });
        let selectors = self.selectors.values();
        let selectors = selectors
            .map(|(object, selector)| Event::SelectorApplied { object: object.clone(), selector: selector.clone() });
        let objects = self.objects.values().cloned().map(Event::ObjectApplied);
        let groups = self.groups.values().cloned().map(Event::PodGroupApplied);
        let budgets = self.budgets.values().cloned().map(Event::BudgetApplied);
        let nodes = self.nodes.values().cloned().map(Event::NodeApplied);
        let pods = self.pods.values().map(|pod| Event::PodApplied(self.as_decided(pod)));
        let synced = self.is_synced.then_some(Event::Synced);
        let small = configured.chain(namespaces).chain(selectors).chain(objects).chain(groups).chain(budgets);
        small.chain(nodes).chain(pods).chain(synced)
    }

    fn as_decided(&self, pod: &Arc<PodInfo>) -> Arc<PodInfo> {
        match self.placed.get(&pod.uid) {
            Some(node) => Arc::new(PodInfo { node_name: Some(Arc::clone(node)), ..PodInfo::clone(pod) }),
            None => Arc::clone(pod),
        }
    }
}
