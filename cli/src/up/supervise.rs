//! The supervisor: runs the cluster from start to stop.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use anyhow::Context as _;
use flotilla_control_plane::{Progress, Step};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{
    UpOutcome,
    cluster::Cluster,
    notes::{Note, Notifier},
    plan::Plan,
    running::Running,
    state::{Lock, State},
};

/// The state of the cluster during its start.
#[derive(Debug)]
pub(super) struct Notebook {
    lock: Lock,
    state: Mutex<State>,
}

impl Notebook {
    pub(super) fn open(lock: Lock, state: State) -> anyhow::Result<Self> {
        lock.write(&state)?;
        Ok(Self { lock, state: Mutex::new(state) })
    }

    fn note(&self, change: impl FnOnce(&mut State)) -> anyhow::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        self.lock.write(&state)
    }
}

/// Reports the steps of the control plane, and stores its directory.
#[derive(Debug)]
struct Steps {
    teller: Arc<dyn Notifier>,
    notebook: Arc<Notebook>,
}

impl Progress for Steps {
    fn tell(&self, step: Step<'_>) {
        if let Step::Folder { path } = step {
            self.note_folder(path);
        }
        if let Some(note) = Note::of(step) {
            self.teller.tell(note);
        }
    }
}

impl Steps {
    fn note_folder(&self, path: &Path) {
        // It is needed only to clean up after a killed process.
        _ = self.notebook.note(|state| state.folder = Some(path.to_owned()));
    }
}

/// Runs the cluster until a signal or the end of one of its processes. `summary` prints the text of the running cluster.
///
/// # Errors
/// The cluster cannot start or continue, as text.
pub(super) async fn supervise(
    plan: &Plan,
    notebook: Notebook,
    teller: &Arc<dyn Notifier>,
    is_up: impl FnOnce(&Running),
) -> anyhow::Result<UpOutcome> {
    let mut ends = Ends::listen().context("cannot listen for signals")?;
    let notebook = Arc::new(notebook);
    let steps = Arc::new(Steps { teller: Arc::clone(teller), notebook: Arc::clone(&notebook) });
    let started = tokio::select! {
        biased;
        signal = ends.next() => Err(signal),
        started = Cluster::start(plan, steps, &**teller) => Ok(started),
    };
    let cluster = match started {
        Ok(Ok(cluster)) => cluster,
        // The waiting process gets the error, and needs no log for it.
        Ok(Err(error)) => {
            notebook.lock.remove_log();
            return Err(error);
        }
        Err(signal) => {
            notebook.lock.remove_log();
            teller.tell(Note::Line { what: format!("{signal}: ended before the cluster was up") });
            return Ok(UpOutcome::Interrupted);
        }
    };
    notebook.note(|state| state.running = Some(cluster.running().clone()))?;
    is_up(cluster.running());

    let lost = tokio::select! {
        biased;
        _ = ends.next() => None,
        lost = loss(&cluster) => Some(lost?),
    };
    let began = Instant::now();
    tokio::select! {
        biased;
        _ = ends.next() => {}
        stopped = cluster.stop(&**teller) => stopped?,
    }
    // Kill the remaining processes and remove the directory.
    drop(cluster);
    match lost {
        None => {
            teller.tell(Note::done("ended", began.elapsed()));
            notebook.lock.remove_log();
            Ok(UpOutcome::Ended)
        }
        Some(why) => Err(anyhow::anyhow!("{why}\nThe cluster has been taken down; start it again with `up`")),
    }
}

/// Waits until a process of the cluster ends, and returns its description.
async fn loss(cluster: &Cluster) -> anyhow::Result<String> {
    // Subscribe first, so that no process ends unnoticed between the check and the wait.
    let mut children = signal(SignalKind::child()).context("cannot listen for the end of processes")?;
    loop {
        if let Some(why) = cluster.loss()? {
            return Ok(why);
        }
        children.recv().await;
    }
}

/// The signals that stop the cluster.
pub(super) struct Ends {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Ends {
    /// Replaces the default actions of the signals.
    pub(super) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hang_up.recv() => "SIGHUP",
        }
    }
}
