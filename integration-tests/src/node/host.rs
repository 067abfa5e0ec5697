//! Requirements of a host for a node.

use std::{env, fs};

/// Required programs. Debian and Ubuntu package them in runc, util-linux, mount and iproute2.
const PROGRAMS: [&str; 5] = ["runc", "unshare", "mount", "ip", "sh"];

/// The missing requirement; `None` if all known ones are met.
#[must_use]
pub fn lacking() -> Option<String> {
    if !cfg!(target_os = "linux") {
        return Some("a node runs on Linux".to_owned());
    }
    if !rustix::process::geteuid().is_root() {
        return Some("only root may run containers; run it as root".to_owned());
    }
    if let Some(program) = PROGRAMS.into_iter().find(|program| !is_there(program)) {
        return Some(format!("{program} is not on the PATH; install it (apt install runc util-linux mount iproute2)"));
    }
    if !has_cgroups() {
        return Some("no cgroups are mounted below /sys/fs/cgroup".to_owned());
    }
    let mut trial = std::process::Command::new("unshare");
    let trial =
        trial.args(["--mount", "--net", "--pid", "--fork", "--mount-proc", "ip", "link", "add", "type", "bridge"]);
    match trial.output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!(
            "no namespaces with a bridge can be made here: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
        Err(error) => Some(format!("unshare cannot be run: {error}")),
    }
}

fn is_there(program: &str) -> bool {
    env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

/// Accepts cgroups of versions 1 and 2.
fn has_cgroups() -> bool {
    fs::exists("/sys/fs/cgroup/memory").unwrap_or(false)
        || fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").is_ok_and(|names| names.contains("memory"))
}
