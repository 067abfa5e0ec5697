//! The threads that tasks run on.
//!
//! Requests, watches and the workers' streams share one thread. Each bound pod costs it some 0.3 ms: two requests and what two
//! watches tell of it. So it is enough for 3,000 pods a second, several times what an API server takes, and one thread is woken
//! less often than several, which costs a tenth of the process' CPU. The election has a thread of its own: no burst of traffic
//! delays a renewal.
//!
//! Must not know: what any task does.

use std::future::Future;

use anyhow::Context as _;
use flotilla_runtime::driver::before_rest;
use tokio::runtime::{Builder, Handle, Runtime};

/// What all runs on.
#[derive(Debug)]
pub(super) struct Runtimes {
    traffic: Runtime,
    election: Runtime,
}

impl Runtimes {
    /// Starts the threads.
    ///
    /// # Errors
    /// Where there are no more threads to be had.
    pub(super) fn start() -> anyhow::Result<Self> {
        let start = |name: &'static str, before_rest: fn()| {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(1).thread_name(name).enable_all().on_thread_park(before_rest);
            builder.build().with_context(|| format!("cannot start the async runtime {name}"))
        };
        // What was received at once wakes the machine once.
        Ok(Self { traffic: start("traffic", before_rest)?, election: start("election", || {})? })
    }

    /// Runs a process to its end. It is given where its election belongs; all other tasks it spawns share a thread.
    pub(super) fn run<P: Future>(self, process: impl FnOnce(Handle) -> P) -> P::Output {
        let Self { traffic, election } = self;
        let ran = traffic.block_on(process(election.handle().clone()));
        // What is under way now has had its time.
        traffic.shutdown_background();
        election.shutdown_background();
        ran
    }
}
