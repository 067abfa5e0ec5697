//! A coordinator with injected clients, workers and signals.
//!
//! It runs as in a process, from the watches to the election, but without flags, endpoints, certificates and spans, and its machine is a
//! task. Several coordinators can therefore run on one thread with a paused clock.

use std::{collections::BTreeSet, sync::Arc};

use flotilla_framework::{ingest::Features, registry::Registry};
use flotilla_machine::{
    event::{Configuration, Event},
    machine::Machine,
};
use flotilla_runtime::{
    driver::{self, Course, Handle},
    fanout::Attach,
};
use flotilla_spans::Spans;
use serde_json::Value;
use tokio::{sync::mpsc, task::AbortHandle};
use tokio_util::sync::CancellationToken;

use super::{Beginning, Outside, Own, Reach, signals::Terminations};
use crate::{discovery::Discovery, lease::LeaseConfig};

/// A coordinator and its dependencies.
pub struct Hosted {
    /// The API server, for all but events and the election.
    pub client: kube::Client,
    /// The API server, for events.
    pub events: kube::Client,
    /// The API server, for the election.
    pub election: kube::Client,
    /// Opens streams to workers.
    pub workers: Arc<dyn Attach>,
    /// Addresses of workers, `host:port` each.
    pub addresses: BTreeSet<String>,
    /// The Lease and identity of its election.
    pub lease: LeaseConfig,
    /// The plugins.
    pub registry: Registry,
    /// The machine's configuration.
    pub configuration: Configuration,
    /// Names of signals that end it.
    pub signals: mpsc::Receiver<&'static str>,
}

impl Hosted {
    /// Runs the coordinator until it ends; calls `started` with its machine at the start, which `course` may wrap. Returns at once when the
    /// lead is lost, with work in flight: the caller must drop all further output.
    ///
    /// # Errors
    /// The reason of the end, unless a signal ended it.
    pub async fn run<C: Course>(
        self,
        course: impl FnOnce(Machine) -> C + Send + 'static,
        started: impl FnOnce(Handle),
    ) -> anyhow::Result<()> {
        let Self { client, events, election, workers, addresses, lease, registry, configuration, signals } = self;
        let outside = Outside {
            client,
            events,
            workers: Reach::Local(workers),
            discovery: Discovery::Static(addresses),
            issuer: None,
            spans: Spans::default(),
            drive: Box::new(|machine, performer| driver::spawn_task(course(machine), performer)),
            lost: || {},
            stop: CancellationToken::new(),
        };
        let identity = lease.identity.clone();
        let own = Own {
            identity: &identity,
            registry,
            machine: &configuration,
            features: Features::default(),
            idle: Machine::new(0, registry),
            is_elected: true,
            is_coordinated: lease.coordinated,
            lazily: false,
            shown: Value::Null,
        };
        let Beginning { coordinator, first, lead } = Beginning::of(outside, own);
        let handle = coordinator.parts.handle.clone();
        started(handle.clone());
        let election = coordinator.stand(&tokio::runtime::Handle::current(), lease, election, lead);
        // Any end stops all tasks, as the end of a process does.
        let _end = End {
            tokens: [coordinator.stop.clone(), coordinator.shutdown.clone(), coordinator.drained.clone()],
            election: election.abort_handle(),
            handle: handle.clone(),
        };
        handle.send_event(Event::Configured(Arc::new(configuration))).await?;
        coordinator.until_the_end(first, election, Terminations::Told(signals)).await
    }
}

struct End {
    tokens: [CancellationToken; 3],
    election: AbortHandle,
    handle: Handle,
}

impl Drop for End {
    fn drop(&mut self) {
        self.election.abort();
        self.tokens.iter().for_each(CancellationToken::cancel);
        self.handle.stop();
    }
}
