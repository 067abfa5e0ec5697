//! `flotilla trace`: from the JSON of Jaeger's API to text and SVG.
//!
//! The expected output is in `trace/`; `FLOTILLA_RECORD=1` rewrites it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trace")
}

fn flotilla(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flotilla"));
    command.current_dir(folder()).env_remove("FLOTILLA_JAEGER").env_remove("KUBECONFIG");
    command.arg("trace").args(arguments).output().expect("flotilla runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn compare(name: &str, found: &str) {
    let path = folder().join(name);
    if std::env::var_os("FLOTILLA_RECORD").is_some_and(|value| value == "1") {
        fs::write(&path, found).expect("writable");
    }
    assert_eq!(found, fs::read_to_string(&path).expect("a recorded answer"), "{}", path.display());
}

fn printed(arguments: &[&str]) -> String {
    let output = flotilla(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_saved_trace_is_shown_as_a_waterfall() {
    compare("attempt.txt", &printed(&["-f", "attempt.json"]));
}

#[test]
fn wide_tells_what_is_said_of_each_span_and_process() {
    compare("attempt.wide.txt", &printed(&["-f", "attempt.json", "-o", "wide"]));
}

#[test]
fn a_picture_is_drawn_of_the_same() {
    let place = tempfile::tempdir().expect("a folder");
    let picture = place.path().join("attempt.svg");
    assert_eq!(printed(&["-f", "attempt.json", "--svg", &picture.to_string_lossy()]), "");
    compare("attempt.svg", &fs::read_to_string(&picture).expect("a picture"));
}

#[test]
fn what_is_printed_as_json_is_read_back() {
    let place = tempfile::tempdir().expect("a folder");
    let saved = place.path().join("saved.json");
    fs::write(&saved, printed(&["-f", "attempt.json", "-o", "json"])).expect("writable");
    assert_eq!(printed(&["-f", &saved.to_string_lossy()]), printed(&["-f", "attempt.json"]));
}

#[test]
fn what_is_no_trace_is_refused_with_its_place_and_the_next_step() {
    let place = tempfile::tempdir().expect("a folder");
    for (content, expected) in [
        ("{", "odd.json is no JSON; save a trace with `flotilla trace ... -o json`"),
        ("{}", "odd.json: this is no trace as Jaeger's API gives it"),
        (r#"{"data": []}"#, "odd.json holds no trace"),
        (r#"{"data": [{"traceID": "a"}, {"traceID": "b"}]}"#, "odd.json holds 2 traces (a, b); leave one"),
    ] {
        let path = place.path().join("odd.json");
        fs::write(&path, content).expect("writable");
        let output = flotilla(&["-f", &path.to_string_lossy()]);
        assert_eq!(output.status.code(), Some(2), "{content}");
        assert!(text(&output.stderr).contains(expected), "{content}: {}", text(&output.stderr));
    }
}

#[test]
fn a_trace_that_is_named_has_no_attempts_to_choose_among() {
    let output = flotilla(&["4bf92f3577b34da6a3ce929d0e0e4736", "--attempt=2"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--attempt chooses among the attempts to place a pod"));
}

#[test]
fn a_jaeger_that_does_not_answer_is_named_with_the_next_step() {
    let output = flotilla(&["--uid=u", "--jaeger=http://127.0.0.1:1/"]);
    assert_eq!(output.status.code(), Some(1));
    let words = text(&output.stderr);
    assert!(
        words.contains("Jaeger does not answer at http://127.0.0.1:1; is it up? --jaeger names the URL"),
        "{words}"
    );
}
