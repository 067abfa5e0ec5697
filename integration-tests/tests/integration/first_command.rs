//! The README's first command: a build from source without features, and a scheduling run.

use std::{
    path::{Path, PathBuf},
    process::Output,
};

use flotilla_test_programs::cargo;

const RUN: &str = "cargo run --release -p flotilla -- ";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs a line of the README, or other arguments.
fn typed(words: &str) -> Output {
    let line = format!("{RUN}{words}");
    cargo().args(line.split(' ').skip(1)).output().expect("cargo can be started")
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
    for words in ["status", "replay --workers 2", "up --nodes 3", "explain pod web-1 -n shop", "coordinator --help"] {
        let output = typed(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words}: {said}");
        let command = words.split(" -").next().unwrap_or_default();
        assert!(said.contains(&format!("`flotilla {command}` is not in this build")), "{said}");
        assert!(said.contains("cargo build --release -p flotilla --features cluster"), "{said}");
    }
}
