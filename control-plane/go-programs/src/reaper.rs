//! Process group that ends with this process.

use std::{
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

use anyhow::Context;

/// The reaper's script. Only this process holds the pipe of its standard input. At any end of this process, even by SIGKILL, the pipe
/// closes, `read` returns, and the whole group is killed.
const SCRIPT: &str = "read -r _; kill -s KILL 0";

/// Leader of a process group; drop and the end of this process end the group.
#[derive(Debug)]
pub struct Reaper {
    child: Child,
    group: i32,
}

impl Reaper {
    /// Starts the reaper in a separate group, which an interrupt from the terminal does not reach.
    ///
    /// # Errors
    /// `/bin/sh` is missing.
    pub fn start() -> anyhow::Result<Self> {
        let child = Command::new("/bin/sh")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot start /bin/sh, which ends the other processes when this one ends; is it there?")?;
        let group = i32::try_from(child.id()).context("the reaper's process id")?;
        Ok(Self { child, group })
    }

    /// Group id for members.
    #[must_use]
    pub fn group(&self) -> i32 {
        self.group
    }

    /// Ends the group with all descendants. Idempotent.
    pub fn reap(&mut self) {
        drop(self.child.stdin.take());
        // Nothing can be done about a failure.
        let _ = self.child.wait();
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.reap();
    }
}
