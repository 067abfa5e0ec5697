//! Maps. Upstream iterates in the random order of Go maps; this one in the order of the keys.

use std::{
    cmp::Ordering,
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use super::{Failure, Value, number};
use crate::time::Timestamp;

/// A map. As upstream, the accumulator of a comprehension grows in place.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    entries: Entries,
    keys: Keys,
}

#[derive(Clone, Debug, Default)]
struct Table {
    entries: BTreeMap<MapKey, (Value, Value)>,
    weight: u64,
}

impl Table {
    fn insert(&mut self, key: MapKey, entry: (Value, Value)) {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Any value. Equal numbers of different types are the same key.
    Any,
    Strings,
    /// Strings only. A missing key yields an empty map.
    Domains,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MapKey {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(Ordered),
    String(Arc<str>),
    Duration(i64),
    Timestamp(Timestamp),
    Type(Arc<str>),
    /// A value that upstream identifies by address: equal to no other.
    Unique(usize),
}

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

/// Go type of the value, if Go cannot use it as a map key.
pub(crate) fn unhashable(value: &Value) -> Option<&'static str> {
    match value {
        Value::Bytes(_) => Some("types.Bytes"),
        Value::Semver(_) => Some("cel.Semver"),
        Value::Format(_) => Some("cel.Format"),
        _ => None,
    }
}

/// Key of a value, or `None` if no other value can be equal to it.
fn key(value: &Value) -> Result<Option<MapKey>, Failure> {
    if let Some(go_type) = unhashable(value) {
        return Err(Failure::unhashable(go_type));
    }
    Ok(match value {
        Value::Null => Some(MapKey::Null),
        Value::Bool(value) => Some(MapKey::Bool(*value)),
        Value::Int(value) => Some(MapKey::Int(*value)),
        Value::Uint(value) => Some(MapKey::Uint(*value)),
        Value::Double(value) if value.is_nan() => None,
        Value::Double(value) => Some(MapKey::Double(Ordered(*value))),
        Value::String(text) => Some(MapKey::String(Arc::clone(text))),
        Value::Duration(value) => Some(MapKey::Duration(*value)),
        Value::Timestamp(time) => Some(MapKey::Timestamp(*time)),
        Value::Type(name) => Some(MapKey::Type(Arc::clone(name))),
        _ => None,
    })
}

impl Map {
    /// Creates a map; the last of equal keys wins. Returns an error for keys that upstream cannot use.
    pub(crate) fn new(entries: Vec<(Value, Value)>) -> Result<Self, Failure> {
        let mut table = Table::default();
        for (at, entry) in entries.into_iter().enumerate() {
            table.insert(key(&entry.0)?.unwrap_or(MapKey::Unique(at)), entry);
        }
        Ok(Self { entries: Entries::Fixed(Arc::new(table)), keys: Keys::Any })
    }

    pub(crate) fn of_strings(entries: impl IntoIterator<Item = (Arc<str>, Value)>, keys: Keys) -> Self {
        let mut table = Table::default();
        for (name, value) in entries {
            table.insert(MapKey::String(Arc::clone(&name)), (Value::String(name), value));
        }
        Self { entries: Entries::Fixed(Arc::new(table)), keys }
    }

    pub(crate) fn growing() -> Self {
        Self { entries: Entries::Growing(Arc::default()), keys: Keys::Any }
    }

    pub(crate) fn is_growing(&self) -> bool {
        matches!(self.entries, Entries::Growing(_))
    }

    pub(crate) fn fixed(&self) -> Self {
        Self { entries: Entries::Fixed(Arc::new(self.with(Table::clone))), keys: self.keys }
    }

    fn with<T>(&self, read: impl FnOnce(&Table) -> T) -> T {
        match &self.entries {
            Entries::Fixed(table) => read(table),
            Entries::Growing(table) => read(&table.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    pub(crate) fn weight(&self) -> u64 {
        self.with(|table| table.weight)
    }

    pub(crate) fn len(&self) -> usize {
        self.with(|table| table.entries.len())
    }

    pub(crate) fn entries(&self) -> Vec<(Value, Value)> {
        self.with(|table| table.entries.values().cloned().collect())
    }

    /// Looks up a key without the defaults of [`Keys::Domains`]. Returns an error for keys that upstream cannot look up.
    pub(crate) fn find_entry(&self, sought: &Value) -> Result<Option<Value>, Failure> {
        if self.keys != Keys::Any {
            let Value::String(name) = sought else { return Ok(None) };
            let name = MapKey::String(Arc::clone(name));
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

    /// Looks up a key. Returns an error for keys that upstream cannot look up.
    pub(crate) fn find(&self, sought: &Value) -> Result<Option<Value>, Failure> {
        let found = self.find_entry(sought)?;
        let missing = || (self.keys == Keys::Domains).then(|| Value::Map(Self::of_strings([], Keys::Strings)));
        Ok(found.or_else(missing))
    }

    /// A map with one more entry. Returns an error if the key exists or is invalid.
    pub(crate) fn insert(&self, name: &Value, value: &Value) -> Result<Self, Failure> {
        if self.find(name)?.is_some() {
            let told = format!("insert failed: key {} already exists", super::show::show(name));
            return Err(Failure::new(told));
        }
        let entry = (name.clone(), value.clone());
        if let Entries::Growing(table) = &self.entries {
            let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
            let key = key(name)?.unwrap_or(MapKey::Unique(table.entries.len()));
            table.insert(key, entry);
            return Ok(self.clone());
        }
        let mut table = self.with(Table::clone);
        let key = key(name)?.unwrap_or(MapKey::Unique(table.entries.len()));
        table.insert(key, entry);
        Ok(Self { entries: Entries::Fixed(Arc::new(table)), keys: Keys::Any })
    }
}

/// Keys of other types that are the same number.
fn same_numbers(key: &MapKey) -> Vec<MapKey> {
    let mut alike = Vec::new();
    match key {
        MapKey::Double(Ordered(value)) => {
            alike.extend(number::double_to_int_lossless(*value).map(MapKey::Int));
            alike.extend(number::double_to_uint_lossless(*value).map(MapKey::Uint));
        }
        MapKey::Int(value) => alike.extend(u64::try_from(*value).ok().map(MapKey::Uint)),
        MapKey::Uint(value) => alike.extend(i64::try_from(*value).ok().map(MapKey::Int)),
        _ => {}
    }
    alike
}
