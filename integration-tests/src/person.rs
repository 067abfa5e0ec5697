//! A user of `flotilla up` with an empty home directory.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

use crate::fleet::binary;

/// A user with an empty home directory.
#[derive(Debug)]
pub struct Person {
    home: TempDir,
}

impl Person {
    /// # Errors
    /// The folder cannot be created.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self { home: tempfile::tempdir()? })
    }

    /// The temporary home directory.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Folder of the state that `flotilla up` keeps for `flotilla down`.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.home.path().join("state")
    }

    /// The command `flotilla` without the real user's kubeconfig.
    ///
    /// # Errors
    /// The program is not built.
    pub fn flotilla(&self, arguments: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new(binary("flotilla")?);
        command.args(arguments).env("FLOTILLA_STATE_DIR", self.state()).env_remove("KUBECONFIG");
        // Cache of the other tests.
        command.env("FLOTILLA_CACHE_DIR", Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"));
        Ok(command)
    }
}

/// Text after `word` in the output of `flotilla up`, up to the next space.
///
/// # Errors
/// `word` is missing.
pub fn after<'a>(printed: &'a str, word: &str) -> anyhow::Result<&'a str> {
    let (_, rest) = printed.split_once(word).with_context(|| format!("{word} in {printed}"))?;
    Ok(rest.split_whitespace().next().unwrap_or_default())
}

/// Temporary folder of the printed kubeconfig.
///
/// # Errors
/// No line exports one.
pub fn folder(printed: &str) -> anyhow::Result<PathBuf> {
    let path = Path::new(after(printed, "export KUBECONFIG=")?);
    Ok(path.parent().context("a folder")?.to_owned())
}

/// Processes with this working directory, even a deleted one, with their command lines.
///
/// # Errors
/// `/proc` is not readable.
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

/// Process ID of a worker in this folder.
///
/// # Errors
/// No worker runs.
pub fn worker_in(folder: &Path) -> anyhow::Result<u32> {
    let all = processes_in(folder)?;
    Ok(all.iter().find(|(_, line)| line.contains(" worker ")).context("no worker runs")?.0)
}

/// Sends a signal to a process.
///
/// # Errors
/// The process does not exist.
pub fn signal(signal: &str, pid: u32) -> anyhow::Result<()> {
    let status = Command::new("sh").args(["-c", &format!("kill -s {signal} {pid}")]).status()?;
    ensure!(status.success(), "SIG{signal} was not sent to {pid}");
    Ok(())
}
