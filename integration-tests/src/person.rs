//! A person who types `flotilla up`: an empty home, what is printed, and the processes that belong to it.
//!
//! Knows: the command line of `flotilla`, and `/proc`. Must not know: what a test asks of the cluster.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

use crate::fleet::binary;

/// A person with an empty home.
#[derive(Debug)]
pub struct Person {
    home: TempDir,
}

impl Person {
    /// # Errors
    /// Where no folder can be made.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self { home: tempfile::tempdir()? })
    }

    /// The folder that goes with this person.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Where `flotilla up` keeps what `flotilla down` reads.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.home.path().join("state")
    }

    /// `flotilla`, with these arguments and without anybody's kubeconfig.
    ///
    /// # Errors
    /// Where the program is not built.
    pub fn flotilla(&self, arguments: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new(binary("flotilla")?);
        command.args(arguments).env("FLOTILLA_STATE_DIR", self.state()).env_remove("KUBECONFIG");
        // Where the other tests keep what they have built.
        command.env("FLOTILLA_CACHE_DIR", Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"));
        Ok(command)
    }
}

/// What stands behind a word in what `flotilla up` has printed, up to the next space.
///
/// # Errors
/// Where the word is not there.
pub fn after<'a>(printed: &'a str, word: &str) -> anyhow::Result<&'a str> {
    let (_, rest) = printed.split_once(word).with_context(|| format!("{word} in {printed}"))?;
    Ok(rest.split_whitespace().next().unwrap_or_default())
}

/// The temporary folder that the printed kubeconfig is in.
///
/// # Errors
/// Where no line exports one.
pub fn folder(printed: &str) -> anyhow::Result<PathBuf> {
    let path = Path::new(after(printed, "export KUBECONFIG=")?);
    Ok(path.parent().context("a folder")?.to_owned())
}

/// The processes that run in a folder, also in one that is gone, with their command lines.
///
/// # Errors
/// Where `/proc` cannot be read.
pub fn processes_in(folder: &Path) -> anyhow::Result<Vec<(u32, String)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        let pid = path.file_name().and_then(|name| name.to_str()?.parse().ok());
        let (Some(pid), Ok(current)) = (pid, fs::read_link(path.join("cwd"))) else { continue };
        if current.to_string_lossy().starts_with(&*folder.to_string_lossy()) {
            let line = fs::read(path.join("cmdline")).unwrap_or_default();
            found.push((pid, String::from_utf8_lossy(&line).replace('\0', " ")));
        }
    }
    Ok(found)
}

/// The process of a worker of the cluster in this folder.
///
/// # Errors
/// Where none runs.
pub fn worker_in(folder: &Path) -> anyhow::Result<u32> {
    let all = processes_in(folder)?;
    Ok(all.iter().find(|(_, line)| line.contains(" worker ")).context("no worker runs")?.0)
}

/// Sends a signal to a process.
///
/// # Errors
/// Where there is no such process.
pub fn signal(signal: &str, pid: u32) -> anyhow::Result<()> {
    let status = Command::new("sh").args(["-c", &format!("kill -s {signal} {pid}")]).status()?;
    ensure!(status.success(), "SIG{signal} was not sent to {pid}");
    Ok(())
}
