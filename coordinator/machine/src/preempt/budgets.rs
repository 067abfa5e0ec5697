//! PodDisruptionBudgets, and the classes that they cover.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    class::{Class, ClassId},
    labels::LabelSelector,
    map::Map,
    preemption::Budget,
};

type BudgetKey = (Arc<str>, Arc<str>);

/// All budgets. The budgets of a class are cached until a selector changes: 24 bytes per class that was looked up.
#[derive(Debug, Default)]
pub(crate) struct Budgets {
    known: BTreeMap<BudgetKey, Budget>,
    covering: Map<ClassId, Vec<BudgetKey>>,
    /// Counts changes.
    version: u64,
}

impl Budgets {
    /// Adds or updates a budget. Returns its previous selector.
    pub(crate) fn apply(&mut self, budget: &Budget) -> Option<LabelSelector> {
        let key = (Arc::clone(&budget.namespace), Arc::clone(&budget.name));
        let old = self.known.insert(key, budget.clone());
        self.version += u64::from(old.as_ref() != Some(budget));
        let old = old.map(|old| old.selector);
        if old.as_ref() != Some(&budget.selector) {
            self.covering.clear();
        }
        old
    }

    pub(crate) fn delete(&mut self, namespace: &Arc<str>, name: &Arc<str>) -> Option<LabelSelector> {
        let gone = self.known.remove(&(Arc::clone(namespace), Arc::clone(name)))?;
        self.covering.clear();
        self.version += 1;
        Some(gone.selector)
    }

    pub(crate) fn forget_class(&mut self, class: ClassId) {
        if !self.covering.is_empty() {
            self.covering.swap_remove(&class);
        }
    }

    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// The budgets that may cover a pod of one of these classes, sorted.
    pub(crate) fn covering<'a>(&mut self, classes: impl Iterator<Item = (ClassId, &'a Class)>) -> Vec<&Budget> {
        if self.known.is_empty() {
            return Vec::new();
        }
        let mut keys: Vec<BudgetKey> = Vec::new();
        for (id, class) in classes {
            let known = &self.known;
            let covering = self.covering.entry(id).or_insert_with(|| covering(known, class));
            keys.extend(covering.iter().cloned());
        }
        keys.sort_unstable();
        keys.dedup();
        keys.iter().filter_map(|key| self.known.get(key)).collect()
    }
}

fn covering(known: &BTreeMap<BudgetKey, Budget>, class: &Class) -> Vec<BudgetKey> {
    // No pod has an empty name, so none is taken for one with an eviction in progress.
    let unnamed: Arc<str> = Arc::default();
    let namespace = known.range((Arc::clone(&class.namespace), Arc::default())..);
    let namespace = namespace.take_while(|((namespace, _), _)| *namespace == class.namespace);
    namespace.filter(|(_, budget)| budget.covers(class, &unnamed)).map(|(key, _)| key.clone()).collect()
}
