//! The README's first command, as it is typed: a build from source without features, and a placement.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Before the words of `flotilla`.
const RUN: &str = "cargo run --release -p flotilla -- ";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs a line of the README; with other words where these are given.
fn typed(words: &str) -> Output {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let line = format!("{RUN}{words}");
    let output = Command::new(cargo).args(line.split(' ').skip(1)).current_dir(root()).output();
    output.expect("cargo can be started")
}

#[test]
fn the_first_command_of_the_readme_builds_and_places_pods() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("a README");
    let words = readme.lines().find_map(|line| line.strip_prefix(RUN)).expect("the README begins with a command");
    let output = typed(words);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains(": 20 placed, 6 pending"), "{words}: {output:?}");
}

#[test]
fn commands_that_are_not_in_that_build_say_which_build_has_them() {
    for words in ["status", "up --nodes 3", "explain pod web-1 -n shop", "coordinator --help"] {
        let output = typed(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words}: {said}");
        let command = words.split(" -").next().unwrap_or_default();
        assert!(said.contains(&format!("`flotilla {command}` is not in this build")), "{said}");
        assert!(said.contains("cargo build --release -p flotilla --features cluster"), "{said}");
    }
}
