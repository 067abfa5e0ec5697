//! The groups and their pods, as watched, and the writes that are due.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::phase::{Member, Status, next};

/// Namespace and name.
pub(super) type Key = (String, String);

/// A group.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Group {
    pub(super) uid: String,
    pub(super) version: u64,
    pub(super) min_member: i32,
    pub(super) status: Status,
}

/// A write of this process.
#[derive(Debug)]
struct Written {
    uid: String,
    /// The version of the written object.
    version: u64,
    status: Status,
    /// The number of changes of pods and of the spec before the write.
    changes: u64,
}

/// A status to write.
#[derive(Debug, PartialEq)]
pub(super) struct Write {
    pub(super) key: Key,
    pub(super) uid: String,
    pub(super) status: Status,
    changes: u64,
}

impl Write {
    /// The merge patch. The UID makes it fail on a new group of the same name.
    pub(super) fn patch(&self) -> Value {
        json!({ "metadata": { "uid": self.uid }, "status": self.status })
    }
}

/// All groups and their pods: some 200 bytes for each pod with the label.
#[derive(Debug, Default)]
pub(super) struct State {
    groups: BTreeMap<Key, Group>,
    pods: BTreeMap<Key, BTreeMap<String, Member>>,
    /// The group of each pod.
    labels: BTreeMap<Key, String>,
    changes: BTreeMap<Key, u64>,
    written: BTreeMap<Key, Written>,
    /// Groups with a status that another process writes differently, and their UIDs.
    foreign: BTreeMap<Key, String>,
    changed: BTreeSet<Key>,
}

impl State {
    /// The state before a new list; groups of other processes stay theirs.
    pub(super) fn begin(self) -> Self {
        Self { foreign: self.foreign, ..Self::default() }
    }

    fn is_foreign(&self, key: &Key, uid: &str) -> bool {
        self.foreign.get(key).is_some_and(|foreign| foreign == uid)
    }

    fn change(&mut self, key: &Key) {
        *self.changes.entry(key.clone()).or_default() += 1;
        self.changed.insert(key.clone());
    }

    fn changes_of(&self, key: &Key) -> u64 {
        self.changes.get(key).copied().unwrap_or(0)
    }

    /// Takes a group in. Returns whether another process has replaced the written status, which then is left to it.
    pub(super) fn group_applied(&mut self, key: Key, group: Group) -> bool {
        let known = self.groups.get(&key);
        // The watch lags behind the answer to a write.
        if known.is_some_and(|known| known.uid == group.uid && known.version > group.version) {
            return false;
        }
        if known.is_none_or(|known| known.min_member != group.min_member || known.uid != group.uid) {
            self.change(&key);
        }
        let written = self.written.get(&key).filter(|written| written.uid == group.uid);
        let is_replaced = written.is_some_and(|written| {
            written.version < group.version
                && written.changes == self.changes_of(&key)
                && written.status != group.status
        });
        let is_new = is_replaced && !self.is_foreign(&key, &group.uid);
        if is_new {
            self.foreign.insert(key.clone(), group.uid.clone());
        }
        self.changed.insert(key.clone());
        self.groups.insert(key, group);
        is_new
    }

    pub(super) fn group_deleted(&mut self, key: &Key) {
        self.groups.remove(key);
        self.written.remove(key);
        self.foreign.remove(key);
        if !self.pods.contains_key(key) {
            self.changes.remove(key);
        }
    }

    /// Takes a pod in; without a group it is removed.
    pub(super) fn pod_applied(&mut self, pod: Key, group: Option<&str>, member: Member) {
        if self.labels.get(&pod).is_some_and(|known| Some(known.as_str()) != group) {
            self.pod_deleted(&pod);
        }
        let Some(group) = group.filter(|group| !group.is_empty()) else { return };
        let (namespace, name) = pod;
        let key = (namespace.clone(), group.to_owned());
        let pods = self.pods.entry(key.clone()).or_default();
        if pods.get(&name) != Some(&member) {
            pods.insert(name.clone(), member);
            self.labels.insert((namespace, name), group.to_owned());
            self.change(&key);
        }
    }

