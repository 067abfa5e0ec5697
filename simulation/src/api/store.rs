//! The committed state and its history.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, OnceLock},
};

use serde_json::Value;

use super::{
    kind::Kind,
    object::{Object, key},
};

/// Kind of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Created.
    Create,
    /// Updated.
    Update,
    /// Patched.
    Patch,
    /// A pod was bound.
    Bind,
    /// Marked as being deleted.
    MarkDeleted,
    /// Deleted.
    Delete,
}

/// Knowledge of a client when it sent a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Knows {
    /// Version up to which it has known all changes of nodes for long; 0 for none.
    pub nodes: u64,
    /// Whether it has listed pods and nodes.
    pub is_ready: bool,
}

/// Committed write.
#[derive(Debug)]
pub struct Commit {
    /// Commit time, ms since the start of the run.
    pub at_ms: u64,
    /// Send time of the request, ms since the start of the run.
    pub sent_ms: u64,
    /// Client or actor.
    pub by: Arc<str>,
    /// The client's knowledge.
    pub knows: Knows,
    /// Kind of write.
    pub verb: Verb,
    /// Kind of object.
    pub kind: Kind,
    /// Version after the write. A restore reuses versions; only the history's order is unique.
    pub version: u64,
    /// Object before; `None` if created.
    pub before: Option<Arc<Object>>,
    /// Object after; `None` if deleted.
    pub after: Option<Arc<Object>>,
    /// Object before with the version after, as in the watch event of a deletion.
    tombstone: OnceLock<Option<Arc<Object>>>,
}

impl Commit {
    /// The object after the write, or before a deletion.
    #[must_use]
    pub fn object(&self) -> Option<&Arc<Object>> {
        self.after.as_ref().or(self.before.as_ref())
    }

    /// Key of the object.
    #[must_use]
    pub fn key(&self) -> &str {
        self.object().map_or("", |object| object.key())
    }

    pub(super) fn tombstone(&self) -> Option<&Arc<Object>> {
        let make = |before: &Arc<Object>| Arc::new(Object::new(self.kind, self.version, before.value().clone()));
        self.tombstone.get_or_init(|| self.before.as_ref().map(make)).as_ref()
    }
}

/// Origin and time of a write.
#[derive(Debug, Clone)]
pub struct Write {
    /// Commit time, ms since the start of the run.
    pub at_ms: u64,
    /// Send time of the request, ms since the start of the run.
    pub sent_ms: u64,
    /// Client or actor.
    pub by: Arc<str>,
    /// The client's knowledge.
    pub knows: Knows,
    /// Whether a new object keeps its status, as if that were written afterwards.
    pub with_status: bool,
}

#[derive(Debug, Default)]
struct Collection {
    objects: BTreeMap<String, Arc<Object>>,
    /// Changes since the start of the run or a restore.
    changes: Vec<Arc<Commit>>,
}

/// The committed state.
#[derive(Debug)]
pub struct Store {
    pub(super) epoch_s: i64,
    version: u64,
    /// Oldest version with known history: 0, or that of a restore.
    restored: u64,
    /// Number of assigned UIDs; a restore does not revert it.
    uids: u64,
    collections: Vec<Collection>,
    /// Commits that led to the current state.
    timeline: Vec<Arc<Commit>>,
    /// All commits in order, including reverted ones.
    history: Vec<Arc<Commit>>,
    /// Events in order of creation. Their number is limited, as the API server keeps them for only an hour.
    pub(super) events: VecDeque<String>,
}

impl Store {
    /// An empty store.
    #[must_use]
    pub fn new(epoch_s: i64) -> Self {
        Self {
            epoch_s,
            version: 1,
            restored: 0,
            uids: 0,
            collections: Kind::ALL.map(|_| Collection::default()).into_iter().collect(),
            timeline: Vec::new(),
            history: Vec::new(),
            events: VecDeque::new(),
        }
    }

    /// Version of the last commit.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// All commits in order, including those that a restore reverted.
    #[must_use]
    pub fn history(&self) -> &[Arc<Commit>] {
        &self.history
    }

    /// The current version of an object.
    #[must_use]
    pub fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Arc<Object>> {
        self.by_key(kind, &key(namespace, name))
    }

    /// The current version of an object by `namespace/name` or `name`.
    #[must_use]
    pub fn by_key(&self, kind: Kind, key: &str) -> Option<&Arc<Object>> {
        self.of(kind).objects.get(key)
    }

    /// All current objects of a kind, by key.
    pub fn objects(&self, kind: Kind) -> impl Iterator<Item = &Arc<Object>> {
        self.of(kind).objects.values()
    }

    /// Number of changes of a kind since the start of the run or a restore.
    #[must_use]
    pub fn changed(&self, kind: Kind) -> usize {
        self.of(kind).changes.len()
    }

    fn of(&self, kind: Kind) -> &Collection {
        &self.collections[kind.index()]
    }

    /// Changes of a kind after this version, in order.
    pub(super) fn changes_since(&self, kind: Kind, version: u64) -> &[Arc<Commit>] {
        let changes = &self.of(kind).changes;
        &changes[changes.partition_point(|change| change.version <= version)..]
    }

    /// Oldest version with known changes of a kind, if `window` changes are kept.
    pub(super) fn oldest_of(&self, kind: Kind, window: usize) -> u64 {
        let changes = &self.of(kind).changes;
        let lost = changes.len().checked_sub(window + 1).and_then(|last| changes.get(last));
        lost.map_or(self.restored, |change| change.version)
    }

