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
    Fixed(Arc<[Value]>),
    Growing(Arc<Mutex<Vec<Value>>>),
}

impl List {
    /// A list of values.
    pub(crate) fn new(values: Vec<Value>) -> Self {
        Self { items: Items::Fixed(values.into()), joined: false }
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
        Self { items: Items::Fixed(self.values()), joined: self.joined }
    }

    /// How many elements there are.
    pub(crate) fn len(&self) -> usize {
        match &self.items {
            Items::Fixed(values) => values.len(),
            Items::Growing(values) => values.lock().unwrap_or_else(PoisonError::into_inner).len(),
        }
    }

    /// The element at an index.
    pub(crate) fn get(&self, index: usize) -> Option<Value> {
        match &self.items {
            Items::Fixed(values) => values.get(index).cloned(),
            Items::Growing(values) => values.lock().unwrap_or_else(PoisonError::into_inner).get(index).cloned(),
        }
    }

    /// All elements.
    pub(crate) fn values(&self) -> Arc<[Value]> {
        match &self.items {
            Items::Fixed(values) => Arc::clone(values),
            Items::Growing(values) => values.lock().unwrap_or_else(PoisonError::into_inner).as_slice().into(),
        }
    }

    /// This list with another behind it.
    pub(crate) fn join(&self, other: &Self) -> Self {
        let added = other.values();
        if let Items::Growing(values) = &self.items {
            values.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&added);
            return self.clone();
        }
        if self.len() == 0 {
            return other.clone();
        }
        if added.is_empty() {
            return self.clone();
        }
        let joined: Vec<Value> = self.values().iter().chain(added.iter()).cloned().collect();
        Self { items: Items::Fixed(joined.into()), joined: true }
    }

    /// Whether `+` made it.
    pub(crate) fn is_joined(&self) -> bool {
        self.joined
    }
}
