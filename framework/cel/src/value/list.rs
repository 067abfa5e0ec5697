//! Lists.

use std::sync::{Arc, Mutex, PoisonError};

use super::Value;

/// A list. One that a comprehension has just begun grows in place, as upstream's does, and all who hold it see that.
#[derive(Clone, Debug)]
pub(crate) struct List {
    items: Items,
    /// Made by `+`: upstream compares such lists in another way.
    joined: bool,
}

#[derive(Clone, Debug)]
enum Items {
    /// The elements, and what they weigh.
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
    /// A list of values.
    pub(crate) fn new(values: Vec<Value>) -> Self {
        let weight = weigh(&values);
        Self { items: Items::Fixed(values.into(), weight), joined: false }
    }

    /// The weight of all elements: [`Value::weight`].
    pub(crate) fn weight(&self) -> u64 {
        match &self.items {
            Items::Fixed(_, weight) => *weight,
            Items::Growing(grown) => grown.lock().unwrap_or_else(PoisonError::into_inner).weight,
        }
    }

    /// An empty list that grows in place.
    pub(crate) fn growing() -> Self {
        Self { items: Items::Growing(Arc::default()), joined: false }
    }

    /// Whether it grows in place.
    pub(crate) fn is_growing(&self) -> bool {
        matches!(self.items, Items::Growing(_))
    }

    /// The same list, which grows no more.
    pub(crate) fn fixed(&self) -> Self {
        Self { items: Items::Fixed(self.values(), self.weight()), joined: self.joined }
    }

    /// How many elements there are.
    pub(crate) fn len(&self) -> usize {
        match &self.items {
            Items::Fixed(values, _) => values.len(),
            Items::Growing(grown) => grown.lock().unwrap_or_else(PoisonError::into_inner).values.len(),
        }
    }

    /// The element at an index.
    pub(crate) fn get(&self, index: usize) -> Option<Value> {
        match &self.items {
            Items::Fixed(values, _) => values.get(index).cloned(),
            Items::Growing(grown) => grown.lock().unwrap_or_else(PoisonError::into_inner).values.get(index).cloned(),
        }
    }

    /// All elements.
    pub(crate) fn values(&self) -> Arc<[Value]> {
        match &self.items {
            Items::Fixed(values, _) => Arc::clone(values),
            Items::Growing(grown) => grown.lock().unwrap_or_else(PoisonError::into_inner).values.as_slice().into(),
        }
    }

    /// This list with another behind it.
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

    /// Whether `+` made it.
    pub(crate) fn is_joined(&self) -> bool {
        self.joined
    }
}
