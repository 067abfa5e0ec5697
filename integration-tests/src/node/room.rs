//! Separate namespaces for mounts, network and processes of a node, so that nothing remains at the end.

use std::{
    env,
    ffi::OsString,
    fs, io,
    net::Ipv4Addr,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{self, Command},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use flotilla_control_plane::{ProcessGroup, wait_until};

use super::Outfit;

/// Address of the Service `kubernetes`: the first of the API server's range.
pub(super) const SERVICE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

/// Address of the node. A kubelet rejects 127.0.0.0/8.
pub(super) const NODE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 250, 0, 1);

pub(super) const FLOTILLA_ARCHIVE: &str = "flotilla.tar";

pub(super) const PAUSE_ARCHIVE: &str = "pause.tar";

pub(super) const PROGRAMS: &str = "programs";

/// Variable with the room's folder for the inner part of a test.
const FOLDER: &str = "FLOTILLA_ROOM";

/// Prefix of cgroups of rooms; the creator's process ID follows.
const CGROUP: &str = "flotilla-room-";

const PROCESS: &str = "room";

/// Maximum time until the kernel releases cgroups of killed processes.
const CGROUP_PATIENCE: Duration = Duration::from_secs(10);

/// Runs the ignored test `test` of the current program in a room, and returns its output.
///
/// All processes of the room end with this process. The cgroups of a killed process are removed by the next call.
///
/// # Errors
/// The room cannot be created, or the test fails; contains its output.
pub async fn enter(outfit: &Outfit, test: &str, patience: Duration) -> anyhow::Result<String> {
    let _cgroup = Cgroup::new();
    let folder = tempfile::Builder::new()
        .prefix("flotilla-room-")
        .tempdir()
        .context("cannot create a temporary folder; is TMPDIR writable?")?;
    for (name, what) in [
        (FLOTILLA_ARCHIVE, &outfit.images.flotilla),
        (PAUSE_ARCHIVE, &outfit.images.pause),
        (PROGRAMS, &outfit.programs),
    ] {
        symlink(what, folder.path().join(name)).with_context(|| format!("cannot link {name}"))?;
    }
    let processes = ProcessGroup::new(folder.path().join("logs"))?;
    processes.spawn(PROCESS, command(folder.path(), test)?)?;
    let what = format!("{test} to end");
    let ended = wait_until(&what, patience, async || {
        match processes.exit_status(PROCESS).map_err(|error| format!("{error:#}"))? {
            Some(status) => Ok(status),
            None => Err("it runs".to_owned()),
        }
    });
    let status = ended.await.with_context(|| processes.log_tail(PROCESS, 200))?;
    let log = processes.log(PROCESS)?;
    ensure!(status.success(), "{test} failed in its room ({status}):\n{log}");
    Ok(log)
}

/// Folder of the current room.
pub(super) fn folder() -> anyhow::Result<PathBuf> {
    let folder = env::var_os(FOLDER).context("this runs in a room only; run the test that enters it")?;
    Ok(PathBuf::from(folder))
}

fn command(folder: &Path, test: &str) -> anyhow::Result<Command> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("node/room.sh");
    let mut path = OsString::from(folder.join(PROGRAMS));
    path.push(":");
    path.push(env::var_os("PATH").unwrap_or_default());
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh"]).arg(script);
    command.arg(name(process::id())).arg(format!("{SERVICE_ADDRESS} {NODE_ADDRESS}"));
    command.arg(env::current_exe().context("the path of this program")?);
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
    // The control plane's folder is below the room's, so that it is always deleted.
    command.env(FOLDER, folder).env("TMPDIR", folder).env("PATH", path);
    Ok(command)
}

fn name(process: u32) -> String {
    format!("{CGROUP}{process}")
}

/// Cgroup of a room, removed on drop.
#[derive(Debug)]
struct Cgroup;

impl Cgroup {
    fn new() -> Self {
        for (process, path) in cgroups() {
            if !Path::new("/proc").join(process.to_string()).exists() {
                // A cgroup in use remains.
                _ = remove(&path);
            }
        }
        Self
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let deadline = Instant::now() + CGROUP_PATIENCE;
        for (_, path) in cgroups().into_iter().filter(|(process, _)| *process == process::id()) {
            while let Err(error) = remove(&path) {
                if Instant::now() >= deadline {
                    eprintln!("node: cannot remove {}: {error}; the next run tries again", path.display());
                    break;
                }
                sleep(Duration::from_millis(50));
            }
        }
    }
}

fn cgroups() -> Vec<(u32, PathBuf)> {
    let top = PathBuf::from("/sys/fs/cgroup");
    let trees = folders(&top).unwrap_or_default();
    let inside = [top].into_iter().chain(trees).flat_map(|tree| folders(&tree).unwrap_or_default());
    inside.filter_map(|path| Some((path.file_name()?.to_str()?.strip_prefix(CGROUP)?.parse().ok()?, path))).collect()
}

/// Removes a cgroup and its children. Their files cannot be removed, and disappear with them.
fn remove(path: &Path) -> io::Result<()> {
    for inner in folders(path)? {
        remove(&inner)?;
    }
    fs::remove_dir(path)
}

fn folders(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}
