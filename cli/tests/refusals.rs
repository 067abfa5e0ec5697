//! `flotilla up` and `flotilla down` with invalid input or without a cluster: messages and speed.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

fn flotilla(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flotilla"));
    command.args(arguments).current_dir(home);
    command.env("FLOTILLA_STATE_DIR", home.join("state")).env("FLOTILLA_CACHE_DIR", home.join("cache"));
    command
}

fn run(mut command: Command) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = command.output().expect("flotilla runs");
    (status.code(), String::from_utf8(stderr).expect("text"))
}

#[test]
fn a_wrong_configuration_is_refused_with_its_place_before_anything_is_built() {
    let home = tempfile::tempdir().expect("a folder");
    let text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofilez: []\n";
    fs::write(home.path().join("scheduler.yaml"), text).expect("writable");
    for detach in [&["up", "--config", "scheduler.yaml"][..], &["up", "--detach", "--config", "scheduler.yaml"]] {
        let (code, words) = run(flotilla(home.path(), detach));
        assert_eq!(code, Some(2), "{words}");
        assert!(words.starts_with("scheduler.yaml:3:1: profilez: found an unknown field"), "{words}");
        assert!(!home.path().join("cache").exists() && !home.path().join("state").exists());
    }
}

#[test]
fn without_go_it_says_what_to_install() {
    let home = tempfile::tempdir().expect("a folder");
    for words in [&["up"][..], &["up", "--detach"]] {
        let mut command = flotilla(home.path(), words);
        command.env("PATH", "");
        let (code, words) = run(command);
        assert_eq!(code, Some(1), "{words}");
        assert!(words.starts_with("flotilla: `go` is not on the PATH"), "{words}");
        assert!(words.contains("Go 1.") && words.contains("https://go.dev/dl"), "{words}");
        assert!(!home.path().join("state").exists(), "nothing is up");
    }
}

#[test]
fn flags_that_make_no_sense_are_refused() {
    let home = tempfile::tempdir().expect("a folder");
    for words in [
        &["up", "--nodes=0"][..],
        &["up", "--workers=0"],
        &["up", "--scheduler-name="],
        &["up", "--config=x.yaml", "--scheduler-name=x"],
        &["down", "now"],
    ] {
        let (code, said) = run(flotilla(home.path(), words));
        assert_eq!(code, Some(2), "{words:?}: {said}");
    }
}

#[test]
fn where_nothing_is_up_down_says_so_and_is_content() {
    let home = tempfile::tempdir().expect("a folder");
    let (code, words) = run(flotilla(home.path(), &["down"]));
    assert_eq!((code, &*words), (Some(0), "No cluster is up.\n"));
    assert!(!home.path().join("state").exists());
}

#[test]
fn the_programs_that_it_starts_answer_for_themselves() {
    let home = tempfile::tempdir().expect("a folder");
    for (program, flag) in [("coordinator", "--leader-elect-lease-duration"), ("worker", "--listen")] {
        let output = flotilla(home.path(), &[program, "--help"]).output().expect("flotilla runs");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(text.contains(&format!("Usage: flotilla-{program}")) && text.contains(flag), "{text}");
        let both = ["--insecure-worker-transport", "--worker-tls-dir=tls"];
        let (code, words) = run(flotilla(home.path(), &[&[program][..], &both].concat()));
        assert_eq!(code, Some(2), "{words}");
        assert!(both.iter().all(|flag| words.contains(flag.split('=').next().unwrap_or_default())), "{words}");
    }
}
