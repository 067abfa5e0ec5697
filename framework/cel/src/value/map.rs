//! Maps. Where upstream's order is that of a Go map, which is random, ours is that of the keys.

use std::{
    cmp::Ordering,
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use super::{Failure, Value, number};
use crate::time::Timestamp;

/// A map. One that a comprehension has just begun grows in place, as upstream's does.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    entries: Entries,
    keys: Keys,
}

/// The entries, and what they weigh.
#[derive(Clone, Debug, Default)]
struct Table {
    entries: BTreeMap<Key, (Value, Value)>,
    weight: u64,
}

impl Table {
    fn insert(&mut self, key: Key, entry: (Value, Value)) {
        let added = entry.0.weight().saturating_add(entry.1.weight());
        let replaced = self.entries.insert(key, entry);
        let removed = replaced.map_or(0, |(key, value)| key.weight().saturating_add(value.weight()));
        self.weight = self.weight.saturating_add(added).saturating_sub(removed);
    }
}

#[derive(Clone, Debug)]
enum Entries {
    Fixed(Arc<Table>),
    Growing(Arc<Mutex<Table>>),
}

/// What a map takes for keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Any value; numbers of different types that are equal are the same key.
    Any,
    /// Strings only.
    Strings,
    /// Strings only, and what is not there is an empty map.
    Domains,
}

/// A key that has an order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(Ordered),
    String(Arc<str>),
    Duration(i64),
    Timestamp(Timestamp),
    Type(Arc<str>),
    /// A value that upstream tells by its address: the same as no other.
    Unique(usize),
}

/// A double that is not NaN.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ordered(f64);

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.partial_cmp(&other.0).unwrap_or_else(|| self.0.total_cmp(&other.0))
    }
}

/// The type whose values Go cannot use as keys of a map, for values of such types.
pub(crate) fn unhashable(value: &Value) -> Option<&'static str> {
    match value {
        Value::Bytes(_) => Some("types.Bytes"),
        Value::Semver(_) => Some("cel.Semver"),
        Value::Format(_) => Some("cel.Format"),
        _ => None,
    }
}

/// The key that a value is, if some other value can be the same key.
fn key(value: &Value) -> Result<Option<Key>, Failure> {
    if let Some(go_type) = unhashable(value) {
        return Err(Failure::unhashable(go_type));
    }
    Ok(match value {
        Value::Null => Some(Key::Null),
        Value::Bool(value) => Some(Key::Bool(*value)),
        Value::Int(value) => Some(Key::Int(*value)),
        Value::Uint(value) => Some(Key::Uint(*value)),
        Value::Double(value) if value.is_nan() => None,
        Value::Double(value) => Some(Key::Double(Ordered(*value))),
        Value::String(text) => Some(Key::String(Arc::clone(text))),
        Value::Duration(value) => Some(Key::Duration(*value)),
        Value::Timestamp(time) => Some(Key::Timestamp(*time)),
        Value::Type(name) => Some(Key::Type(Arc::clone(name))),
        _ => None,
    })
}

impl Map {
    /// A map of entries; of those with the same key, the last counts.
    ///
    /// # Errors
    /// A key that upstream cannot use as one.
    pub(crate) fn new(entries: Vec<(Value, Value)>) -> Result<Self, Failure> {
        let mut table = Table::default();
        for (at, entry) in entries.into_iter().enumerate() {
            table.insert(key(&entry.0)?.unwrap_or(Key::Unique(at)), entry);
        }
        Ok(Self { entries: Entries::Fixed(Arc::new(table)), keys: Keys::Any })
    }

    /// A map with strings as keys.
    pub(crate) fn of_strings(entries: impl IntoIterator<Item = (Arc<str>, Value)>, keys: Keys) -> Self {
        let mut table = Table::default();
        for (name, value) in entries {
            table.insert(Key::String(Arc::clone(&name)), (Value::String(name), value));
        }
        Self { entries: Entries::Fixed(Arc::new(table)), keys }
    }

