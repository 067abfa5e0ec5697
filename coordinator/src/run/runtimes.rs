//! The threads of the async runtimes.
//!
//! Requests, watches and the workers' streams share one thread. Each bound pod costs it some 0.3 ms: two requests and two watch events. It
//! therefore suffices for 3,000 pods a second, several times an API server's rate. One thread is woken less often than several, which would
//! cost a tenth of the process' CPU. The election has a separate thread: no burst of traffic delays a renewal.

use std::future::Future;

use anyhow::Context as _;
use flotilla_runtime::driver::before_rest;
use tokio::runtime::{Builder, Handle, Runtime};

#[derive(Debug)]
pub(super) struct Runtimes {
    traffic: Runtime,
    election: Runtime,
}

impl Runtimes {
    /// Starts the threads.
    ///
    /// # Errors
    /// If the operating system cannot create a thread.
    pub(super) fn start() -> anyhow::Result<Self> {
        let start = |name: &'static str, before_rest: fn()| {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(1).thread_name(name).enable_all().on_thread_park(before_rest);
            builder.build().with_context(|| format!("cannot start the async runtime {name}"))
        };
        // Events received together wake the machine once.
        Ok(Self { traffic: start("traffic", before_rest)?, election: start("election", || {})? })
    }

    /// Runs a process to its end, with the handle of the election's thread. All other tasks share a thread.
    pub(super) fn run<P: Future>(self, process: impl FnOnce(Handle) -> P) -> P::Output {
        let Self { traffic, election } = self;
        let ran = traffic.block_on(process(election.handle().clone()));
        // Remaining tasks were given their time.
        traffic.shutdown_background();
        election.shutdown_background();
        ran
    }
}
