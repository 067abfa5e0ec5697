//! What happened in a worker, counted.
//!
//! Knows: the names of what is counted. Must not know: who reads it, or in which format.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the start of a worker; shared by all its streams.
#[derive(Debug, Default)]
pub struct Counters {
    pub(crate) attached: Counter,
    pub(crate) refused: Counter,
    pub(crate) unreadable: Counter,
    pub(crate) panicked: Counter,
    pub(crate) words: Counter,
    pub(crate) words_waited: Counter,
    pub(crate) answers: Counter,
    pub(crate) answers_waited: Counter,
    pub(crate) answers_too_large: Counter,
}

/// What [`Counters`] held at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Streams whose leader was obeyed.
    pub attached: u64,
    /// Streams that were refused: too many of them, or of an older leader.
    pub refused: u64,
    /// Messages that could not be read; each ended its stream.
    pub unreadable: u64,
    /// Evaluations that panicked; each ended its stream.
    pub panicked: u64,
    /// Messages taken in.
    pub words: u64,
    /// Messages that found their channel full and waited.
    pub words_waited: u64,
    /// Messages given out.
    pub answers: u64,
    /// Answers that found their channel full and waited.
    pub answers_waited: u64,
    /// Answers that would not have fitted into a message.
    pub answers_too_large: u64,
}

impl Counters {
    /// The counts as of now.
    #[must_use]
    pub fn read(&self) -> Counts {
        Counts {
            attached: self.attached.get(),
            refused: self.refused.get(),
            unreadable: self.unreadable.get(),
            panicked: self.panicked.get(),
            words: self.words.get(),
            words_waited: self.words_waited.get(),
            answers: self.answers.get(),
            answers_waited: self.answers_waited.get(),
            answers_too_large: self.answers_too_large.get(),
        }
    }
}

/// One count. Nothing is decided by it, so no order among counts is promised.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
