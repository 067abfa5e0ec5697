//! Labels of namespaces, and selectors of services and controllers, as far as placement depends on them.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    class::{Class, Owner},
    extension::{DefaultSelector, Facts},
    labels::LabelSelector,
    plugins::{inter_pod_affinity, pod_topology_spread},
};
use indexmap::IndexMap;

use crate::event::{Selecting, SelectingKind};

type Labels = Vec<(Arc<str>, Arc<str>)>;

/// All namespaces and selectors, from watches or files.
#[derive(Debug, Default)]
pub struct Directory {
    namespaces: BTreeMap<Arc<str>, Labels>,
    services: IndexMap<Arc<str>, BTreeMap<Arc<str>, Labels>>,
    controllers: IndexMap<(Arc<str>, Owner), LabelSelector>,
    version: u64,
}

impl Directory {
    /// Sets the labels of a namespace; `None` removes it. Returns whether that is a change.
    pub fn set_namespace(&mut self, name: &Arc<str>, labels: Option<&Labels>) -> bool {
        let changed = self.namespaces.get(name) != labels;
        match labels {
            Some(labels) => drop(self.namespaces.insert(Arc::clone(name), labels.clone())),
            None => drop(self.namespaces.remove(name)),
        }
        self.version += u64::from(changed);
        changed
    }

    /// The number of namespaces.
    #[must_use]
    pub fn namespaces(&self) -> usize {
        self.namespaces.len()
    }

    /// The selector of a service or controller; `None` if it is unknown or selects nothing.
    #[must_use]
    pub fn selector(&self, Selecting { kind, namespace, name }: &Selecting) -> Option<LabelSelector> {
        match kind {
            SelectingKind::Service => {
                let labels = self.services.get(namespace)?.get(name)?;
                Some(LabelSelector::equal(labels.iter().map(|(key, value)| (key, value))))
            }
            SelectingKind::Controller(kind) => {
                let owner = Owner { kind: *kind, name: Arc::clone(name) };
                self.controllers.get(&(Arc::clone(namespace), owner)).cloned()
            }
        }
    }

    /// Sets the selector of a service or controller; `None` removes it. Returns whether that is a change.
    pub fn set_selector(&mut self, object: &Selecting, selector: Option<&LabelSelector>) -> bool {
        let Selecting { kind, namespace, name } = object;
        let changed = match kind {
            SelectingKind::Service => self.set_service(namespace, name, selector),
            SelectingKind::Controller(kind) => {
                let key = (Arc::clone(namespace), Owner { kind: *kind, name: Arc::clone(name) });
                let changed = self.controllers.get(&key) != selector;
                match selector {
                    Some(selector) => drop(self.controllers.insert(key, selector.clone())),
                    None => drop(self.controllers.swap_remove(&key)),
                }
                changed
            }
        };
        self.version += u64::from(changed);
        changed
    }

    /// A service without a selector selects nothing, so it is stored like a deleted one.
    fn set_service(&mut self, namespace: &Arc<str>, name: &Arc<str>, selector: Option<&LabelSelector>) -> bool {
        let services = self.services.entry(Arc::clone(namespace)).or_default();
        let equal = match selector {
            Some(LabelSelector::Matching(requirements)) => {
                let pairs = requirements.iter().filter_map(|requirement| {
                    Some((Arc::clone(&requirement.key), Arc::clone(requirement.values.first()?)))
                });
                Some(pairs.collect())
            }
            Some(LabelSelector::Nothing) | None => None,
        };
        let changed = services.get(name) != equal.as_ref();
        match equal {
            Some(equal) => drop(services.insert(Arc::clone(name), equal)),
            None => drop(services.remove(name)),
        }
        if services.is_empty() {
            self.services.swap_remove(namespace);
        }
        changed
    }

    /// Changes whenever the facts of a class may have changed.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// The facts of a class, relative to the classes with affinities that are on a node or may be. An extra class only adds keys that count
    /// nothing, so it does not change results. The images stay empty. Keys that are no node's label (`is_label`) are left out, because each
    /// class may name a thousand.
    pub fn facts<'a>(
        &self,
        class: &Class,
        others: impl Iterator<Item = &'a Class>,
        is_label: impl Fn(&str) -> bool,
    ) -> Facts {
        let namespace_labels = self.namespaces.get(&class.namespace).cloned().unwrap_or_default();
        let (mut repelling_keys, mut scoring_keys) = inter_pod_affinity::keys_in_play(class, &namespace_labels, others);
        for keys in [&mut repelling_keys, &mut scoring_keys] {
            keys.retain(|key| is_label(key));
        }
        let namespaces = self.namespaces.iter().map(|(name, labels)| (name, labels.as_slice()));
        Facts {
            term_namespaces: inter_pod_affinity::term_namespaces(class, namespaces),
            default_selector: DefaultSelector(self.default_selector(class)),
            namespace_labels,
            repelling_keys,
            scoring_keys,
            ..Facts::default()
        }
    }

    fn default_selector(&self, class: &Class) -> LabelSelector {
        if !class.spread.is_empty() {
            return LabelSelector::EVERYTHING;
        }
        let services = self.services.get(&class.namespace).into_iter().flatten().map(|(_, labels)| labels.as_slice());
        let owner = class.owner.as_ref();
        let controller = owner.and_then(|owner| self.controllers.get(&(Arc::clone(&class.namespace), owner.clone())));
        pod_topology_spread::default_selector(class, services, controller)
    }
}
