//! `flotilla` as a kubectl plugin.

use std::{fs, os::unix::fs::symlink, path::PathBuf, process::Command};

/// The program under its name as a kubectl plugin.
fn plugin() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("plugin");
    fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("kubectl-flotilla");
    if !path.exists() {
        symlink(env!("CARGO_BIN_EXE_flotilla"), &path).expect("a link");
    }
    path
}

#[test]
fn help_and_messages_name_the_command_that_was_typed() {
    let of = |words: &[&str]| Command::new(plugin()).args(words).output().expect("it starts");
    let help = of(&["config", "check", "--help"]);
    let said = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(help.status.success() && said.contains("Usage: kubectl flotilla config check "), "{said}");
    let wrong = of(&["simulate", "--nonsense"]);
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(wrong.status.code() == Some(2) && said.contains("Usage: kubectl flotilla simulate "), "{said}");
}

#[test]
fn under_its_own_name_it_says_its_own_name() {
    let help = Command::new(env!("CARGO_BIN_EXE_flotilla")).args(["simulate", "--help"]).output().expect("it starts");
    let said = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(said.contains("Usage: flotilla simulate "), "{said}");
}
