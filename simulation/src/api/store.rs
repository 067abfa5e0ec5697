//! What is committed: every object as it is, and how it came to be so.
//!
//! Knows: versions, the order of commits, and earlier states. Must not know: what may be committed (`writes`), or who asks.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, OnceLock},
};

use serde_json::Value;

use super::{
    kind::Kind,
    object::{Object, key},
};

/// What kind of write a commit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// An object was made.
    Create,
    /// It was replaced.
    Update,
    /// It was patched.
    Patch,
    /// A pod was bound.
    Bind,
    /// It is being deleted, and still there.
    MarkDeleted,
    /// It is gone.
    Delete,
}

/// What a client had been told when it sent a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Knows {
    /// All changes of nodes up to this version, and long before; 0: none.
    pub nodes: u64,
    /// What pods and nodes there are.
    pub is_ready: bool,
}

/// A committed write.
#[derive(Debug)]
pub struct Commit {
    /// When it was committed, ms since the run began.
    pub at_ms: u64,
    /// When the request was sent, ms since the run began.
    pub sent_ms: u64,
    /// The client or actor that asked for it.
    pub by: Arc<str>,
    /// What that had been told.
    pub knows: Knows,
    /// What was done.
    pub verb: Verb,
    /// To which kind of object.
    pub kind: Kind,
    /// The version after it. After a restore versions come again: the order of commits is that of the history.
    pub version: u64,
    /// The object before; `None`: there was none.
    pub before: Option<Arc<Object>>,
    /// The object after; `None`: it is gone.
    pub after: Option<Arc<Object>>,
    /// The object before with the version after, which is what streams tell of an object that is gone.
    tombstone: OnceLock<Option<Arc<Object>>>,
}

impl Commit {
    /// The object, as it is now or as it was last.
    #[must_use]
    pub fn object(&self) -> Option<&Arc<Object>> {
        self.after.as_ref().or(self.before.as_ref())
    }

    /// The key of the object.
    #[must_use]
    pub fn key(&self) -> &str {
        self.object().map_or("", |object| object.key())
    }

    /// The object before with the version after.
    pub(super) fn tombstone(&self) -> Option<&Arc<Object>> {
        let make = |before: &Arc<Object>| Arc::new(Object::new(self.kind, self.version, before.value().clone()));
        self.tombstone.get_or_init(|| self.before.as_ref().map(make)).as_ref()
    }
}

/// Who writes what, and when.
#[derive(Debug, Clone)]
pub struct Write {
    /// When it is committed, ms since the run began.
    pub at_ms: u64,
    /// When the request was sent, ms since the run began.
    pub sent_ms: u64,
    /// The client or actor.
    pub by: Arc<str>,
    /// What that had been told.
    pub knows: Knows,
    /// The status of a new object is kept as it is given, as if it had been written right after.
    pub with_status: bool,
}

/// All objects of a kind.
#[derive(Debug, Default)]
struct Collection {
    objects: BTreeMap<String, Arc<Object>>,
    /// Every change since the run began or a restore.
    changes: Vec<Arc<Commit>>,
}

/// Everything that is committed.
#[derive(Debug)]
pub struct Store {
    /// The wall clock when the run began, seconds since 1970.
    pub(super) epoch_s: i64,
    version: u64,
    /// The first version after which nothing is known of what was before: 0, or that of a restore.
    restored: u64,
    /// How many UIDs were given out. A restore does not take them back.
    uids: u64,
    collections: Vec<Collection>,
    /// The commits that led to what there is.
    timeline: Vec<Arc<Commit>>,
    /// All commits in their order, also those that a restore undid.
    history: Vec<Arc<Commit>>,
    /// Events in the order of their creation: only so many are kept, as the API server keeps them for an hour only.
    pub(super) events: VecDeque<String>,
}

impl Store {
    /// A store without objects.
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

    /// The version of the newest commit.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// All commits in their order, also those that a restore undid.
    #[must_use]
    pub fn history(&self) -> &[Arc<Commit>] {
        &self.history
    }

    /// An object as it is now.
    #[must_use]
    pub fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Arc<Object>> {
        self.by_key(kind, &key(namespace, name))
    }

    /// An object as it is now, by `namespace/name` or `name`.
    #[must_use]
    pub fn by_key(&self, kind: Kind, key: &str) -> Option<&Arc<Object>> {
        self.of(kind).objects.get(key)
    }

    /// All objects of a kind as they are now, by their keys.
    pub fn objects(&self, kind: Kind) -> impl Iterator<Item = &Arc<Object>> {
        self.of(kind).objects.values()
    }

    /// How many changes of a kind there were since the run began or a restore.
    #[must_use]
    pub fn changed(&self, kind: Kind) -> usize {
        self.of(kind).changes.len()
    }

    fn of(&self, kind: Kind) -> &Collection {
        &self.collections[kind.index()]
    }

    /// The changes of a kind after this version, in their order.
    pub(super) fn changes_since(&self, kind: Kind, version: u64) -> &[Arc<Commit>] {
        let changes = &self.of(kind).changes;
        &changes[changes.partition_point(|change| change.version <= version)..]
    }

    /// The oldest version from which the changes of a kind are known, where so many are kept.
    pub(super) fn oldest_of(&self, kind: Kind, window: usize) -> u64 {
        let changes = &self.of(kind).changes;
        let lost = changes.len().checked_sub(window + 1).and_then(|last| changes.get(last));
        lost.map_or(self.restored, |change| change.version)
    }

    /// The objects of a kind as they were at a version, by their keys, after this key.
    pub(super) fn objects_at<'a>(
        &'a self,
        kind: Kind,
        version: u64,
        after: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Object>> {
        // What changed since, with the first state before.
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

    /// A UID that nothing else has.
    pub(super) fn uid(&mut self) -> String {
        self.uids += 1;
        format!("00000000-0000-4000-8000-{:012x}", self.uids)
    }

    /// Commits an object, or its end where there is no value.
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

    /// Puts everything back to how it was at a version, as etcd does when it is restored from a backup. The next commit has the
    /// version after that one.
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

    /// Goes on from a higher version, and nothing is known of what was before: `--bump-revision` and `--mark-compacted` of
    /// etcdutl's restore.
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
