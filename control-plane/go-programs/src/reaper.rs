//! A process group that does not outlive this process, whatever ends it.
//!
//! Knows: process groups and pipes. Must not know: who the members of a group are.

use std::{
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

use anyhow::Context;

/// What the reaper runs. Its standard input is a pipe that only we hold: however we end, even by SIGKILL, the pipe
/// closes, `read` returns, and the whole process group dies, the reaper included.
const SCRIPT: &str = "read -r _; kill -s KILL 0";

/// The leader of a process group, which ends all of it when this is dropped or this process ends.
#[derive(Debug)]
pub struct Reaper {
    child: Child,
    group: i32,
}

impl Reaper {
    /// Starts it, in a group of its own: an interrupt from the keyboard reaches neither it nor the members.
    ///
    /// # Errors
    /// Where there is no `/bin/sh`.
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

    /// The group to start members in.
    #[must_use]
    pub fn group(&self) -> i32 {
        self.group
    }

    /// Ends the group, also what its members have started themselves. A second time nothing happens.
    pub fn reap(&mut self) {
        drop(self.child.stdin.take());
        // The failure cannot be reported, and there is no other way to try.
        let _ = self.child.wait();
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.reap();
    }
}
