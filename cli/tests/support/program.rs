//! Runs `flotilla` in a folder.

use std::{path::Path, process::Command};

/// Returns the exit code, standard output and standard error.
pub(crate) fn flotilla(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flotilla"));
    let output = command.current_dir(folder).env_remove("RUST_LOG").args(arguments).output().expect("flotilla runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}
