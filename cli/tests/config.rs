//! `flotilla config`, `completion` and `man` with written files or compared outputs; all other cases are in `cases/config.txt`.

#[path = "support/program.rs"]
mod program;

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

use flotilla_configuration::catalogue::PLUGINS;
use program::flotilla;
use serde_json::{Value, json};

const HEADER: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

/// A typical custom scheduler.
const OWN: &str = include_str!("cases/config/own.yaml");

const OLD: &str = include_str!("cases/config/old.yaml");

const TWO: &str = include_str!("cases/config/two.yaml");

/// Runs `flotilla` in a folder with `files`, without standard input.
fn among(files: &[(&str, &str)], arguments: &[&str]) -> (Option<i32>, String, String) {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        fs::write(directory.path().join(name), text).expect("a file");
    }
    flotilla(directory.path(), arguments)
}

fn said(code: i32, stdout: &str, stderr: &str) -> (Option<i32>, String, String) {
    (Some(code), stdout.to_owned(), stderr.to_owned())
}

/// A configuration that kube-scheduler accepts and this version cannot run.
fn lacking() -> String {
    let gated = PLUGINS.iter().find(|plugin| plugin.gate.is_some());
    let name = gated.expect("a plugin behind a gate that is off").name;
    format!("{HEADER}profiles:\n- plugins: {{multiPoint: {{enabled: [{{name: {name}}}]}}}}\n")
}

