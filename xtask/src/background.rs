//! Builds at low priority in another process of `cargo xtask`, in parallel with the steps.

use std::{
    env,
    fs::{self, File},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use flotilla_test_programs::Reaper;

use crate::progress::Ticker;

const PAUSE: Duration = Duration::from_millis(200);

const TAIL_LINES: usize = 20;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Build {
    pub(crate) what: &'static str,
    /// Subcommand of `cargo xtask`, and its arguments.
    pub(crate) task: &'static [&'static str],
    niceness: u8,
}

pub(crate) const GO_PROGRAMS: Build =
    Build { what: "the Go programs", task: &["go-programs", "--part", "common"], niceness: 10 };

/// Required by the last integration tests. Its niceness is the highest because integration tests with deadlines run in parallel.
pub(crate) const LAST_PROGRAMS: Build =
    Build { what: "the programs of the last tests", task: &["last-programs"], niceness: 19 };

#[derive(Debug)]
pub(crate) struct Background {
    build: Build,
    child: Child,
    log: PathBuf,
    begun: Instant,
    _reaper: Reaper,
}

impl Background {
    /// Starts a build with its log in `folder`.
    pub(crate) fn start(build: Build, folder: &Path) -> Result<Self> {
        let log = folder.join(format!("{}.log", build.task.first().unwrap_or(&"build")));
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let reaper = Reaper::start()?;
        let child = Command::new("nice")
            .args(["-n", &build.niceness.to_string()])
            .arg(env::current_exe().context("cannot find the program of xtask")?)
            .args(build.task)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .process_group(reaper.group())
            .spawn()
            .context("cannot start `nice`, which runs builds at low priority; is it installed?")?;
        eprintln!("xtask: building {} in the background; log: {}", build.what, log.display());
        Ok(Self { build, child, log, begun: Instant::now(), _reaper: reaper })
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(crate) fn has_ended(&mut self) -> Result<bool> {
        let status =
            self.child.try_wait().with_context(|| format!("cannot wait for the build of {}", self.build.what))?;
        status.map_or(Ok(false), |status| self.outcome(status).map(|()| true))
    }

    pub(crate) fn wait(&mut self) -> Result<()> {
        let (log, what) = (self.log.clone(), self.build.what);
        let ticker = Ticker::silent(move || format!("{what}: {}", last_line(&log)));
        while !self.has_ended()? {
            thread::sleep(PAUSE);
        }
        drop(ticker);
        Ok(())
    }

    fn outcome(&self, status: ExitStatus) -> Result<()> {
        if status.success() {
            return Ok(());
        }
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let Build { what, task, .. } = self.build;
        bail!(
            "building {what} failed ({status}); the end of {}:\n{}\nbuild them alone with: cargo xtask {}",
            self.log.display(),
            tail(&text, TAIL_LINES),
            task.join(" ")
        )
    }
}

fn last_line(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().last().unwrap_or("starting").trim_start_matches("go: ").to_owned()
}

fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_is_its_last_lines_or_all_of_it() {
        assert_eq!(tail("a\nb\nc\n", 2), "b\nc");
        assert_eq!(tail("a\n", 2), "a");
        assert_eq!(tail("", 2), "");
    }
}
