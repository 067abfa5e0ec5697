//! Status messages of modules, sent with the answer that refers to them by number.

use flotilla_framework::{modules::numbers, registry::Registry, shard::FromWorker};

use crate::pb;

/// Maximum number of messages per answer: of at most 1 KiB each, so 256 KiB.
const MAX_WORDS: usize = 256;

/// The messages that an answer refers to, from the modules of `registry`.
#[must_use]
pub fn of(word: &FromWorker, registry: Registry) -> Vec<pb::Words> {
    let Some(modules) = registry.modules() else { return Vec::new() };
    let known = |number| Some(pb::Words { number, text: modules.words(number)?.as_ref().to_owned() });
    numbers(word).into_iter().filter_map(known).take(MAX_WORDS).collect()
}

/// Stores the messages of an answer.
pub fn learn(words: &[pb::Words], registry: Registry) {
    if let Some(modules) = registry.modules() {
        words.iter().take(MAX_WORDS).for_each(|words| modules.learn(words.number, &words.text));
    }
}
