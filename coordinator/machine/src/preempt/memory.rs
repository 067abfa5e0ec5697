//! Subjects for which no preemption makes room, in the current state.
//!
//! Fifty thousand pods of a class that nothing helps are told so after one look at the nodes, not after one each.
//!
//! Knows: until when such a verdict holds. Must not know: how it was come by.

use flotilla_framework::{map::Map, shard::Revision};

use crate::subject::Subject;

/// How many verdicts are remembered; with messages of some 200 bytes they take 1 MiB. They are all forgotten when there
/// are more.
const MAX_KNOWN: usize = 4_096;

/// All that such a verdict hangs on, besides the subject and the priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AsOf {
    /// Nodes, and the pods on them.
    pub(crate) revision: Revision,
    /// Who is nominated where.
    pub(crate) nominations: u64,
    /// What the cluster says of the class.
    pub(crate) facts: u64,
}

/// The verdicts.
#[derive(Debug, Default)]
pub(crate) struct Unresolvable {
    known: Map<(Subject, i32), (AsOf, String)>,
}

// === impl Unresolvable ===

impl Unresolvable {
    /// What was told of pods of a subject and priority, if all is as it was.
    pub(crate) fn message(&self, subject: Subject, priority: i32, as_of: AsOf) -> Option<&str> {
        let (known, message) = self.known.get(&(subject, priority))?;
        (*known == as_of).then_some(message)
    }

    /// No preemption makes room.
    pub(crate) fn remember(&mut self, subject: Subject, priority: i32, as_of: AsOf, message: &str) {
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert((subject, priority), (as_of, message.to_owned()));
    }

    /// Forgets everything: numbers mean something else now.
    pub(crate) fn clear(&mut self) {
        self.known.clear();
    }
}
