//! Processes of coordinators: started, terminated, killed and restarted.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use flotilla_coordinator::{lease::LeaseConfig, run::Hosted};
use flotilla_framework::{profile::Profile, registry::Registry};
use flotilla_machine::event::Configuration;
use flotilla_runtime::driver::Handle;
use tokio::{sync::mpsc, task::JoinHandle};

use crate::{
    api::{Api, service::Taken},
    defects::Defective,
    workers::Workers,
};

/// Lease times that the documentation recommends for a fast failover.
const LEASE: Duration = Duration::from_secs(5);
const RENEW: Duration = Duration::from_secs(3);
const RETRY: Duration = Duration::from_secs(1);

/// Suffix of the election's client name.
const ELECTION: &str = "-election";

/// Client name of a process's election.
#[must_use]
pub fn election_of(process: &str) -> String {
    format!("{process}{ELECTION}")
}

/// Process of a client, which may be its election.
#[must_use]
pub fn process_of(name: &str) -> &str {
    name.strip_suffix(ELECTION).unwrap_or(name)
}

/// Common setup of all coordinators.
#[derive(Clone)]
pub struct Setup {
    /// API server.
    pub api: Api,
    /// Workers.
    pub workers: Workers,
    /// Profiles.
    pub profiles: Vec<Profile>,
    /// Plugins.
    pub registry: Registry,
    /// Whether events reach the API server; otherwise they are discarded.
    pub with_events: bool,
}

/// A coordinator.
pub struct Coordinator {
    index: usize,
    starts: u64,
    running: Option<Running>,
}

struct Running {
    name: String,
    task: JoinHandle<()>,
    signals: mpsc::Sender<&'static str>,
    handle: Arc<Mutex<Option<Handle>>>,
}

impl Coordinator {
    /// A coordinator that does not run yet.
    #[must_use]
    pub const fn new(index: usize) -> Self {
        Self { index, starts: 0, running: None }
    }

    /// Whether its process runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.running.as_ref().is_some_and(|running| !running.task.is_finished())
    }

    /// Client name of its process.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.running.as_ref().filter(|running| !running.task.is_finished()).map(|running| running.name.as_str())
    }

    /// Handle of the machine.
    #[must_use]
    pub fn machine(&self) -> Option<Handle> {
        let running = self.running.as_ref().filter(|running| !running.task.is_finished())?;
        running.handle.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts a process unless it runs.
    pub fn start(&mut self, setup: &Setup) {
        if self.is_running() {
            return;
        }
        self.starts += 1;
        let name = format!("coordinator-{}.{}", self.index, self.starts);
        let (signals, told) = mpsc::channel(2);
        let (api, client) = (setup.api.clone(), setup.api.client(&name));
        let hosted = Hosted {
            events: if setup.with_events { client.clone() } else { kube::Client::new(Taken, "default") },
            election: setup.api.client(&election_of(&name)),
            client,
            workers: Arc::new(setup.workers.clone()),
            addresses: setup.workers.addresses().into_iter().collect(),
            lease: LeaseConfig {
                name: "flotilla".into(),
                namespace: "kube-system".into(),
                identity: name.clone(),
                lease_duration: LEASE,
                renew_deadline: RENEW,
                retry_period: RETRY,
                coordinated: false,
            },
            registry: setup.registry,
            configuration: Configuration::new(1, setup.profiles.clone()),
            signals: told,
        };
        let handle = Arc::<Mutex<Option<Handle>>>::default();
        let (slot, process) = (Arc::clone(&handle), name.clone());
        let task = tokio::spawn(async move {
            let started = |machine| *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(machine);
            let ended = Box::pin(hosted.run(Defective::new, started)).await;
            // An ended process sends nothing more.
            api.partition(&process, true);
            api.partition(&election_of(&process), true);
            if let Err(error) = ended {
                tracing::info!(process, error = format!("{error:#}"), "a coordinator has ended");
            }
        });
        self.running = Some(Running { name, task, signals, handle });
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        if let Some(running) = &self.running {
            // Two signals suffice; the channel may be full.
            let _ = running.signals.try_send("SIGTERM");
        }
    }

    /// Kills the process.
    pub fn kill(&mut self, api: &Api) {
        if let Some(running) = self.running.take() {
            api.partition(&running.name, true);
            api.partition(&election_of(&running.name), true);
            running.task.abort();
        }
    }
}
