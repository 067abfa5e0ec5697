//! The process that has the cluster: from its start to its end.
//!
//! Knows: when to start, what ends it, and what is noted of it. Must not know: what the cluster is made of.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use anyhow::Context as _;
use flotilla_control_plane::{Progress, Step};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{
    Outcome,
    cluster::Cluster,
    notes::{Note, Teller},
    plan::Plan,
    running::Running,
    state::{Lock, State},
};

/// What is noted of the cluster while it comes up.
#[derive(Debug)]
pub(super) struct Notebook {
    lock: Lock,
    state: Mutex<State>,
}

impl Notebook {
    /// Notes that this process is about to have a cluster up.
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

/// Tells people of the steps of the control plane, and notes where it is.
#[derive(Debug)]
struct Steps {
    teller: Arc<dyn Teller>,
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
        // It serves only to clean up after a process that was killed.
        _ = self.notebook.note(|state| state.folder = Some(path.to_owned()));
    }
}

/// Has the cluster up until it is ended or a part of it ends.
///
/// `summary` is what to print when it is up. Who waits is told of everything else.
///
/// # Errors
/// What keeps it from starting or going on, for people.
pub(super) async fn supervise(
    plan: &Plan,
    notebook: Notebook,
    teller: &Arc<dyn Teller>,
    is_up: impl FnOnce(&Running),
) -> anyhow::Result<Outcome> {
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
        // The process that waits for the cluster is told why there is none, and needs no log for that.
        Ok(Err(error)) => {
            notebook.lock.remove_log();
            return Err(error);
        }
        Err(signal) => {
            notebook.lock.remove_log();
            teller.tell(Note::Line { what: format!("{signal}: ended before the cluster was up") });
            return Ok(Outcome::Interrupted);
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
    // What is left of the processes, and the folder.
    drop(cluster);
    match lost {
        None => {
            teller.tell(Note::done("ended", began.elapsed()));
            notebook.lock.remove_log();
            Ok(Outcome::Ended)
        }
        Some(why) => Err(anyhow::anyhow!("{why}\nThe cluster has been taken down; start it again with `up`")),
    }
}

/// Why the cluster is not whole any more, once that is so.
async fn loss(cluster: &Cluster) -> anyhow::Result<String> {
    // The signal first: who ends between a look and the wait is not missed then.
    let mut children = signal(SignalKind::child()).context("cannot listen for the end of processes")?;
    loop {
        if let Some(why) = cluster.loss()? {
            return Ok(why);
        }
        children.recv().await;
    }
}

/// The signals that end the cluster.
pub(super) struct Ends {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Ends {
    /// From now on they do not end this process.
    pub(super) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hang_up.recv() => "SIGHUP",
        }
    }
}
