//! Who waits in which queue, by what they are about: for people who ask.
//!
//! Knows: how pods are spread over the queues. Must not know: what a subject is called.

use indexmap::IndexMap;

use super::{Group, Queue, Room, Subject, Ticket, Uid};

/// How far into activeQ a pod is looked for; the subjects of more are not asked about ahead of need.
const NEAR: usize = 64;

/// How many pods of one subject are where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Crowd {
    pub(crate) active: usize,
    pub(crate) backing_off: usize,
    pub(crate) parked: usize,
}

impl Queue {
    /// How many pods of each subject wait where. Looks at every entity once: some milliseconds for 150,000.
    pub(crate) fn crowds(&self) -> IndexMap<Subject, Crowd> {
        let mut crowds = IndexMap::<Subject, Crowd>::new();
        for entry in self.entries.values() {
            match entry.room {
                Room::Active => crowds.entry(entry.entity_info.subject).or_default().active += 1,
                Room::Backoff | Room::Errors => crowds.entry(entry.entity_info.subject).or_default().backing_off += 1,
                Room::Group(_) => {}
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

    /// The first pod whose subject is meant, where one is among the next ones.
    pub(crate) fn next_of(&self, is_meant: impl Fn(Subject) -> bool) -> Option<&Uid> {
        let mut next = self.active.tickets().zip(self.active.subjects()).take(NEAR);
        let ((_, ticket), _) = next.find(|(_, about)| is_meant(*about))?;
        match ticket {
            Ticket::Pod(uid) => Some(uid),
            Ticket::Group(id) => Some(self.groups.get(*id)?.woken.ready.first_key_value()?.1),
        }
    }
}
