//! Subjects for which no preemption makes room in the current state. Fifty thousand pods of such a class are refused after one search, not
//! one each.

use flotilla_framework::{map::Map, shard::Revision};

use crate::{judge::Judge, pods::Pod, subject::Subject};

/// Maximum number of entries; with messages of some 200 bytes they take 1 MiB. A full table is cleared.
const MAX_KNOWN: usize = 4_096;

/// The state that an entry depends on, besides subject and priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AsOf {
    pub(crate) revision: Revision,
    pub(crate) nominations: u64,
    pub(crate) facts: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Unresolvable {
    known: Map<(Subject, i32), (AsOf, String)>,
}

impl Unresolvable {
    /// The message for a pod without a nomination, if the state is unchanged.
    pub(crate) fn message(&self, pod: &Pod, subject: Subject, judge: &Judge) -> Option<&str> {
        let is_kept = pod.nominated_node().is_none() && !pod.info.never_preempts;
        let (known, message) = self.known.get(&(subject, pod.info.priority)).filter(|_| is_kept)?;
        (*known == judge.as_of(subject)?).then_some(message)
    }

    pub(crate) fn remember(&mut self, pod: &Pod, subject: Subject, judge: &Judge, message: &str) {
        let Some(as_of) = judge.as_of(subject).filter(|_| pod.nominated_node().is_none()) else { return };
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert((subject, pod.info.priority), (as_of, message.to_owned()));
    }

    pub(crate) fn clear(&mut self) {
        self.known.clear();
    }
}