    pub(super) fn pod_deleted(&mut self, pod: &Key) {
        let Some(group) = self.labels.remove(pod) else { return };
        let key = (pod.0.clone(), group);
        if let Some(pods) = self.pods.get_mut(&key) {
            pods.remove(&pod.1);
            if pods.is_empty() {
                self.pods.remove(&key);
            }
        }
        self.change(&key);
        if !self.groups.contains_key(&key) && !self.pods.contains_key(&key) {
            self.changes.remove(&key);
        }
    }

    /// The writes that are due.
    pub(super) fn take_due(&mut self) -> Vec<Write> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().filter_map(|key| self.due(key)).collect()
    }

    fn due(&self, key: Key) -> Option<Write> {
        let group = self.groups.get(&key).filter(|group| !self.is_foreign(&key, &group.uid))?;
        let none = BTreeMap::new();
        let pods = self.pods.get(&key).unwrap_or(&none);
        let status = next(&group.status, group.min_member, &key.0, pods.values());
        let changes = self.changes_of(&key);
        (status != group.status).then(|| Write { uid: group.uid.clone(), status, changes, key })
    }

    /// A status was written, and its object has this version.
    pub(super) fn written(&mut self, write: Write, version: u64) {
        let Write { key, uid, status, changes } = write;
        if let Some(group) = self.groups.get_mut(&key).filter(|group| group.uid == uid && group.version < version) {
            (group.version, group.status) = (version, status.clone());
        }
        self.written.insert(key, Written { uid, version, status, changes });
    }

    /// A write failed and may succeed later.
    pub(super) fn failed(&mut self, write: Write) {
        self.changed.insert(write.key);
    }

    /// The group's status is left to others.
    pub(super) fn leave(&mut self, write: Write) {
        self.foreign.insert(write.key, write.uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        ("n".to_owned(), name.to_owned())
    }

    fn group(version: u64, status: &Status) -> Group {
        Group { uid: "u".to_owned(), version, min_member: 1, status: status.clone() }
    }

    fn running() -> Member {
        Member { phase: "Running".to_owned(), owners: Vec::new() }
    }

    /// A group with one running pod and a status written in version 2.
    fn written() -> (State, Status) {
        let mut state = State::default();
        state.group_applied(key("g"), group(1, &Status::default()));
        state.pod_applied(key("p"), Some("g"), running());
        let mut due = state.take_due();
        assert_eq!(due.len(), 1);
        let write = due.remove(0);
        let status = write.status.clone();
        assert_eq!(write.patch()["status"]["phase"], "Running");
        state.written(write, 2);
        (state, status)
    }

    #[test]
    fn a_written_status_is_not_written_again() {
        let (mut state, status) = written();
        assert!(!state.group_applied(key("g"), group(2, &status)));
        assert_eq!(state.take_due(), []);
        state.pod_applied(key("p"), Some("g"), running());
        assert_eq!(state.take_due(), [], "the pod did not change");
        state.pod_deleted(&key("p"));
        assert_eq!(state.take_due().first().map(|write| write.status.phase.clone()).as_deref(), Some("Pending"));
    }

    #[test]
    fn an_older_state_of_the_group_is_no_write_of_another_process() {
        let (mut state, _) = written();
        assert!(!state.group_applied(key("g"), group(1, &Status::default())));
        assert_eq!(state.take_due(), []);
    }

    #[test]
    fn a_status_that_another_process_writes_differently_is_left_to_it() {
        let (mut state, status) = written();
        let other = Status { running: 7, ..status };
        assert!(state.group_applied(key("g"), group(3, &other)));
        assert!(!state.group_applied(key("g"), group(4, &Status::default())), "reported once");
        state.pod_applied(key("q"), Some("g"), running());
        assert_eq!(state.take_due(), []);
        state.group_deleted(&key("g"));
        let new = Group { uid: "v".to_owned(), ..group(9, &Status::default()) };
        state.group_applied(key("g"), new);
        assert_eq!(state.take_due().len(), 1, "a new group of the same name is written again");
    }

    #[test]
    fn a_pod_that_loses_its_label_leaves_its_group() {
        let (mut state, status) = written();
        state.group_applied(key("g"), group(2, &status));
        state.pod_applied(key("p"), None, running());
        assert_eq!(state.take_due().first().map(|write| write.status.running), Some(0));
        let write = State::default().take_due();
        assert!(write.is_empty() && state.labels.is_empty() && state.pods.is_empty());
    }
}
