//! `flotilla up` and `flotilla down`: start and stop a local cluster.

use std::{
    env,
    io::{self, Write as _},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context as _;
use flotilla_framework::registry::Registry;

pub(crate) mod args;
mod cluster;
mod detach;
mod devices;
mod down;
mod folders;
mod notes;
mod plan;
mod process_id;
mod running;
mod state;
mod supervise;

use args::UpArgs;
use notes::{Note, Notifier, Screen, Wire};
use plan::Plan;
use process_id::ProcessId;
use running::Running;
use state::{State, StateFolder};
use supervise::Notebook;

/// Invalid flags or configuration.
const BAD_INPUT: u8 = 2;
/// The exit code of a shell for a program stopped by SIGINT.
const INTERRUPTED: u8 = 130;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UpOutcome {
    Ended,
    Detached,
    /// The user stopped it before it was up.
    Interrupted,
}

pub(crate) fn up(args: &UpArgs, registry: Registry) -> ExitCode {
    let teller: Arc<dyn Notifier> = if args.supervisor { Arc::new(Wire::new()) } else { Arc::new(Screen::new()) };
    let plan = match Plan::new(args, registry) {
        Ok((plan, warnings)) => {
            // The foreground process has printed them.
            warnings.into_iter().filter(|_| !args.supervisor).for_each(|what| teller.tell(Note::Line { what }));
            plan
        }
        Err(why) => {
            teller.tell(Note::Line { what: why });
            return ExitCode::from(BAD_INPUT);
        }
    };
    match run(args, &plan, &teller) {
        Ok(UpOutcome::Ended | UpOutcome::Detached) => ExitCode::SUCCESS,
        Ok(UpOutcome::Interrupted) => ExitCode::from(INTERRUPTED),
        Err(error) => {
            teller.tell(Note::Failed { why: format!("{error:#}") });
            ExitCode::FAILURE
        }
    }
}

pub(crate) fn down() -> ExitCode {
    match folders::state().and_then(|folder| down::down(&StateFolder::new(folder))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            Screen::new().tell(Note::Failed { why: format!("{error:#}") });
            ExitCode::FAILURE
        }
    }
}

fn run(args: &UpArgs, plan: &Plan, teller: &Arc<dyn Notifier>) -> anyhow::Result<UpOutcome> {
    let folder = StateFolder::new(folders::state()?);
    let (lock, left_over) = folder.lock()?.ok_or_else(|| is_up_already(folder.read().as_ref()))?;
    if let Some(left_over) = left_over {
        teller.tell(Note::Line { what: down::tell_left_over(&left_over) });
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start the async runtime")?;
    if args.detach {
        // The background process locks it.
        drop(lock);
        return runtime.block_on(detach::detach(args, &folder, |running| print(running, true)));
    }
    if args.supervisor {
        // The background process must survive Ctrl-C and the end of the terminal.
        rustix::process::setsid().context("cannot leave the session of the terminal")?;
    }
    let since = jiff::Zoned::now().strftime("%Y-%m-%d %H:%M").to_string();
    let state = State { supervisor: ProcessId::own(), since, folder: None, running: None };
    let notebook = Notebook::open(lock, state)?;
    runtime.block_on(supervise::supervise(plan, notebook, teller, |running| {
        if args.supervisor {
            teller.tell(Note::Up { running: Box::new(running.clone()) });
        } else {
            print(running, false);
        }
    }))
}

fn print(running: &Running, detached: bool) {
    // The reader may close the output at any time.
    _ = write!(io::stdout(), "\n{}", running.summary(&program(), detached));
}

/// Why a second cluster cannot start, and how to stop the first.
fn is_up_already(state: Option<&State>) -> anyhow::Error {
    let program = program();
    let Some(State { supervisor, since, running, .. }) = state else {
        return anyhow::anyhow!("another `{program} up` has just begun; end it with `{program} down`");
    };
    let pid = supervisor.pid;
    match running {
        None => anyhow::anyhow!(
            "a cluster is being started already, by process {pid} since {since}; end it with `{program} down`"
        ),
        Some(running) => anyhow::anyhow!(
            "a cluster is up already, by process {pid} since {since}; look at it with:\n\n{}  kubectl get nodes\n\n\
             or end it with `{program} down`",
            running.exports()
        ),
    }
}

/// The program as the user called it, for commands in messages.
fn program() -> String {
    let called = env::args_os().next();
    called.map_or_else(|| "flotilla".to_owned(), |called| running::quoted(called.as_ref()))
}
