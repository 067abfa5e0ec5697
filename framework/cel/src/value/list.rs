//! Lists.

use std::sync::{Arc, Mutex, PoisonError};

use super::Value;

/// A list. As upstream, the accumulator of a comprehension grows in place, visible in all its copies.
#[derive(Clone, Debug)]
pub(crate) struct List {
    items: Items,
    /// Created by `+`. Upstream compares such lists differently.
    joined: bool,
}

#[derive(Clone, Debug)]
enum Items {
    Fixed(Arc<[Value]>, u64),
    Growing(Arc<Mutex<Grown>>),
}

#[derive(Debug, Default)]
struct Grown {
    values: Vec<Value>,
    weight: u64,
}

fn weigh(values: &[Value]) -> u64 {
    values.iter().fold(0, |sum: u64, value| sum.saturating_add(value.weight()))
}

impl List {
    pub(crate) fn new(values: Vec<Value>) -> Self {
        let weight = weigh(&values);
        Self { items: Items::Fixed(values.into(), weight), joined: false }
    }

    pub(crate) fn weight(&self) -> u64 {
        match &self.items {
            Items::Fixed(_, weight) => *weight,
            Items::Growing(grown) => grown.lock().unwrap_or_else(PoisonError::into_inner).weight,
        }
    }

    pub(crate) fn growing() -> Self {
        Self { items: Items::Growing(Arc::default()), joined: false }
    }

    pub(crate) fn is_growing(&self) -> bool {
        matches!(self.items, Items::Growing(_))
    }

    pub(crate) fn fixed(&self) -> Self {
        Self { items: Items::Fixed(self.values(), self.weight()), joined: self.joined }
    }

    pub(crate) fn len(&self) -> usize {
        match &self.items {
            Items::Fixed(values, _) => values.len(),
            Items::Growing(grown) => grown.lock().unwrap_or_else(PoisonError::into_inner).values.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Value> {
        match &self.items {
            Items::Fixed(values, _) => values.get(index).cloned(),
            Items::Growing(grown) => grown.lock().unwrap_or_else(PoisonError::into_inner).values.get(index).cloned(),
        }
    }

    pub(crate) fn values(&self) -> Arc<[Value]> {
        match &self.items {
            Items::Fixed(values, _) => Arc::clone(values),
            Items::Growing(grown) => grown.lock().unwrap_or_else(PoisonError::into_inner).values.as_slice().into(),
        }
    }

    pub(crate) fn join(&self, other: &Self) -> Self {
        let added = other.values();
        if let Items::Growing(grown) = &self.items {
            let mut grown = grown.lock().unwrap_or_else(PoisonError::into_inner);
            grown.values.extend_from_slice(&added);
            grown.weight = grown.weight.saturating_add(weigh(&added));
            return self.clone();
        }
        if self.len() == 0 {
            return other.clone();
        }
        if added.is_empty() {
            return self.clone();
        }
        let joined: Vec<Value> = self.values().iter().chain(added.iter()).cloned().collect();
        let weight = self.weight().saturating_add(other.weight());
        Self { items: Items::Fixed(joined.into(), weight), joined: true }
    }

    pub(crate) fn is_joined(&self) -> bool {
        self.joined
    }
}
