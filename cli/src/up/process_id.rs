//! A process that can be told from a later one of the same number.
//!
//! Knows: the process table. Must not know: whose process it is.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// A process, by its number and by when it was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProcessId {
    /// Its number.
    pub(super) pid: u32,
    /// When it was started, in clock ticks since the system was; `None` where the system does not say.
    pub(super) start_ticks: Option<u64>,
}

impl ProcessId {
    /// This process.
    pub(super) fn own() -> Self {
        Self::of(std::process::id())
    }

    /// The process that has this number now.
    pub(super) fn of(pid: u32) -> Self {
        Self { pid, start_ticks: start_ticks(pid) }
    }

    /// Asks it to end. `false` where it has ended already.
    ///
    /// # Errors
    /// Where it belongs to another user.
    pub(super) fn terminate(self) -> std::io::Result<bool> {
        if self.start_ticks.is_some() && start_ticks(self.pid) != self.start_ticks {
            return Ok(false);
        }
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return Ok(false) };
        match kill_process(pid, Signal::TERM) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// The 22nd field of `/proc/<pid>/stat`. The second is the name of the program in brackets, which may hold anything.
fn start_ticks(pid: u32) -> Option<u64> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = line.rsplit_once(')')?;
    after_name.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_is_ended_and_known_to_have_ended() {
        let mut child = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().expect("sleep");
        let id = ProcessId::of(child.id());
        assert!(id.terminate().expect("our own child"));
        child.wait().expect("an end");
        assert!(!id.terminate().expect("no such process"));
    }

    #[test]
    fn a_later_process_of_the_same_number_is_left_alone() {
        let own = ProcessId::own();
        // Where the system does not tell, there is nothing to tell them apart by.
        if let Some(ticks) = own.start_ticks {
            assert!(!ProcessId { start_ticks: Some(ticks + 1), ..own }.terminate().expect("nothing is sent"));
        }
    }
}
