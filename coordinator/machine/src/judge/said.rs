//! What HTTP extenders are asked, and what they have said.
//!
//! Extenders answer in their own time, and a group is decided on within one event. So an attempt that comes to a member
//! about whom extenders have to be asked is taken back, they are asked, and when they have answered the attempt is made
//! again from its beginning: what they said before is remembered, so that it gets one question further each time.
//!
//! Knows: which answer is to which question, and how long it counts. Must not know: what the words come to.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{class::ClassId, extender::Extended, shard::Generation};

use crate::{event::ExtensionOutcome, subject::Uid};

/// What is to be done with a pod whose feasible nodes extenders have to hear of.
pub(crate) enum Step {
    /// They have to be asked this.
    Ask(Question),
    /// The workers have to be asked for all nodes first, or the pod looked at anew.
    Again,
    /// They have answered already: a member of a group that is tried.
    Told(Word),
}

/// What extenders are asked about.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) nodes: Vec<Arc<str>>,
    pub(crate) may_score: bool,
    pub(crate) own: bool,
}

/// About whom extenders were asked, and how.
pub(crate) struct Asked<'a> {
    pub(crate) uid: &'a Uid,
    pub(crate) class: ClassId,
    pub(crate) own: bool,
    pub(crate) generation: Generation,
}

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
    /// What extenders said about a member, if that is an answer to this question.
    pub(super) fn word_about(&self, uid: &Uid, class: ClassId, for_room: bool, question: &Question) -> Option<Word> {
        let (known, word, times) = self.words.get(&(for_room, question.own, Arc::clone(uid)))?;
        let is_answer = match word {
            Word::Said(extended) => extended.is_about(&question.nodes) || *times >= MAX_ASKED,
            Word::Failed(_) => true,
        };
        (*known == class && is_answer).then(|| word.clone())
    }

    /// Forgets all of it: another attempt begins.
    pub(crate) fn clear(&mut self) {
        self.words.clear();
    }

    /// Keeps an answer.
    pub(crate) fn keep(&mut self, asked: &Asked<'_>, for_room: bool, word: Word) {
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
