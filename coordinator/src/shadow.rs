//! Shadow mode: compares another scheduler's decisions with Flotilla's, and writes nothing.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use flotilla_framework::{ingest::Features, registry::Registry};
use flotilla_machine::{
    action::Action,
    comparison::{Compared, Comparison},
    event::{Configuration, Event},
    machine::Machine,
};
use flotilla_runtime::driver::{self, Handle, Stopped};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;

use crate::{
    lease::Leadership,
    status::Reporter,
    watch::{Needs, Watches},
};

/// Decisions queued for comparison. Each holds a copy of the nodes, some 3 MB for 5,000, so that all of them are 50 MB.
const WAITING: usize = 16;

/// A follower of another scheduler. It ends on drop.
pub struct Shadow {
    handle: Handle,
    watches: Watches,
    compared: mpsc::Receiver<Compared>,
    missed: Arc<AtomicU64>,
    /// Marks this process as not leading; the receivers need the sender alive.
    _lead: watch::Sender<Leadership>,
    _stop: DropGuard,
}

impl Shadow {
    /// Starts to watch a cluster, with `features` for reading pods. The profiles' decisions are computed here too.
    ///
    /// # Errors
    /// The machine's thread has ended.
    ///
    /// # Panics
    /// Outside of a tokio runtime, and if the operating system cannot create a thread.
    pub async fn start(
        client: kube::Client,
        registry: Registry,
        configuration: Configuration,
        features: Features,
    ) -> Result<Self, Stopped> {
        let (lead, leading) = watch::channel(Leadership::UNKNOWN);
        let reporter = Reporter::new(&client, &client, "flotilla-shadow", &leading);
        let (found, comparisons) = mpsc::channel(WAITING);
        let missed = Arc::<AtomicU64>::default();
        let overflown = Arc::clone(&missed);
        let compared = move |comparison| {
            if found.try_send(comparison).is_err() {
                overflown.fetch_add(1, Ordering::Relaxed);
            }
        };
        let machine = Machine::new(0, registry).keeping_decisions(0);
        // A machine that does not lead returns no actions to perform.
        let (handle, _thread) = driver::spawn_comparing(machine, |_: Action| {}, compared);
        let configuration = Arc::new(configuration);
        handle.send_event(Event::Configured(Arc::clone(&configuration))).await?;
        let (begin, stop) = (CancellationToken::new(), CancellationToken::new());
        begin.cancel();
        let with_groups = configuration.generic_workload;
        let needs = Needs { registry, profiles: &configuration.profiles, with_groups, features };
        let watches = Watches::start(client, handle.clone(), reporter, needs, begin, stop.clone());
        let compared = judged(comparisons, Arc::clone(&missed));
        Ok(Self { handle, watches, compared, missed, _lead: lead, _stop: stop.drop_guard() })
    }

    /// Returns once the caches are synced. Earlier decisions are not compared.
    pub async fn wait_synced(&mut self) {
        self.watches.wait_synced().await;
    }

    /// Resources without a complete initial list.
    #[must_use]
    pub fn unlisted(&self) -> Vec<&'static str> {
        self.watches.unlisted()
    }

    /// The next decision of the other scheduler.
    ///
    /// # Errors
    /// The reason of the end: a watch, which never ends normally, or the machine's thread.
    pub async fn next(&mut self) -> Result<Compared, String> {
        tokio::select! {
            biased;
            compared = self.compared.recv() => compared.ok_or_else(|| Stopped.to_string()),
            reason = self.watches.ended() => Err(reason),
        }
    }

    /// Decisions that were not compared because the queue was full.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        self.handle.stop();
    }
}

/// Compares decisions in sequence, outside the runtime's threads.
fn judged(mut comparisons: mpsc::Receiver<Comparison>, missed: Arc<AtomicU64>) -> mpsc::Receiver<Compared> {
    let (tell, compared) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        while let Some(comparison) = comparisons.recv().await {
            match tokio::task::spawn_blocking(move || comparison.judge()).await {
                Ok(Ok(compared)) => {
                    if tell.send(compared).await.is_err() {
                        return;
                    }
                }
                Ok(Err(why)) => {
                    warn!(reason = ?why, "a decision cannot be compared");
                    missed.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => {
                    warn!(%error, "a decision was not compared");
                    missed.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    });
    compared
}
