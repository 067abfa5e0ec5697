//! A bounded cache of answers with expiry. Concurrent queries for one key share one request.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use tokio::time::Instant;

type Flight<V, E> = Shared<BoxFuture<'static, Result<(V, Duration), E>>>;

/// A bounded number of answers, each with its own expiry. Concurrent queries for one key share one request.
pub(super) struct Cache<K, V, E> {
    most: usize,
    state: Mutex<State<K, V, E>>,
}

struct State<K, V, E> {
    answers: BTreeMap<K, (Instant, V)>,
    flights: BTreeMap<K, Flight<V, E>>,
}

impl<K, V, E> Cache<K, V, E>
where
    K: Ord + Clone,
    V: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    pub(super) fn new(most: usize) -> Self {
        Self { most, state: Mutex::new(State { answers: BTreeMap::new(), flights: BTreeMap::new() }) }
    }

    /// The cached answer, or else that of `ask`, which also returns its lifetime.
    ///
    /// # Errors
    /// That of `ask`, which is not cached.
    pub(super) async fn get_or_ask<F>(&self, key: K, ask: impl FnOnce() -> F) -> Result<V, E>
    where
        F: Future<Output = Result<(V, Duration), E>> + Send + 'static,
    {
        let flight = {
            let mut state = self.state();
            let now = Instant::now();
            // Drop expired answers at once, not only when the cache is full: they may be secrets.
            state.answers.retain(|_, (end, _)| now < *end);
            if let Some((_, answer)) = state.answers.get(&key) {
                return Ok(answer.clone());
            }
            state.flights.entry(key.clone()).or_insert_with(|| ask().boxed().shared()).clone()
        };
        let told = flight.clone().await;
        let mut state = self.state();
        if state.flights.get(&key).is_some_and(|known| known.ptr_eq(&flight)) {
            state.flights.remove(&key);
            if let Ok((answer, lifetime)) = &told {
                self.keep(&mut state, key, answer.clone(), *lifetime);
            }
        }
        told.map(|(answer, _)| answer)
    }

    /// Caches an answer for `lifetime`. If the cache is full, the answer that expires first is dropped.
    fn keep(&self, state: &mut State<K, V, E>, key: K, answer: V, lifetime: Duration) {
        let now = Instant::now();
        if state.answers.len() >= self.most
            && let Some(first) = state.answers.iter().min_by_key(|(_, (end, _))| *end).map(|(key, _)| key.clone())
        {
            state.answers.remove(&first);
        }
        state.answers.insert(key, (now + lifetime, answer));
    }

    fn state(&self) -> MutexGuard<'_, State<K, V, E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    type Numbers = Cache<&'static str, u32, &'static str>;

    const TEN: Duration = Duration::from_secs(10);

    async fn ask(cache: &Numbers, key: &'static str, answer: u32, lifetime: Duration) -> u32 {
        cache.get_or_ask(key, || async move { Ok((answer, lifetime)) }).await.expect("answered")
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_counts_until_its_end_and_is_not_kept_any_longer() {
        let cache = Numbers::new(2);
        assert_eq!(ask(&cache, "a", 1, TEN).await, 1);
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(ask(&cache, "a", 2, TEN).await, 1);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(ask(&cache, "b", 3, TEN).await, 3);
        assert_eq!(cache.state().answers.keys().copied().collect::<Vec<_>>(), ["b"], "what has ended is gone");
        assert_eq!(ask(&cache, "a", 4, TEN).await, 4);
    }

    #[tokio::test(start_paused = true)]
    async fn where_there_is_no_room_the_answer_that_ends_first_goes() {
        let cache = Numbers::new(2);
        ask(&cache, "long", 1, TEN).await;
        ask(&cache, "short", 2, TEN / 2).await;
        ask(&cache, "new", 4, TEN).await;
        assert_eq!(cache.state().answers.keys().copied().collect::<Vec<_>>(), ["long", "new"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_many_ask_at_once_is_asked_once_and_a_failure_is_not_kept() {
        static ASKED: AtomicU32 = AtomicU32::new(0);
        let cache = Numbers::new(2);
        let slow = |told: Result<(u32, Duration), &'static str>| {
            cache.get_or_ask("a", move || async move {
                ASKED.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(TEN).await;
                told
            })
        };
        let told = futures::future::join_all((0..100).map(|_| slow(Err("no answer")))).await;
        assert!(told.iter().all(|told| *told == Err("no answer")));
        assert_eq!(ASKED.load(Ordering::Relaxed), 1);
        let told = futures::future::join_all((0..100).map(|_| slow(Ok((7, TEN))))).await;
        assert!(told.iter().all(|told| *told == Ok(7)));
        assert_eq!(ASKED.load(Ordering::Relaxed), 2);
        assert!(cache.state().flights.is_empty());
    }
}
