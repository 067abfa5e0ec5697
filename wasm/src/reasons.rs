//! Messages of modules, with a number that every process computes equally.
//!
//! A verdict stores a number per node; messages are stored once. Workers send messages with an answer, so that the coordinator can print
//! those of verdicts that it did not compute.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use xxhash_rust::xxh3::xxh3_64;

/// Maximum number of messages; with [`MOST_BYTES`] they take 4 MiB. Further messages become [`OTHERS`].
const MOST_WORDS: usize = 4096;
/// Maximum bytes of a message; the rest is cut off.
const MOST_BYTES: usize = 1 << 10;
/// Replacement for messages beyond the limit.
const OTHERS: &str = "node(s) were refused by a module that gave too many different reasons";

#[derive(Debug, Default)]
pub(crate) struct Reasons(RwLock<BTreeMap<u64, Arc<str>>>);

impl Reasons {
    /// Stores a message and returns its number.
    pub(crate) fn number(&self, text: &str) -> u64 {
        let text = cut(text);
        let number = xxh3_64(text.as_bytes());
        if self.get(number).is_none() {
            let mut words = self.0.write().unwrap_or_else(PoisonError::into_inner);
            if words.len() < MOST_WORDS {
                words.insert(number, text.into());
            }
        }
        number
    }

    pub(crate) fn get(&self, number: u64) -> Option<Arc<str>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }

    /// The message of a number, or `OTHERS`.
    pub(crate) fn told(&self, number: u64) -> String {
        self.get(number).map_or_else(|| OTHERS.to_owned(), |words| words.to_string())
    }

    /// Stores a message with this number.
    pub(crate) fn learn(&self, number: u64, text: &str) {
        if xxh3_64(cut(text).as_bytes()) == number {
            self.number(text);
        }
    }
}

fn cut(text: &str) -> &str {
    let end = (0..=text.len().min(MOST_BYTES)).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_the_same_number_everywhere_and_a_bound() {
        let (one, other) = (Reasons::default(), Reasons::default());
        let number = one.number("no room");
        assert_eq!((other.number("no room"), one.get(number).as_deref()), (number, Some("no room")));
        let learning = Reasons::default();
        learning.learn(number, "something else");
        assert_eq!(learning.get(number), None, "words that have another number");
        learning.learn(number, "no room");
        assert_eq!(learning.get(number).as_deref(), Some("no room"));
        let numbers: Vec<u64> = (0..MOST_WORDS + 8).map(|at| one.number(&at.to_string())).collect();
        assert_eq!(numbers.iter().filter(|number| one.get(**number).is_some()).count(), MOST_WORDS - 1);
        let long = one.number(&"é".repeat(MOST_BYTES));
        assert_eq!(long, other.number(&"é".repeat(MOST_BYTES / 2)));
        assert_eq!((other.told(number), learning.told(number + 1)), ("no room".to_owned(), OTHERS.to_owned()));
    }
}
