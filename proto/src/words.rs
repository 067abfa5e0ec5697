//! The words of modules, which go with an answer that has them by number.
//!
//! Must not know: what the words say.

use flotilla_framework::{modules::numbers, registry::Registry, shard::FromWorker};

use crate::pb;

/// The most words that go with one answer: of at most 1 KiB each, so 256 KiB.
const MAX_WORDS: usize = 256;

/// The words that an answer has by number, as far as modules of `registry` gave them.
#[must_use]
pub fn of(word: &FromWorker, registry: Registry) -> Vec<pb::Words> {
    let Some(modules) = registry.modules() else { return Vec::new() };
    let known = |number| Some(pb::Words { number, text: modules.words(number)?.as_ref().to_owned() });
    numbers(word).into_iter().filter_map(known).take(MAX_WORDS).collect()
}

/// Takes over the words that came with an answer.
pub fn learn(words: &[pb::Words], registry: Registry) {
    if let Some(modules) = registry.modules() {
        words.iter().take(MAX_WORDS).for_each(|words| modules.learn(words.number, &words.text));
    }
}
