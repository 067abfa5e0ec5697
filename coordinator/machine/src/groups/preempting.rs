//! Groups that preempt.
//!
//! As a pod, a group has no turn until its preemption ends: all victims are deleted or terminating. Then it is in backoffQ. When its last
//! victim has left its node, an empty activeQ pops it from there. The end of other pods does not, because the attempt would be lost on a node
//! that a victim still occupies.
//!
//! Source: PreEnqueue of DefaultPreemption, which gates all members of a group that preempts. kube-scheduler pops such a group from
//! backoffQ, because it has a plugin that rejected it.

use std::collections::{BTreeMap, BTreeSet};

use super::Groups;
use crate::subject::{GroupKey, Uid};

/// By the UID of the group's object. The victims are those of all preemptions of groups that have not left their nodes.
#[derive(Debug, Default)]
pub(super) struct Preempting {
    under_way: BTreeMap<Uid, GroupKey>,
    ended: BTreeMap<Uid, (GroupKey, BTreeSet<Uid>)>,
    /// The groups that wait for the end of a victim.
    by_victim: BTreeMap<Uid, BTreeSet<Uid>>,
}

impl Groups {
    /// Whether the preemption of the group with this object is under way.
    pub(crate) fn is_preempting(&self, uid: &Uid) -> bool {
        self.preempting.under_way.contains_key(uid)
    }

    /// The victims of a group are about to be deleted.
    pub(crate) fn begin_preemption(&mut self, uid: &Uid, key: &GroupKey) {
        self.forget_victims(uid);
        self.preempting.under_way.insert(uid.clone(), key.clone());
        self.touch(key);
    }

    /// All victims of a preemptor are deleted or terminating. `left`: those that are still on their nodes.
    pub(crate) fn end_preemption(&mut self, uid: &Uid, left: BTreeSet<Uid>) {
        let Some(key) = self.preempting.under_way.remove(uid) else { return };
        if left.is_empty() {
            return self.find_room(&key);
        }
        for victim in &left {
            self.preempting.by_victim.entry(victim.clone()).or_default().insert(uid.clone());
        }
        self.touch(&key);
        self.preempting.ended.insert(uid.clone(), (key, left));
    }

    /// A pod left its node.
    pub(crate) fn vacated(&mut self, victim: &Uid) {
        if self.preempting.by_victim.is_empty() {
            return;
        }
        for uid in self.preempting.by_victim.remove(victim).into_iter().flatten() {
            let Some((_, left)) = self.preempting.ended.get_mut(&uid) else { continue };
            left.remove(victim);
            if left.is_empty()
                && let Some((key, _)) = self.preempting.ended.remove(&uid)
            {
                self.find_room(&key);
            }
        }
    }

    fn forget_victims(&mut self, uid: &Uid) {
        for victim in self.preempting.ended.remove(uid).into_iter().flat_map(|(_, left)| left) {
            if let Some(groups) = self.preempting.by_victim.get_mut(&victim) {
                groups.remove(uid);
                if groups.is_empty() {
                    self.preempting.by_victim.remove(&victim);
                }
            }
        }
    }

    fn find_room(&mut self, key: &GroupKey) {
        if let Some(group) = self.known.get_mut(key) {
            group.has_room = true;
        }
        self.touch(key);
    }
}
