//! `flotilla down`: ends the cluster that another process has up.
//!
//! Knows: whom to ask, and when it is done. Must not know: what the other process does about it.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};

use super::{
    notes::{Note, Screen, Teller as _},
    state::{State, StateFolder, remove_left_over},
};

/// How long the end may take. Each part has 6 s, and needs less than one.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks whether the other process has ended.
const PAUSE: Duration = Duration::from_millis(50);

/// How long a process that has just begun may take to note who it is.
const NOTING: Duration = Duration::from_secs(5);

/// Ends the cluster that is up, if one is.
///
/// # Errors
/// Where it does not end.
pub(super) fn down(folder: &StateFolder) -> anyhow::Result<()> {
    let screen = Screen::new();
    let nothing = || screen.tell(Note::Line { what: "No cluster is up.".to_owned() });
    if !folder.exists() {
        nothing();
        return Ok(());
    }
    let began = Instant::now();
    let mut asked: Option<State> = None;
    loop {
        if let Some((lock, left_over)) = folder.lock()? {
            match (&asked, left_over) {
                (Some(_), _) => screen.tell(Note::done("the cluster has been ended", began.elapsed())),
                (None, Some(left_over)) => {
                    screen.tell(Note::Line { what: tell_left_over(&left_over) });
                    lock.remove_log();
                }
                (None, None) => nothing(),
            }
            let log = folder.log();
            if log.exists() {
                let what = format!("The last one in the background ended by itself; why is in {}.", log.display());
                screen.tell(Note::Line { what });
            }
            return Ok(());
        }
        match (&asked, folder.read()) {
            (None, Some(state)) => {
                let pid = state.supervisor.pid;
                screen.tell(Note::began(format!("ending the cluster of process {pid}")));
                let why = || format!("cannot end process {pid}, which has the cluster up; is it another user's?");
                state.supervisor.terminate().with_context(why)?;
                asked = Some(state);
            }
            (None, None) if began.elapsed() > NOTING => {
                bail!("a process has the cluster up and does not say which; look for `flotilla up` with ps, and end it")
            }
            (Some(state), _) if began.elapsed() > PATIENCE => {
                let pid = state.supervisor.pid;
                bail!("process {pid} has not ended the cluster within {PATIENCE:?}; `kill -KILL {pid}` ends all of it")
            }
            _ => {}
        }
        sleep(PAUSE);
    }
}

/// Cleans up after a process that was killed, and says so.
pub(super) fn tell_left_over(state: &State) -> String {
    let pid = state.supervisor.pid;
    let removed = match &state.folder {
        Some(folder) if remove_left_over(state) => format!("; what it left in {} is removed", folder.display()),
        _ => String::new(),
    };
    format!("The cluster of process {pid} went with that process, which was killed{removed}.")
}
