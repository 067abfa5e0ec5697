//! Processes that end with this process, and their logs.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use flotilla_go_programs::Reaper;
use tokio::time::{Instant, sleep};

const STOP_PAUSE: Duration = Duration::from_millis(20);

/// Processes in one separate process group that end together. The terminal's interrupt does not reach them; the reaper ends them when this
/// process ends. Output is in `<logs>/<name>.log`.
#[derive(Debug)]
pub struct ProcessGroup {
    reaper: Reaper,
    members: Mutex<BTreeMap<String, Child>>,
    logs: PathBuf,
}

impl ProcessGroup {
    /// An empty group with the log folder `logs`.
    pub fn new(logs: PathBuf) -> anyhow::Result<Self> {
        fs::create_dir_all(&logs).with_context(|| format!("cannot create the log folder {}", logs.display()))?;
        Ok(Self { reaper: Reaper::start()?, members: Mutex::default(), logs })
    }

    /// Starts `command` as the member `name` and returns its process id. The name of an ended process can be reused; its log is appended
    /// to.
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
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(self.reaper.group())
            .spawn()
            .with_context(|| format!("cannot start {name} as {}", command.get_program().display()))?;
        let id = child.id();
        members.insert(name.to_owned(), child);
        Ok(id)
    }

    /// Sends a signal named as in `kill -s`: `TERM`, `KILL`, `STOP`, `CONT`.
    pub fn signal(&self, name: &str, signal: &str) -> anyhow::Result<()> {
        let mut members = self.members();
        let child = member(&mut members, name)?;
        // The process id of a reaped process may belong to another process.
        ensure!(child.try_wait()?.is_none(), "{name} has already ended, SIG{signal} cannot be sent to it");
        let status = Command::new("/bin/sh")
            .args(["-c", r#"kill -s "$1" "$2""#, "kill", signal, &child.id().to_string()])
            .status()
            .context("cannot run /bin/sh to send a signal")?;
        ensure!(status.success(), "cannot send SIG{signal} to {name}: {status}");
        Ok(())
    }

    /// Kills a member and waits for its end.
    pub fn kill(&self, name: &str) -> anyhow::Result<()> {
        let mut members = self.members();
        let child = member(&mut members, name)?;
        child.kill().and_then(|()| child.wait()).with_context(|| format!("cannot end {name}"))?;
        Ok(())
    }

    /// Sends SIGTERM, and SIGKILL after `patience`. `true` if the member ended without SIGKILL, or had ended before.
    ///
    /// # Errors
    /// The name is unknown, or the operating system refuses.
    pub async fn stop(&self, name: &str, patience: Duration) -> anyhow::Result<bool> {
        if self.exit_status(name)?.is_some() {
            return Ok(true);
        }
        if let Err(error) = self.signal(name, "TERM") {
            // It may have ended in between.
            return if self.exit_status(name)?.is_some() { Ok(true) } else { Err(error) };
        }
        let deadline = Instant::now() + patience;
        while self.exit_status(name)?.is_none() {
            if Instant::now() >= deadline {
                self.kill(name)?;
                return Ok(false);
            }
            sleep(STOP_PAUSE).await;
        }
        Ok(true)
    }

    /// Exit status of a member; `None` while it runs.
    pub fn exit_status(&self, name: &str) -> anyhow::Result<Option<ExitStatus>> {
        let mut members = self.members();
        member(&mut members, name)?.try_wait().with_context(|| format!("cannot ask for the state of {name}"))
    }

    /// Process id of a member, even after its end.
    pub fn id(&self, name: &str) -> anyhow::Result<u32> {
        let mut members = self.members();
        Ok(member(&mut members, name)?.id())
    }

    /// Names of all members, including ended ones.
    pub fn names(&self) -> Vec<String> {
        self.members().keys().cloned().collect()
    }

    /// Log folder.
    pub fn logs(&self) -> &Path {
        &self.logs
    }

    /// Path of a member's log.
    pub fn log_path(&self, name: &str) -> PathBuf {
        self.logs.join(name).with_extension("log")
    }

    /// Output of a member so far.
    pub fn log(&self, name: &str) -> anyhow::Result<String> {
        read_lossy(&self.log_path(name)).with_context(|| format!("{name} has no log; was it started?"))
    }

    /// The last `lines` lines of a member's log under a heading, for an error message.
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

    /// A panic while the lock was held leaves at most one child unregistered, which the reaper ends anyway.
    fn members(&self) -> MutexGuard<'_, BTreeMap<String, Child>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // First, because the reaper also ends the members' own children.
        self.reaper.reap();
        // Must not panic; a failed step does not prevent the others.
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
