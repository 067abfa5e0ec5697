//! Number of waiting pods per subject and queue, for reports.

use indexmap::IndexMap;

use super::{Group, Queue, Section, Subject, Ticket, Uid};

/// Range of the search for a pod in activeQ; look-ahead does not request more subjects.
const NEAR: usize = 64;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Crowd {
    pub(crate) active: usize,
    pub(crate) backing_off: usize,
    pub(crate) parked: usize,
}

impl Queue {
    /// The pods of each subject, by queue. Reads every entity once: some milliseconds for 150,000.
    pub(crate) fn crowds(&self) -> IndexMap<Subject, Crowd> {
        let mut crowds = IndexMap::<Subject, Crowd>::new();
        for entry in self.entries.values() {
            match entry.room {
                Section::Active => crowds.entry(entry.entity_info.subject).or_default().active += 1,
                Section::Backoff | Section::Errors => {
                    crowds.entry(entry.entity_info.subject).or_default().backing_off += 1
                }
                Section::Group(_) => {}
            }
        }
        let awake = |group: &Group| group.woken.len();
        for group in self.groups.iter() {
            let crowd = crowds.entry(group.key.subject).or_default();
            crowd.parked += group.parked.len();
            crowd.active += group.counted;
            crowd.backing_off += awake(group).saturating_sub(group.counted);
        }
        crowds
    }

    /// The first of the next pods with a matching subject.
    pub(crate) fn next_of(&self, is_meant: impl Fn(Subject) -> bool) -> Option<&Uid> {
        let mut next = self.active.tickets().zip(self.active.subjects()).take(NEAR);
        let ((_, ticket), _) = next.find(|(_, about)| is_meant(*about))?;
        match ticket {
            Ticket::Pod(uid) => Some(uid),
            Ticket::Group(id) => Some(self.groups.get(*id)?.woken.ready.first_key_value()?.1),
        }
    }
}
