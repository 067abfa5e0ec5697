//! Coordinators: each a process that is started, told to end, killed, and started again.
//!
//! Knows: what a process is given, and that nothing of a dead one gets out. Must not know: what a coordinator does.

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
    workers::Workers,
};

/// The times of the election: those that the documentation gives for a fast handover.
const LEASE: Duration = Duration::from_secs(5);
const RENEW: Duration = Duration::from_secs(3);
const RETRY: Duration = Duration::from_secs(1);

/// What follows the name of a process in that of its election to the API server.
const ELECTION: &str = "-election";

/// The name of a process' election to the API server.
#[must_use]
pub fn election_of(process: &str) -> String {
    format!("{process}{ELECTION}")
}

/// The process that has this name to the API server, by itself or by its election.
#[must_use]
pub fn process_of(name: &str) -> &str {
    name.strip_suffix(ELECTION).unwrap_or(name)
}

/// How all coordinators are set up.
#[derive(Clone)]
pub struct Setup {
    /// The API server.
    pub api: Api,
    /// The workers.
    pub workers: Workers,
    /// The profiles.
    pub profiles: Vec<Profile>,
    /// The plugins.
    pub registry: Registry,
    /// Events reach the API server; else they are taken at once.
    pub with_events: bool,
}

/// One of the coordinators.
pub struct Coordinator {
    index: usize,
    /// Counts its starts.
    starts: u64,
    running: Option<Running>,
}

/// A process.
struct Running {
    /// Its name to the API server.
    name: String,
    task: JoinHandle<()>,
    signals: mpsc::Sender<&'static str>,
    handle: Arc<Mutex<Option<Handle>>>,
}

impl Coordinator {
    /// One that does not run yet.
    #[must_use]
    pub const fn new(index: usize) -> Self {
        Self { index, starts: 0, running: None }
    }

    /// Whether its process is there.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.running.as_ref().is_some_and(|running| !running.task.is_finished())
    }

    /// The name of its process to the API server.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.running.as_ref().filter(|running| !running.task.is_finished()).map(|running| running.name.as_str())
    }

    /// How the rest of the process speaks with its machine.
    #[must_use]
    pub fn machine(&self) -> Option<Handle> {
        let running = self.running.as_ref().filter(|running| !running.task.is_finished())?;
        running.handle.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts a process, unless there is one.
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
            },
            registry: setup.registry,
            configuration: Configuration::new(1, setup.profiles.clone()),
            signals: told,
        };
        let handle = Arc::<Mutex<Option<Handle>>>::default();
        let (slot, process) = (Arc::clone(&handle), name.clone());
        let task = tokio::spawn(async move {
            let started = |machine| *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(machine);
            let ended = Box::pin(hosted.run(started)).await;
            // A process that has ended says nothing any more.
            api.partition(&process, true);
            api.partition(&election_of(&process), true);
            if let Err(error) = ended {
                tracing::info!(process, error = format!("{error:#}"), "a coordinator has ended");
            }
        });
        self.running = Some(Running { name, task, signals, handle });
    }

    /// Sends a signal that asks it to end.
    pub fn terminate(&self) {
        if let Some(running) = &self.running {
            // A process that has had two has enough of them.
            let _ = running.signals.try_send("SIGTERM");
        }
    }

    /// Ends the process without a word.
    pub fn kill(&mut self, api: &Api) {
        if let Some(running) = self.running.take() {
            api.partition(&running.name, true);
            api.partition(&election_of(&running.name), true);
            running.task.abort();
        }
    }
}
