//! What extenders have said about members of a group that is being tried.
//!
//! Extenders answer in their own time, and a group is decided on within one event. So an attempt that comes to a member
//! about whom extenders have to be asked is taken back, they are asked, and when they have answered the attempt is made
//! again from its beginning: what they said before is remembered, so that it gets one question further each time. A member
//! whose feasible nodes are others by then, because something has happened meanwhile, is asked about again, some times;
//! after that their word counts for those nodes that they were asked about.
//!
//! Knows: what was said in which attempt, and how long it counts. Must not know: what the words come to (`extend`).
//!
//! Source: `podGroupPodSchedulingAlgorithm`, which asks them as for any pod, each member beside those before it.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{class::ClassId, extender::Extended};

use super::GroupKey;
use crate::{
    cycle::Progress,
    decide::{Attempt, Decision},
    event::{ExtensionOutcome, TimeMs},
    extend::{Asked, Question},
    machine::Machine,
    queue::Uid,
};

/// How often extenders are asked about the same member in one attempt.
const MAX_ASKED: u8 = 3;

/// How many nodes all that was said in an attempt may be about. Each takes some 40 bytes, twice that with a score.
const MAX_NODES: usize = 1_000_000;

/// What extenders said.
#[derive(Debug, Clone)]
pub(crate) enum Word {
    /// All that had to answer did.
    Said(Arc<Extended>),
    /// One that cannot be ignored failed.
    Failed(String),
}

/// What was said in one attempt, about which member: while room was looked for, and about the node alone that it is
/// nominated to.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    words: BTreeMap<(bool, bool, Uid), (ClassId, Word, u8)>,
}

// === impl Word ===

impl Word {
    pub(crate) fn of(outcome: ExtensionOutcome) -> Self {
        match outcome {
            ExtensionOutcome::Done(extended) => Self::Said(Arc::from(extended)),
            ExtensionOutcome::Failed(reason) => Self::Failed(reason),
            ExtensionOutcome::Gone => Self::Failed("the pod is not there any more".to_owned()),
        }
    }

    fn nodes(&self) -> usize {
        match self {
            Self::Said(extended) => extended.asked(),
            Self::Failed(_) => 0,
        }
    }
}

// === impl Heard ===

impl Heard {
    pub(super) fn clear(&mut self) {
        self.words.clear();
    }

    fn keep(&mut self, asked: &Asked<'_>, for_room: bool, word: Word) {
        let nodes: usize = self.words.values().map(|(_, word, _)| word.nodes()).sum();
        let word = match nodes + word.nodes() > MAX_NODES {
            false => word,
            true => Word::Failed(format!(
                "extenders were asked about more than {MAX_NODES} nodes for the pods of one group; make the group smaller"
            )),
        };
        let key = (for_room, asked.own, Arc::clone(asked.uid));
        let times = self.words.get(&key).map_or(0, |(_, _, times)| *times);
        self.words.insert(key, (asked.class, word, times.saturating_add(1)));
    }
}

impl Machine {
    /// What extenders said about the member in hand, if that is an answer to this question.
    pub(crate) fn word_about(&self, attempt: &Attempt<'_>, question: &Question) -> Option<Word> {
        let &Attempt { uid, subject: (_, class), group, .. } = attempt;
        let (key, for_room) = group?;
        let heard = &self.groups.known.get(key)?.heard;
        let (known, word, times) = heard.words.get(&(for_room, question.own, Arc::clone(uid)))?;
        let is_answer = match word {
            Word::Said(extended) => extended.is_about(&question.nodes) || *times >= MAX_ASKED,
            Word::Failed(_) => true,
        };
        (*known == class && is_answer).then(|| word.clone())
    }

    /// Keeps an answer for the attempt that is made again with it, if that goes on.
    pub(crate) fn hear_of_member(&mut self, asked: &Asked<'_>, key: &GroupKey, for_room: bool, word: Word) {
        let generation = self.configuration.as_ref().map(|configuration| configuration.generation);
        let is_current = self.leading.is_some() && generation == Some(asked.generation);
        let group = self.groups.known.get_mut(key).filter(|group| is_current && group.attempt_from.is_some());
        match group.filter(|group| self.queue.is_active(&group.seat)) {
            Some(group) => group.heard.keep(asked, for_room, word),
            None => self.status.extensions_discarded += 1,
        }
    }

    /// Decides on a member by what extenders said.
    pub(crate) fn go_by(&mut self, attempt: &Attempt<'_>, word: Word) -> Decision {
        let &Attempt { uid, subject, .. } = attempt;
        match word {
            Word::Failed(reason) => Decision::Fail(reason),
            Word::Said(extended) if extended.nodes.is_empty() => self.refuse_extended(subject, &extended),
            Word::Said(extended) => self.take_extended(uid, subject, &extended).unwrap_or_else(|| {
                Decision::Fail("the nodes that extenders left do not fit the pod any more".to_owned())
            }),
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

/// What extenders have to be asked before a group can be decided on.
#[derive(Debug)]
pub(super) struct Asks {
    pub(super) uid: Uid,
    pub(super) question: Question,
}
