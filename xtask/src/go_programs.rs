//! The Go programs that the tests start, built beside everything else.
//!
//! Knows: how they are built in another process, at low priority, and where its words go. Must not know: which programs there
//! are, or how `go` is called.

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
use flotilla_test_programs::{ORACLES, Reaper, all, line, load, oracle, prometheus_operator};

use crate::progress::Ticker;

/// Between two looks at the build.
const PAUSE: Duration = Duration::from_millis(200);

/// How many of the last lines of the log are shown where it failed.
const TAIL_LINES: usize = 20;

/// The oracles and the client of the benchmark, when the control plane is built.
const ORACLES_EXPECTED: Duration = Duration::from_secs(15);

/// Builds all that is missing, here and now.
pub(crate) fn build() -> Result<()> {
    for programs in all()? {
        programs.build(&mut |event| line(&event).into_iter().for_each(|line| eprintln!("go: {line}")))?;
    }
    for name in ORACLES {
        eprintln!("go: building the oracle {name}");
        oracle(name)?;
    }
    eprintln!("go: building the client of the benchmark");
    load()?;
    eprintln!("go: fetching the definitions of Prometheus Operator");
    prometheus_operator().map(drop)
}

/// Whether there is a Go that will do.
pub(crate) fn check() -> Result<()> {
    all()?.first().map_or(Ok(()), |programs| programs.check_go())
}

/// How long the build is expected to take on two cores that do nothing else.
pub(crate) fn expected() -> Duration {
    let missing = all().unwrap_or_default().iter().map(|programs| programs.first_build()).sum::<Duration>();
    missing + ORACLES_EXPECTED
}

/// The build in another process. It ends with this one.
#[derive(Debug)]
pub(crate) struct Background {
    child: Child,
    log: PathBuf,
    begun: Instant,
    _reaper: Reaper,
}

impl Background {
    /// Starts it, with a log in this folder.
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        let log = folder.join("go-programs.log");
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let reaper = Reaper::start()?;
        let child = Command::new("nice")
            .args(["-n", "10"])
            .arg(env::current_exe().context("cannot find the program of xtask")?)
            .arg("go-programs")
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .process_group(reaper.group())
            .spawn()
            .context(
                "cannot start `nice`, which keeps the build of the Go programs in the background; is it installed?",
            )?;
        eprintln!("xtask: the Go programs are built in the background; log: {}", log.display());
        Ok(Self { child, log, begun: Instant::now(), _reaper: reaper })
    }

    /// How long it has been at work.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Whether it has ended.
    ///
    /// # Errors
    /// Where it has failed.
    pub(crate) fn has_ended(&mut self) -> Result<bool> {
        let status = self.child.try_wait().context("cannot ask for the state of the build of the Go programs")?;
        status.map_or(Ok(false), |status| self.outcome(status).map(|()| true))
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// Where it has failed.
    pub(crate) fn wait(&mut self) -> Result<()> {
        let log = self.log.clone();
        let ticker = Ticker::silent(move || format!("the Go programs: {}", last_line(&log)));
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
        bail!(
            "the Go programs do not build ({status}); the end of {}:\n{}\nbuild them alone with: cargo xtask go-programs",
            self.log.display(),
            tail(&text, TAIL_LINES)
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
