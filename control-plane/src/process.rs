//! Programs that do not outlive this process, and what they print.
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
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use flotilla_go_programs::Reaper;
use tokio::time::{Instant, sleep};

/// Between two looks at a process that was asked to end.
const STOP_PAUSE: Duration = Duration::from_millis(20);

/// Programs that live and die together, in one process group of their own.
///
/// They are not in our group, so an interrupt from the keyboard does not reach them; the reaper notices that we are gone
/// and ends them. Everything a member prints goes to `<logs>/<name>.log`.
#[derive(Debug)]
pub struct ProcessGroup {
    reaper: Reaper,
    members: Mutex<BTreeMap<String, Child>>,
    logs: PathBuf,
}

impl ProcessGroup {
    /// A group without members, which will log into the folder `logs`.
    pub fn new(logs: PathBuf) -> anyhow::Result<Self> {
        fs::create_dir_all(&logs).with_context(|| format!("cannot create the log folder {}", logs.display()))?;
        Ok(Self { reaper: Reaper::start()?, members: Mutex::default(), logs })
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

    /// Sends a signal, named as `kill -s` names it: `TERM`, `KILL`, `STOP`, `CONT`.
    pub fn signal(&self, name: &str, signal: &str) -> anyhow::Result<()> {
        let mut members = self.members();
        let child = member(&mut members, name)?;
        // A process that was waited for has given its id back, and the signal might reach a stranger.
        ensure!(child.try_wait()?.is_none(), "{name} has already ended, SIG{signal} cannot be sent to it");
        let status = Command::new("/bin/sh")
            .args(["-c", r#"kill -s "$1" "$2""#, "kill", signal, &child.id().to_string()])
            .status()
            .context("cannot run /bin/sh to send a signal")?;
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

    /// Asks a member to end by SIGTERM, and ends it by force where it has not after `patience`. `true` where it ended by
    /// itself, also before.
    ///
    /// # Errors
    /// Where it is unknown, or the operating system refuses.
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

    /// How a member ended, or `None` while it runs.
    pub fn exit_status(&self, name: &str) -> anyhow::Result<Option<ExitStatus>> {
        let mut members = self.members();
        member(&mut members, name)?.try_wait().with_context(|| format!("cannot ask for the state of {name}"))
    }

    /// The process id of a member, also after it has ended.
    pub fn id(&self, name: &str) -> anyhow::Result<u32> {
        let mut members = self.members();
        Ok(member(&mut members, name)?.id())
    }

    /// The names of all that were ever started here.
    pub fn names(&self) -> Vec<String> {
        self.members().keys().cloned().collect()
    }

    /// The folder of all logs.
    pub fn logs(&self) -> &Path {
        &self.logs
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
        self.reaper.reap();
        // Nothing here may panic, and failures cannot be reported; each step is tried, also where others failed.
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