    /// Objects of a kind at a version, sorted by key, after this key.
    pub(super) fn objects_at<'a>(
        &'a self,
        kind: Kind,
        version: u64,
        after: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Object>> {
        // Later changes, with the oldest state before each.
        let mut earlier: BTreeMap<&str, Option<&Arc<Object>>> = BTreeMap::new();
        for change in self.changes_since(kind, version) {
            earlier.entry(change.key()).or_insert(change.before.as_ref());
        }
        let mut returned: Vec<_> = earlier.values().filter_map(|before| *before).collect();
        returned.retain(|object| object.key() > after);
        let mut returned = returned.into_iter().peekable();
        let from = (std::ops::Bound::Excluded(after.to_owned()), std::ops::Bound::Unbounded);
        let mut unchanged = self
            .of(kind)
            .objects
            .range(from)
            .filter(move |(key, _)| !earlier.contains_key(key.as_str()))
            .map(|(_, object)| object)
            .peekable();
        std::iter::from_fn(move || match (returned.peek(), unchanged.peek()) {
            (Some(one), Some(other)) if one.key() < other.key() => returned.next(),
            (Some(_), None) => returned.next(),
            _ => unchanged.next(),
        })
    }

    pub(super) fn uid(&mut self) -> String {
        self.uids += 1;
        format!("00000000-0000-4000-8000-{:012x}", self.uids)
    }

    /// Commits an object, or its deletion without a value.
    pub(super) fn commit(
        &mut self,
        write: &Write,
        verb: Verb,
        kind: Kind,
        key: &str,
        value: Option<Value>,
    ) -> Arc<Commit> {
        self.version += 1;
        let after = value.map(|value| Arc::new(Object::new(kind, self.version, value)));
        let collection = &mut self.collections[kind.index()];
        let before = match &after {
            Some(object) => collection.objects.insert(key.to_owned(), Arc::clone(object)),
            None => collection.objects.remove(key),
        };
        let commit = Arc::new(Commit {
            at_ms: write.at_ms,
            sent_ms: write.sent_ms,
            by: Arc::clone(&write.by),
            knows: write.knows,
            verb,
            kind,
            version: self.version,
            before,
            after,
            tombstone: OnceLock::new(),
        });
        collection.changes.push(Arc::clone(&commit));
        self.timeline.push(Arc::clone(&commit));
        self.history.push(Arc::clone(&commit));
        commit
    }

    /// Reverts to a version, as restoring etcd from a backup does. The next commit has the version after it.
    pub(super) fn restore(&mut self, version: u64) {
        while let Some(commit) = self.timeline.pop_if(|commit| commit.version > version) {
            let objects = &mut self.collections[commit.kind.index()].objects;
            match &commit.before {
                Some(before) => _ = objects.insert(before.key().to_owned(), Arc::clone(before)),
                None => _ = objects.remove(commit.key()),
            }
        }
        self.version = self.version.min(version.max(1));
        self.restored = self.version;
        self.events = self.of(Kind::Event).objects.keys().cloned().collect();
        self.collections.iter_mut().for_each(|collection| collection.changes.clear());
    }

    /// Continues from a higher version, and drops the earlier history: `--bump-revision` and `--mark-compacted` of etcdutl's restore.
    pub(super) fn bump(&mut self, version: u64) {
        self.version = self.version.max(version);
        self.restored = self.version;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn write() -> Write {
        Write { at_ms: 0, sent_ms: 0, by: "test".into(), knows: Knows::default(), with_status: true }
    }

    fn put(store: &mut Store, name: &str, value: Option<u64>) -> u64 {
        let value = value.map(|value| json!({ "metadata": { "name": name }, "value": value }));
        store.commit(&write(), Verb::Update, Kind::Node, name, value).version
    }

    fn at(store: &Store, version: u64, after: &str) -> String {
        let told = store.objects_at(Kind::Node, version, after);
        told.map(|node| format!("{}{}", node.name(), node.at("/value"))).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_earlier_state_can_be_read() {
        let mut store = Store::new(0);
        let mut expected = vec![(store.version(), String::new())];
        for (name, value, now) in [
            ("b", Some(1), "b1"),
            ("a", Some(1), "a1 b1"),
            ("b", Some(2), "a1 b2"),
            ("c", Some(1), "a1 b2 c1"),
            ("a", None, "b2 c1"),
            ("a", Some(3), "a3 b2 c1"),
        ] {
            expected.push((put(&mut store, name, value), now.to_owned()));
        }
        for (version, state) in &expected {
            assert_eq!(at(&store, *version, ""), *state, "at {version}");
        }
        assert_eq!(at(&store, store.version(), "a"), "b2 c1");
        assert_eq!(at(&store, 4, "a"), "b2");
    }

    #[test]
    fn a_restore_goes_back_and_history_goes_on() {
        let mut store = Store::new(0);
        let first = put(&mut store, "a", Some(1));
        put(&mut store, "a", None);
        put(&mut store, "b", Some(1));
        let uid = store.uid();
        store.restore(first);
        assert_eq!((store.version(), at(&store, first, ""), store.history().len()), (first, "a1".to_owned(), 3));
        assert_eq!((put(&mut store, "c", Some(1)), store.oldest_of(Kind::Node, 10)), (first + 1, first));
        assert_ne!(store.uid(), uid, "which somebody may still know");
        assert_eq!(store.changes_since(Kind::Node, first).len(), 1);
    }

    #[test]
    fn only_the_newest_changes_are_kept_for_streams() {
        let mut store = Store::new(0);
        let versions: Vec<u64> = (0..5).map(|value| put(&mut store, "a", Some(value))).collect();
        assert_eq!(store.oldest_of(Kind::Node, 5), 0);
        assert_eq!(store.oldest_of(Kind::Node, 2), versions[2]);
    }
}