    /// An empty map that grows in place.
    pub(crate) fn growing() -> Self {
        Self { entries: Entries::Growing(Arc::default()), keys: Keys::Any }
    }

    /// Whether it grows in place.
    pub(crate) fn is_growing(&self) -> bool {
        matches!(self.entries, Entries::Growing(_))
    }

    /// The same map, which grows no more.
    pub(crate) fn fixed(&self) -> Self {
        Self { entries: Entries::Fixed(Arc::new(self.with(Table::clone))), keys: self.keys }
    }

    fn with<T>(&self, read: impl FnOnce(&Table) -> T) -> T {
        match &self.entries {
            Entries::Fixed(table) => read(table),
            Entries::Growing(table) => read(&table.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// The weight of all keys and values: [`Value::weight`].
    pub(crate) fn weight(&self) -> u64 {
        self.with(|table| table.weight)
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.with(|table| table.entries.len())
    }

    /// All entries.
    pub(crate) fn entries(&self) -> Vec<(Value, Value)> {
        self.with(|table| table.entries.values().cloned().collect())
    }

    /// The value of a key, without what a map of domains makes up.
    ///
    /// # Errors
    /// A key that upstream cannot look up.
    pub(crate) fn find_entry(&self, sought: &Value) -> Result<Option<Value>, Failure> {
        if self.keys != Keys::Any {
            let Value::String(name) = sought else { return Ok(None) };
            let name = Key::String(Arc::clone(name));
            return Ok(self.with(|table| table.entries.get(&name).map(|entry| entry.1.clone())));
        }
        if self.len() == 0 {
            return Ok(None);
        }
        let Some(exact) = key(sought)? else { return Ok(None) };
        let alike = same_numbers(&exact);
        let find = |table: &Table| {
            let found = std::iter::once(&exact).chain(&alike).find_map(|key| table.entries.get(key));
            found.map(|entry| entry.1.clone())
        };
        Ok(self.with(find))
    }

    /// The value of a key.
    ///
    /// # Errors
    /// A key that upstream cannot look up.
    pub(crate) fn find(&self, sought: &Value) -> Result<Option<Value>, Failure> {
        let found = self.find_entry(sought)?;
        let missing = || (self.keys == Keys::Domains).then(|| Value::Map(Self::of_strings([], Keys::Strings)));
        Ok(found.or_else(missing))
    }

    /// This map with one entry more.
    ///
    /// # Errors
    /// The key is there already, or is none.
    pub(crate) fn insert(&self, name: &Value, value: &Value) -> Result<Self, Failure> {
        if self.find(name)?.is_some() {
            let told = format!("insert failed: key {} already exists", super::show::show(name));
            return Err(Failure::new(told));
        }
        let entry = (name.clone(), value.clone());
        if let Entries::Growing(table) = &self.entries {
            let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
            let key = key(name)?.unwrap_or(Key::Unique(table.entries.len()));
            table.insert(key, entry);
            return Ok(self.clone());
        }
        let mut table = self.with(Table::clone);
        let key = key(name)?.unwrap_or(Key::Unique(table.entries.len()));
        table.insert(key, entry);
        Ok(Self { entries: Entries::Fixed(Arc::new(table)), keys: Keys::Any })
    }
}

/// Keys of other types that stand for the same number.
fn same_numbers(key: &Key) -> Vec<Key> {
    let mut alike = Vec::new();
    match key {
        Key::Double(Ordered(value)) => {
            alike.extend(number::double_to_int_lossless(*value).map(Key::Int));
            alike.extend(number::double_to_uint_lossless(*value).map(Key::Uint));
        }
        Key::Int(value) => alike.extend(u64::try_from(*value).ok().map(Key::Uint)),
        Key::Uint(value) => alike.extend(i64::try_from(*value).ok().map(Key::Int)),
        _ => {}
    }
    alike
}
