//! Programs that do not outlive the test, and what they print.
//!
//! Knows: processes and their groups. Must not know: what the programs are.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context, bail, ensure};

/// What the reaper runs. Its standard input is a pipe that only we hold: however we end, even by SIGKILL, the pipe
/// closes, `read` returns, and the whole process group dies, the reaper included.
const REAPER: &str = "read -r _; kill -s KILL 0";

/// Programs that live and die together, in one process group of their own.
///
/// They are not in the group of the test runner, so an interrupt from the keyboard does not reach them; the reaper
/// notices that the test process is gone and ends them. Everything a member prints goes to `<logs>/<name>.log`.
#[derive(Debug)]
pub struct ProcessGroup {
    reaper: Child,
    members: Mutex<BTreeMap<String, Child>>,
    logs: PathBuf,
}

impl ProcessGroup {
    /// A group without members, which will log into the folder `logs`.
    pub fn new(logs: PathBuf) -> anyhow::Result<Self> {
        fs::create_dir_all(&logs).with_context(|| format!("cannot create the log folder {}", logs.display()))?;
        let reaper = Command::new("sh")
            .args(["-c", REAPER])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot start `sh`, which ends the other processes when the test does; is it on the PATH?")?;
        Ok(Self { reaper, members: Mutex::default(), logs })
    }

    /// Starts `command` as the member `name` and returns its process id. A name whose process has ended can be used
    /// again; its log is continued.
    pub fn spawn(&self, name: &str, mut command: Command) -> anyhow::Result<u32> {
        let mut members = self.members();
        if let Some(running) = members.get_mut(name) {
            ensure!(running.try_wait()?.is_some(), "{name} still runs; stop it before it is started again");
        }
        let path = self.log_path(name);
        let log = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .with_context(|| format!("cannot open the log {}", path.display()))?;
        let group = i32::try_from(self.reaper.id()).context("the reaper's process id")?;
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(group)
            .spawn()
            .with_context(|| format!("cannot start {name} as {}", command.get_program().display()))?;
        let id = child.id();
        members.insert(name.to_owned(), child);
        Ok(id)
    }

    /// Sends a signal, named as `kill -s` names it: `TERM`, `KILL`, `STOP`, `CONT`.
    pub fn signal(&self, name: &str, signal: &str) -> anyhow::Result<()> {
        let mut members = self.members();
        let child = member(&mut members, name)?;
        // A process that was waited for has given its id back, and the signal might reach a stranger.
        ensure!(child.try_wait()?.is_none(), "{name} has already ended, SIG{signal} cannot be sent to it");
        let status = Command::new("sh")
            .args(["-c", r#"kill -s "$1" "$2""#, "kill", signal, &child.id().to_string()])
            .status()
            .context("cannot run `sh` to send a signal")?;
        ensure!(status.success(), "cannot send SIG{signal} to {name}: {status}");
        Ok(())
    }

    /// Ends a member at once, as a crash would, and waits until it is gone.
    pub fn kill(&self, name: &str) -> anyhow::Result<()> {
        let mut members = self.members();
        let child = member(&mut members, name)?;
        child.kill().and_then(|()| child.wait()).with_context(|| format!("cannot end {name}"))?;
        Ok(())
    }

    /// How a member ended, or `None` while it runs.
    pub fn exit_status(&self, name: &str) -> anyhow::Result<Option<ExitStatus>> {
        let mut members = self.members();
        member(&mut members, name)?.try_wait().with_context(|| format!("cannot ask for the state of {name}"))
    }

    /// The names of all that were ever started here.
    pub fn names(&self) -> Vec<String> {
        self.members().keys().cloned().collect()
    }

    /// Where a member's output goes.
    pub fn log_path(&self, name: &str) -> PathBuf {
        self.logs.join(name).with_extension("log")
    }

    /// All that a member has printed so far.
    pub fn log(&self, name: &str) -> anyhow::Result<String> {
        read_lossy(&self.log_path(name)).with_context(|| format!("{name} has no log; was it started?"))
    }

    /// The last `lines` lines of a member's output under a heading, for an error message.
    pub fn log_tail(&self, name: &str, lines: usize) -> String {
        match self.log(name) {
            Ok(log) => {
                let all: Vec<&str> = log.lines().collect();
                let tail = all[all.len().saturating_sub(lines)..].join("\n");
                format!("--- end of the log of {name} ---\n{tail}")
            }
            Err(error) => format!("--- {error:#} ---"),
        }
    }

    /// A panic while the lock was held left at worst one child unregistered, and the reaper knows it anyway.
    fn members(&self) -> MutexGuard<'_, BTreeMap<String, Child>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // The reaper first: it also reaches what the members have started themselves.
        drop(self.reaper.stdin.take());
        // Nothing here may panic, and there is nobody left to tell; each step is tried whatever the others did.
        let _ = self.reaper.wait();
        for child in self.members().values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn member<'a>(members: &'a mut BTreeMap<String, Child>, name: &str) -> anyhow::Result<&'a mut Child> {
    let known = members.keys().cloned().collect::<Vec<_>>().join(", ");
    match members.get_mut(name) {
        Some(child) => Ok(child),
        None => bail!("no process is called {name}; there are: {known}"),
    }
}

fn read_lossy(path: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}