#[test]
fn what_this_version_lacks_is_no_mistake_of_the_file() {
    let bad = format!("{}parallelism: 0\n", lacking());
    let (code, stdout, stderr) = among(&[("a.yaml", &bad)], &["config", "check", "a.yaml"]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    let (invalid, lacked) = stderr
        .split_once("a.yaml: kube-scheduler would accept this; this version of Flotilla lacks it:\n")
        .expect("both kinds of errors");
    assert!(invalid.starts_with("a.yaml:5:14: parallelism: found 0; "), "{invalid}");
    assert!(lacked.starts_with("a.yaml:4:43: profiles[0].plugins.multiPoint.enabled[0].name: "), "{lacked}");
    assert!(lacked.ends_with("the file cannot be used: 1 error, and 1 thing not implemented\n"), "{lacked}");

    let (code, _, stderr) = among(&[("a.yaml", &lacking())], &["config", "check", "a.yaml"]);
    assert_eq!(code, Some(1));
    assert!(stderr.ends_with("the file cannot be used: 1 thing not implemented\n"), "{stderr}");
}

#[test]
fn a_check_for_programs_is_one_object_with_every_file() {
    let files = [("a.yaml", TWO), ("b.yaml", &lacking()), ("c.yaml", "kind: [\n")];
    let arguments = ["config", "check", "a.yaml", "b.yaml", "c.yaml", "none.yaml", "-o", "json"];
    let (code, stdout, stderr) = among(&files, &arguments);
    assert_eq!((code, stderr.as_str()), (Some(1), ""));
    let report: Value = serde_json::from_str(&stdout).expect("JSON");
    let files = report["files"].as_array().expect("a list");
    let expected = json!({
        "file": "a.yaml", "valid": true, "runnable": true, "errors": [], "warnings": [],
        "profiles": ["default-scheduler", "no-scoring"],
    });
    assert_eq!(files[0], expected);
    assert_eq!((&files[1]["valid"], &files[1]["runnable"]), (&json!(true), &json!(false)));
    let error = &files[1]["errors"][0];
    assert_eq!((&error["cause"], &error["line"], &error["column"]), (&json!("notImplemented"), &json!(4), &json!(43)));
    assert_eq!(error["path"], "profiles[0].plugins.multiPoint.enabled[0].name");
    for field in ["found", "expected", "message"] {
        assert!(error[field].as_str().is_some_and(|text| !text.is_empty()), "{field} of {error}");
    }
    assert_eq!((&files[2]["valid"], &files[2]["errors"][0]["cause"]), (&json!(false), &json!("invalid")));
    let unreadable = &files[3]["errors"][0];
    assert_eq!((&unreadable["cause"], &unreadable["line"]), (&json!("unreadable"), &Value::Null));
    assert_eq!(unreadable["message"], "none.yaml: cannot be read: No such file or directory (os error 2)");
}

#[test]
fn what_is_shown_is_a_configuration_of_the_same_effect() {
    let (code, yaml, stderr) = among(&[("a.yaml", TWO)], &["config", "show", "a.yaml", "-o", "yaml"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let (_, text, _) = among(&[("a.yaml", TWO)], &["config", "show", "a.yaml", "-o", "json"]);
    let json: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(serde_yaml::from_str::<Value>(&yaml).expect("YAML"), json);
    let files = [("a.yaml", TWO), ("b.yaml", yaml.as_str())];
    let (code, stdout, _) = among(&files, &["config", "diff", "a.yaml", "b.yaml"]);
    assert_eq!((code, stdout.as_str()), (Some(0), "a.yaml and b.yaml differ in form and have the same effect\n"));
}

#[test]
fn a_migration_is_written_where_that_is_asked_for() {
    let expected = OLD.replace("v1beta2", "v1").replace("healthzBindAddress: 0.0.0.0:0 # nobody asks", "# nobody asks");
    let told = "\
a.yaml:2: apiVersion: kubescheduler.config.k8s.io/v1beta2 is now kubescheduler.config.k8s.io/v1
a.yaml:4: healthzBindAddress: removed, v1 has no such field; /healthz is served on the port of --secure-port
";
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    fs::write(path("a.yaml"), OLD).expect("a file");
    let migrate = |arguments: &[&str]| flotilla(directory.path(), &[&["config", "migrate"], arguments].concat());
    assert_eq!(migrate(&["a.yaml", "-o", "b.yaml"]), said(0, "", told));
    assert_eq!(fs::read_to_string(path("a.yaml")).expect("a file"), OLD);
    assert_eq!(fs::read_to_string(path("b.yaml")).expect("a file"), expected);
    assert_eq!(migrate(&["a.yaml", "--in-place"]), said(0, "", told));
    assert_eq!(fs::read_to_string(path("a.yaml")).expect("a file"), expected);
    let nothing = "a.yaml: already v1, nothing changed\n";
    assert_eq!(migrate(&["a.yaml", "--in-place"]), said(0, "", nothing));
    assert_eq!(migrate(&["a.yaml"]), said(0, &expected, nothing));
    let (code, stdout, stderr) = migrate(&["a.yaml", "-o", "none/b.yaml"]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(
        stderr.ends_with("flotilla: cannot write none/b.yaml: No such file or directory (os error 2)\n"),
        "{stderr}"
    );
}

#[test]
fn what_cannot_be_migrated_is_told_and_nothing_is_written() {
    let old = OLD.replace("v1beta2", "v1beta1").replace("ImageLocality", "NodeLabel");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.yaml");
    fs::write(&path, &old).expect("a file");
    let (code, stdout, stderr) = flotilla(directory.path(), &["config", "migrate", "a.yaml", "--in-place"]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.starts_with("a.yaml:9:"), "{stderr}");
    assert!(stderr.ends_with("not migrated, and nothing written: 1 error\n"), "{stderr}");
    assert_eq!(fs::read_to_string(path).expect("a file"), old);
}

#[test]
fn a_reader_that_closes_the_pipe_is_no_error() {
    let commands: &[&[&str]] =
        &[&["config", "show"], &["config", "show", "-o", "json"], &["completion", "bash"], &["config", "check", "-"]];
    for arguments in commands {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flotilla"));
        command.args(*arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("flotilla runs");
        drop(child.stdout.take());
        _ = child.stdin.take().expect("an input").write_all(OWN.as_bytes());
        let output = child.wait_with_output().expect("flotilla ends");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), stderr.as_ref()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn every_shell_has_a_completion_that_knows_the_commands() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let (code, stdout, stderr) = among(&[], &["completion", shell]);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{shell}");
        for word in ["simulate", "config", "migrate", "in-place", "completion", "man"] {
            assert!(stdout.contains(word), "{word} for {shell}");
        }
    }
    let (code, stdout, _) = among(&[], &["completion", "--help"]);
    assert_eq!(code, Some(0));
    for shell in ["Bash", "Zsh", "Fish", "PowerShell", "Elvish"] {
        assert!(stdout.contains(&format!("# {shell}, in ")), "{shell} in {stdout}");
    }
}

#[test]
fn every_command_has_a_manual_page_with_its_exit_codes() {
    let directory = tempfile::tempdir().expect("a directory");
    assert_eq!(flotilla(directory.path(), &["man", "deep/man1"]), said(0, "", ""));
    let page = |name: &str| fs::read_to_string(directory.path().join("deep/man1").join(name)).expect(name);
    for name in ["simulate", "config-check", "config-show", "config-diff", "config-migrate", "completion", "man"] {
        assert!(page(&format!("flotilla-{name}.1")).contains("Exit codes:"), "{name}");
    }
    for name in ["flotilla.1", "flotilla-config.1", "flotilla-coordinator.1"] {
        assert!(page(name).contains(".SH NAME"), "{name}");
    }
    fs::write(directory.path().join("file"), "").expect("a file");
    let (code, _, stderr) = flotilla(directory.path(), &["man", "file"]);
    assert_eq!((code, stderr.as_str()), (Some(1), "flotilla: cannot create file: File exists (os error 17)\n"));
}
