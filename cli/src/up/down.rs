//! `flotilla down`: stops the cluster of another process.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};

use super::{
    notes::{Note, Notifier as _, Screen},
    state::{State, StateFolder, remove_left_over},
};

/// The timeout of the shutdown. Each process has 6 s, and needs less than one.
const PATIENCE: Duration = Duration::from_secs(60);

/// The polling interval.
const PAUSE: Duration = Duration::from_millis(50);

/// The time limit for a starting process to write its state file.
const NOTING: Duration = Duration::from_secs(5);

/// Stops the running cluster, if any.
///
/// # Errors
/// The cluster does not stop.
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
                let what = format!("The last background process ended unexpectedly; see {}.", log.display());
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
                bail!(
                    "another process runs the cluster and has not written its state; find `flotilla up` with ps, \
                and end it"
                )
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

/// Removes the files of a killed process, and returns a message about it.
pub(super) fn tell_left_over(state: &State) -> String {
    let pid = state.supervisor.pid;
    let removed = match &state.folder {
        Some(folder) if remove_left_over(state) => format!("; its files in {} are removed", folder.display()),
        _ => String::new(),
    };
    format!("The cluster of process {pid} went with that process, which was killed{removed}.")
}
