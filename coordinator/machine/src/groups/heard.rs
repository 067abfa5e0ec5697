//! What extenders have said about members of a group that is being tried.
//!
//! Extenders answer in their own time, and a group is decided on within one event. So an attempt that comes to a member
//! about whom extenders have to be asked is taken back, they are asked, and when they have answered the attempt is made
//! again from its beginning: what they said before is remembered, so that it gets one question further each time. A member
//! whose feasible nodes are others by then, because something has happened meanwhile, is asked about again, some times;
//! after that their word counts for those nodes that they were asked about.
//!
//! Knows: whose answer is kept for which attempt. Must not know: what the words come to ([`crate::judge`]).
//!
//! Source: `podGroupPodSchedulingAlgorithm`, which asks them as for any pod, each member beside those before it.

use super::tried::Asks;
use crate::{
    cycle::Progress,
    event::TimeMs,
    judge::said::{Asked, Word},
    machine::Machine,
    subject::GroupKey,
};

impl Machine {
    /// Keeps an answer for the attempt that is made again with it, if that goes on.
    pub(crate) fn hear_of_member(&mut self, asked: &Asked<'_>, key: &GroupKey, for_room: bool, word: Word) {
        let generation = self.configuration.as_ref().map(|configuration| configuration.generation);
        let is_current = self.leading.is_some() && generation == Some(asked.generation);
        let group = self.groups.known.get_mut(key).filter(|group| is_current && group.attempt_from.is_some());
        match group.filter(|group| self.queue.is_active(&group.entity)) {
            Some(group) => group.heard.keep(asked, for_room, word),
            None => self.status.extensions_discarded += 1,
        }
    }

    /// Has extenders asked what an attempt that was taken back came to.
    pub(super) fn ask_for_group(&mut self, now_ms: TimeMs, key: &GroupKey, for_room: bool, asks: Asks) -> Progress {
        let Asks { uid, question } = asks;
        let extenders = self.extenders_of(&uid);
        self.send(now_ms, &uid, &extenders, question, Some((key.clone(), for_room)));
        Progress::Waiting
    }
}
