//! Identifies a process, even after its number is reused.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// A process by number and start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProcessId {
    pub(super) pid: u32,
    /// The start time in clock ticks since boot; `None` if the system does not report it.
    pub(super) start_ticks: Option<u64>,
}

impl ProcessId {
    pub(super) fn own() -> Self {
        Self::of(std::process::id())
    }

    pub(super) fn of(pid: u32) -> Self {
        Self { pid, start_ticks: start_ticks(pid) }
    }

    /// Sends SIGTERM. `false` if the process has ended.
    ///
    /// # Errors
    /// The process belongs to another user.
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

/// The 22nd field of `/proc/<pid>/stat`. The second one is the program name in parentheses, which may contain any character.
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
        // Without a start time the processes cannot be distinguished.
        if let Some(ticks) = own.start_ticks {
            assert!(!ProcessId { start_ticks: Some(ticks + 1), ..own }.terminate().expect("nothing is sent"));
        }
    }
}
