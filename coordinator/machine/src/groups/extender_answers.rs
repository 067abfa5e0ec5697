//! Answers of extenders about members of a group.
//!
//! A group is decided within one event, but extenders answer later. If a member needs an answer, the attempt is reverted, the extenders are
//! called, and the attempt restarts with all earlier answers. So each attempt gets one answer further. If a member's feasible nodes change
//! meanwhile, the extenders are called again, a limited number of times. After that the answer counts for its nodes only.
//!
//! Source: `podGroupPodSchedulingAlgorithm`, which calls them as for any pod, each member after those before it.

use super::tried::Asks;
use crate::{
    cycle::Progress,
    event::TimeMs,
    judge::extender_answers::{Asked, ExtenderAnswer},
    machine::Machine,
    subject::GroupKey,
};

impl Machine {
    pub(crate) fn take_member_answer(
        &mut self,
        asked: &Asked<'_>,
        key: &GroupKey,
        for_room: bool,
        word: ExtenderAnswer,
    ) {
        let generation = self.configuration.as_ref().map(|configuration| configuration.generation);
        let is_current = self.leading.is_some() && generation == Some(asked.generation);
        let group = self.groups.known.get_mut(key).filter(|group| is_current && group.attempt_from.is_some());
        match group.filter(|group| self.queue.is_active(&group.entity)) {
            Some(group) => group.heard.keep(asked, for_room, word),
            None => self.status.extensions_discarded += 1,
        }
    }

    pub(super) fn ask_for_group(&mut self, now_ms: TimeMs, key: &GroupKey, for_room: bool, asks: Asks) -> Progress {
        let Asks { uid, question } = asks;
        let extenders = self.extenders_of(&uid);
        self.send(now_ms, &uid, &extenders, question, Some((key.clone(), for_room)));
        Progress::Waiting
    }
}
