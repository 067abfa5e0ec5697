//! Questions to HTTP extenders, and their answers within a group's attempt.
//!
//! A group is decided within one event, but extenders answer later. If a member needs an answer, the attempt is reverted, the extenders are
//! called, and the attempt restarts with all earlier answers.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{class::ClassId, extender::Extended, shard::Generation};

use crate::{event::ExtensionOutcome, subject::Uid};

pub(crate) enum Step {
    Ask(Question),
    /// Results are incomplete: decide again.
    Again,
    /// The answer about a member of a group that is being tried.
    Told(ExtenderAnswer),
}

#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) nodes: Vec<Arc<str>>,
    pub(crate) may_score: bool,
    pub(crate) own: bool,
}

pub(crate) struct Asked<'a> {
    pub(crate) uid: &'a Uid,
    pub(crate) class: ClassId,
    pub(crate) own: bool,
    pub(crate) generation: Generation,
}

/// Maximum number of calls about the same member in one attempt.
const MAX_ASKED: u8 = 3;

/// Maximum number of nodes in all answers of an attempt. Each takes some 40 bytes, twice that with a score.
const MAX_NODES: usize = 1_000_000;

#[derive(Debug, Clone)]
pub(crate) enum ExtenderAnswer {
    Said(Arc<Extended>),
    Failed(String),
}

/// Answers in one attempt, by member, by whether the attempt looks for victims, and by whether only the nominated node is asked.
#[derive(Debug, Default)]
pub(crate) struct ExtenderAnswers {
    words: BTreeMap<(bool, bool, Uid), (ClassId, ExtenderAnswer, u8)>,
}

impl ExtenderAnswer {
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

impl ExtenderAnswers {
    pub(super) fn answer_for(
        &self,
        uid: &Uid,
        class: ClassId,
        for_room: bool,
        question: &Question,
    ) -> Option<ExtenderAnswer> {
        let (known, word, times) = self.words.get(&(for_room, question.own, Arc::clone(uid)))?;
        let is_answer = match word {
            ExtenderAnswer::Said(extended) => extended.is_about(&question.nodes) || *times >= MAX_ASKED,
            ExtenderAnswer::Failed(_) => true,
        };
        (*known == class && is_answer).then(|| word.clone())
    }

    pub(crate) fn clear(&mut self) {
        self.words.clear();
    }

    pub(crate) fn keep(&mut self, asked: &Asked<'_>, for_room: bool, word: ExtenderAnswer) {
        let nodes: usize = self.words.values().map(|(_, word, _)| word.nodes()).sum();
        let word = match nodes + word.nodes() > MAX_NODES {
            false => word,
            true => ExtenderAnswer::Failed(format!(
                "extenders were asked about more than {MAX_NODES} nodes for the pods of one group; make the group smaller"
            )),
        };
        let key = (for_room, asked.own, Arc::clone(asked.uid));
        let times = self.words.get(&key).map_or(0, |(_, _, times)| *times);
        self.words.insert(key, (asked.class, word, times.saturating_add(1)));
    }
}
