//! Order of writes: binds, then conditions with their nominations, then events.
//!
//! A bind ends a pod's wait; autoscalers and users read conditions, users read events. On a busy API server each request slows the others
//! in flight, so that less urgent ones are sent one by one.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

/// How long no bind or condition has been in flight until the API server counts as idle. A burst has binds every few milliseconds.
const QUIET: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Binds, from their decision.
    Bind,
    /// Conditions in flight.
    Condition,
}

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
    /// End of the last bind or condition.
    ended: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct UnderWay {
    shared: Arc<Shared>,
    kind: Kind,
}

impl Precedence {
    #[must_use]
    pub(super) fn begin(&self, kind: Kind) -> UnderWay {
        self.shared.now(|now| *now.of(kind) += 1);
        UnderWay { shared: Arc::clone(&self.shared), kind }
    }

    /// Binds in flight or queued.
    pub(super) fn binds(&self) -> usize {
        self.shared.now(|now| now.binds)
    }

    /// Whether no bind or condition is in flight, or was a moment ago.
    pub(super) fn is_quiet(&self) -> bool {
        self.shared.now(|now| now.binds + now.conditions == 0 && now.ended.is_none_or(|ended| ended.elapsed() >= QUIET))
    }

    pub(super) async fn binds_at_most(&self, many: usize) {
        loop {
            let mut fewer = std::pin::pin!(self.shared.fewer_binds.notified());
            // No notification is missed from here on.
            fewer.as_mut().enable();
            if self.binds() <= many {
                return;
            }
            fewer.await;
        }
    }
}

impl Shared {
    /// A panic elsewhere leaves the locked data consistent: each change is one call.
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
