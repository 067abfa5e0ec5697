//! The state file of the running cluster, which other `flotilla` commands read.
//!
//! The process that runs the cluster holds a lock, which the operating system releases when the process ends. The state is valid only while
//! the lock is held.

use std::{
    fs::{self, File, TryLockError},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::{process_id::ProcessId, running::Running};

/// Retries of a lock file that another process removes at the same time.
const LOCK_TRIES: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct State {
    /// The process that runs the cluster.
    pub(super) supervisor: ProcessId,
    /// The start time, as text.
    pub(super) since: String,
    /// The temporary directory, once it exists.
    pub(super) folder: Option<PathBuf>,
    /// The cluster, once it is up.
    pub(super) running: Option<Running>,
}

#[derive(Clone, Debug)]
pub(super) struct StateFolder {
    path: PathBuf,
}

impl StateFolder {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// The log of the background process.
    pub(super) fn log(&self) -> PathBuf {
        self.path.join("up.log")
    }

    pub(super) fn create(&self) -> anyhow::Result<()> {
        let why = || format!("cannot create {}; set FLOTILLA_STATE_DIR to another folder", self.path.display());
        fs::create_dir_all(&self.path).with_context(why)
    }

    /// Whether the directory exists; it is removed with the cluster.
    pub(super) fn exists(&self) -> bool {
        self.path.exists()
    }

    /// The state, if it is readable.
    pub(super) fn read(&self) -> Option<State> {
        serde_json::from_slice(&fs::read(self.file()).ok()?).ok()
    }

    /// Acquires the lock; `None` if another process holds it. Also returns and removes the state of a process that ended without cleaning
    /// up.
    pub(super) fn lock(&self) -> anyhow::Result<Option<(Lock, Option<State>)>> {
        self.create()?;
        let path = self.path.join("lock");
        for _ in 0..LOCK_TRIES {
            let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => {
                    return Err(error).with_context(|| format!("cannot lock {}", path.display()));
                }
            }
            // The previous holder removes the file when it ends, and a lock on a removed file excludes no other process.
            if is_same(&file, &path) {
                let lock = Lock { folder: self.clone(), _file: file };
                let left_over = self.read();
                _ = fs::remove_file(self.file());
                return Ok(Some((lock, left_over)));
            }
        }
        anyhow::bail!("{} is removed again and again by others; try once more", path.display())
    }

    fn file(&self) -> PathBuf {
        self.path.join("up.json")
    }
}

/// The lock. Dropping it removes the state.
#[derive(Debug)]
pub(super) struct Lock {
    folder: StateFolder,
    _file: File,
}

impl Lock {
    /// Writes the state atomically.
    pub(super) fn write(&self, state: &State) -> anyhow::Result<()> {
        let (path, partial) = (self.folder.file(), self.folder.path.join("up.json.partial"));
        let text = serde_json::to_vec_pretty(state)?;
        fs::write(&partial, text)
            .and_then(|()| fs::rename(&partial, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Removes the log of the background process.
    pub(super) fn remove_log(&self) {
        _ = fs::remove_file(self.folder.log());
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The lock file is last, so that no other process finds files about to be removed. Failures cannot be reported here.
        for name in ["up.json.partial", "up.json", "lock"] {
            _ = fs::remove_file(self.folder.path.join(name));
        }
        // Only if it is empty.
        _ = fs::remove_dir(&self.folder.path);
    }
}

fn is_same(file: &File, path: &Path) -> bool {
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let (held, there) = (file.metadata().map(identity), fs::metadata(path).map(identity));
    matches!((held, there), (Ok(held), Ok(there)) if held == there)
}

/// Removes the temporary directory of a killed supervisor; its child processes have ended with it. `true` if the directory existed.
pub(super) fn remove_left_over(state: &State) -> bool {
    let Some(folder) = &state.folder else { return false };
    // The file is not trusted: only a directory that looks like ours is removed.
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("flotilla-") && folder.join("pki").is_dir() && fs::remove_dir_all(folder).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(folder: Option<&Path>) -> State {
        State {
            supervisor: ProcessId::own(),
            since: "2026-07-01 12:00".into(),
            folder: folder.map(Path::to_owned),
            running: None,
        }
    }

    #[test]
    fn only_one_has_the_lock_and_nothing_is_left_when_it_ends() {
        let outer = tempfile::tempdir().expect("a folder");
        let folder = StateFolder::new(outer.path().join("flotilla"));
        assert!(!folder.exists());
        let (lock, left_over) = folder.lock().expect("writable").expect("free");
        assert_eq!(left_over, None);
        lock.write(&state(None)).expect("writable");
        assert_eq!(folder.read(), Some(state(None)));
        assert!(folder.lock().expect("writable").is_none(), "a second one got it");
        drop(lock);
        assert!(!folder.exists());
    }

    #[test]
    fn a_log_survives_unless_it_is_removed() {
        let outer = tempfile::tempdir().expect("a folder");
        let folder = StateFolder::new(outer.path().join("flotilla"));
        let lock = || folder.lock().expect("writable").expect("free").0;
        let first = lock();
        fs::write(folder.log(), "why").expect("writable");
        drop(first);
        assert!(folder.log().exists() && !folder.path.join("lock").exists());
        let second = lock();
        second.remove_log();
        drop(second);
        assert!(!folder.exists());
    }

    #[test]
    fn what_a_killed_supervisor_leaves_is_found_and_its_folder_removed() {
        let outer = tempfile::tempdir().expect("a folder");
        let folder = StateFolder::new(outer.path().join("state"));
        let data = outer.path().join("flotilla-abc");
        fs::create_dir_all(data.join("pki")).expect("writable");
        folder.create().expect("writable");
        let noted = state(Some(&data));
        fs::write(folder.file(), serde_json::to_vec(&noted).expect("JSON")).expect("writable");
        let (_lock, left_over) = folder.lock().expect("writable").expect("free");
        assert_eq!(left_over.as_ref(), Some(&noted));
        assert_eq!(folder.read(), None, "it is noted no more");
        assert!(remove_left_over(&noted) && !data.exists());
        assert!(!remove_left_over(&noted), "there is nothing any more");
    }

    #[test]
    fn a_folder_that_does_not_look_like_ours_is_left_alone() {
        let outer = tempfile::tempdir().expect("a folder");
        let other = outer.path().join("home");
        fs::create_dir_all(other.join("pki")).expect("writable");
        assert!(!remove_left_over(&state(Some(&other))) && other.exists());
    }

    #[test]
    fn a_file_that_makes_no_sense_counts_as_none() {
        let outer = tempfile::tempdir().expect("a folder");
        let folder = StateFolder::new(outer.path().to_owned());
        fs::write(folder.file(), "{").expect("writable");
        assert_eq!(folder.read(), None);
        let (_lock, left_over) = folder.lock().expect("writable").expect("free");
        assert_eq!(left_over, None);
    }
}
