//! Answers that count for a while.
//!
//! Knows: when an answer is too old, and how many are kept. Must not know: what was asked.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// A bounded number of answers, each with its own end.
pub(super) struct Cache<K, V> {
    most: usize,
    answers: Mutex<BTreeMap<K, (Instant, V)>>,
}

impl<K: Ord + Clone, V: Clone> Cache<K, V> {
    /// Keeps at most so many answers.
    pub(super) fn new(most: usize) -> Self {
        Self { most, answers: Mutex::new(BTreeMap::new()) }
    }

    /// The answer, while it counts.
    pub(super) fn get(&self, key: &K) -> Option<V> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get(key).filter(|(end, _)| Instant::now() < *end).map(|(_, answer)| answer.clone())
    }

    /// Keeps an answer for `lifetime`. Where there is no room, the one that ends first goes.
    pub(super) fn insert(&self, key: K, answer: V, lifetime: Duration) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if answers.len() >= self.most && !answers.contains_key(&key) {
            answers.retain(|_, (end, _)| now < *end);
            if answers.len() >= self.most
                && let Some(first) = answers.iter().min_by_key(|(_, (end, _))| *end).map(|(key, _)| key.clone())
            {
                answers.remove(&first);
            }
        }
        answers.insert(key, (now + lifetime, answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_counts_until_its_end_and_no_longer() {
        let cache = Cache::new(2);
        cache.insert("a", 1, Duration::from_secs(10));
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(cache.get(&"a"), Some(1));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((cache.get(&"a"), cache.get(&"b")), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn where_there_is_no_room_the_answer_that_ends_first_goes() {
        let cache = Cache::new(2);
        cache.insert("long", 1, Duration::from_secs(10));
        cache.insert("short", 2, Duration::from_secs(5));
        cache.insert("long", 3, Duration::from_secs(10));
        cache.insert("new", 4, Duration::from_secs(10));
        assert_eq!((cache.get(&"long"), cache.get(&"short"), cache.get(&"new")), (Some(3), None, Some(4)));
    }
}
