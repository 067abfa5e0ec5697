//! Which writes go before which: binds, then conditions with their nominations, then events.
//!
//! Knows: what is under way of the kinds that go first, and when there was something last. Must not know: what is written.
//!
//! A bind ends a pod's wait; a condition is read by autoscalers and people, an event by people. On a busy API server each
//! request takes its share of the time of those that are under way, so that what can wait is sent one by one.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

/// How long nothing that goes first has been under way, until the API server counts as idle. Within a burst the next bind
/// follows within milliseconds.
const QUIET: Duration = Duration::from_millis(100);

/// A kind of write that goes before others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Binds, from when they are decided.
    Bind,
    /// Conditions, while they are on the wire.
    Condition,
}

/// What is under way. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Precedence {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    now: Mutex<Now>,
    fewer_binds: Notify,
}

#[derive(Debug, Default)]
struct Now {
    binds: usize,
    conditions: usize,
    /// When one of either ended last.
    ended: Option<Instant>,
}

/// A write under way, until it is dropped.
#[derive(Debug)]
pub(super) struct UnderWay {
    shared: Arc<Shared>,
    kind: Kind,
}

impl Precedence {
    /// A write of this kind is under way until the answer is dropped.
    #[must_use]
    pub(super) fn begin(&self, kind: Kind) -> UnderWay {
        self.shared.now(|now| *now.of(kind) += 1);
        UnderWay { shared: Arc::clone(&self.shared), kind }
    }

    /// Binds under way, those included that wait for their turn.
    pub(super) fn binds(&self) -> usize {
        self.shared.now(|now| now.binds)
    }

    /// Whether neither binds nor conditions are under way, nor have been a moment ago.
    pub(super) fn is_quiet(&self) -> bool {
        self.shared.now(|now| now.binds + now.conditions == 0 && now.ended.is_none_or(|ended| ended.elapsed() >= QUIET))
    }

    /// Returns when at most so many binds are under way.
    pub(super) async fn binds_at_most(&self, many: usize) {
        loop {
            let mut fewer = std::pin::pin!(self.shared.fewer_binds.notified());
            // From here on no word is missed.
            fewer.as_mut().enable();
            if self.binds() <= many {
                return;
            }
            fewer.await;
        }
    }
}

impl Shared {
    /// A panic elsewhere leaves what is locked here whole: each change is one call.
    fn now<T>(&self, look: impl FnOnce(&mut Now) -> T) -> T {
        look(&mut self.now.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Now {
    const fn of(&mut self, kind: Kind) -> &mut usize {
        match kind {
            Kind::Bind => &mut self.binds,
            Kind::Condition => &mut self.conditions,
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.shared.now(|now| {
            *now.of(self.kind) -= 1;
            now.ended = Some(Instant::now());
        });
        if self.kind == Kind::Bind {
            self.shared.fewer_binds.notify_waiters();
        }
    }
}
