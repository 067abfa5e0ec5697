//! The words of modules, which go with an answer that has them by number.
//!
//! Knows: where in an answer numbers of words are. Must not know: what the words say.

use std::collections::BTreeSet;

use flotilla_framework::{
    explain::shard::Local,
    preemption::Outcome,
    registry::Registry,
    shard::{FromWorker, Reply},
};

use crate::pb;

/// The most words that go with one answer: of at most 1 KiB each, so 256 KiB.
const MAX_WORDS: usize = 256;

/// The words that an answer has by number, as far as modules of `registry` gave them.
#[must_use]
pub fn of(word: &FromWorker, registry: Registry) -> Vec<pb::Words> {
    let Some(modules) = registry.modules() else { return Vec::new() };
    let numbers: BTreeSet<u64> = match &word.reply {
        Reply::Evaluated { evaluation, .. } => evaluation.refused.iter().map(|group| group.refusal.detail).collect(),
        Reply::Rehearsed { outcomes, .. } => {
            let refused = |outcome: &Outcome| match outcome {
                Outcome::Refused(_, refusal) => Some(refusal.detail),
                _ => None,
            };
            outcomes.iter().filter_map(refused).collect()
        }
        Reply::Explained { page, .. } => {
            let refused = |local: &Local| match local {
                Local::Refused(_, refusal) => Some(refusal.detail),
                Local::Feasible(_) => None,
            };
            page.nodes.iter().filter_map(|node| refused(&node.local)).collect()
        }
        Reply::Hello { .. } | Reply::Applied { .. } | Reply::Unable { .. } => return Vec::new(),
    };
    let known = |number| Some(pb::Words { number, text: modules.words(number)?.as_ref().to_owned() });
    numbers.into_iter().filter_map(known).take(MAX_WORDS).collect()
}

/// Takes over the words that came with an answer.
pub fn learn(words: &[pb::Words], registry: Registry) {
    if let Some(modules) = registry.modules() {
        words.iter().take(MAX_WORDS).for_each(|words| modules.learn(words.number, &words.text));
    }
}
