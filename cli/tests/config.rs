//! `flotilla config`, `completion` and `man` as a person runs them: files and flags in, text and an exit code out.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use flotilla_configuration::{catalogue::PLUGINS, features::FeatureGates};
use serde_json::{Value, json};

const HEADER: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

/// A custom scheduler, as tutorials write it.
const OWN: &str = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: my-scheduler
leaderElection:
  leaderElect: false
";

const OLD: &str = "\
# Ours.
apiVersion: kubescheduler.config.k8s.io/v1beta2
kind: KubeSchedulerConfiguration
healthzBindAddress: 0.0.0.0:0 # nobody asks

profiles:
- schedulerName: default-scheduler
  plugins:
    score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality}]}
";

const MANIFEST: &str = "\
apiVersion: v1
kind: ServiceAccount
metadata:
  name: my-scheduler
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: my-scheduler-config
data:
  my-scheduler-config.yaml: |
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    profiles:
      - schedulerName: my-scheduler
    paralelism: 4
";

const TWO: &str = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    score:
      disabled: [{name: NodeResourcesBalancedAllocation}]
      enabled: [{name: ImageLocality, weight: 5}]
- schedulerName: no-scoring
  plugins:
    preScore:
      disabled:
      - name: '*'
    score:
      disabled:
      - name: '*'
";

/// Runs `flotilla` among `files`, with nothing on its standard input.
fn flotilla(files: &[(&str, &str)], arguments: &[&str]) -> (Option<i32>, String, String) {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        fs::write(directory.path().join(name), text).expect("a file");
    }
    run(directory.path(), arguments, "")
}

fn run(directory: &Path, arguments: &[&str], input: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flotilla"));
    command.current_dir(directory).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("flotilla runs");
    // A process that does not read its input may have ended by now.
    _ = child.stdin.take().expect("an input").write_all(input.as_bytes());
    let Output { status, stdout, stderr } = child.wait_with_output().expect("flotilla ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

fn said(code: i32, stdout: &str, stderr: &str) -> (Option<i32>, String, String) {
    (Some(code), stdout.to_owned(), stderr.to_owned())
}

/// Files, and all that `flotilla config check` says of them.
const CHECKED: &[(&str, &str, i32, &str, &str)] = &[
    ("a custom scheduler", OWN, 0, "a.yaml: valid: 1 profile (my-scheduler)\n", ""),
    ("several profiles", TWO, 0, "a.yaml: valid: 2 profiles (default-scheduler, no-scoring)\n", ""),
    (
        "an older version",
        OLD,
        1,
        "",
        "a.yaml:2:13: apiVersion: found \"kubescheduler.config.k8s.io/v1beta2\", which kube-scheduler no longer reads; \
         expected apiVersion: kubescheduler.config.k8s.io/v1\n    apiVersion: kubescheduler.config.k8s.io/v1beta2\n     \
         \x20          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n    hint: v1 has the fields of v1beta2 except healthzBindAddress \
         and metricsBindAddress: `flotilla config migrate FILE` rewrites the file\na.yaml:4:1: healthzBindAddress: found an unknown field; \
         expected apiVersion, kind, parallelism, leaderElection, clientConnection, enableProfiling, enableContentionProfiling, \
         percentageOfNodesToScore, podInitialBackoffSeconds, podMaxBackoffSeconds, profiles, extenders or delayCacheUntilActive\n    \
         healthzBindAddress: 0.0.0.0:0 # nobody asks\n    ^^^^^^^^^^^^^^^^^^\n    hint: the flags --bind-address and --secure-port took \
         its place\nthe file cannot be used: 2 errors\n",
    ),
    (
        "a misspelt group",
        "apiVersion: kubescheduler.config.k8s.oi/v1\nkind: KubeSchedulerConfiguration\n",
        1,
        "",
        "a.yaml:1:13: apiVersion: found \"kubescheduler.config.k8s.oi/v1\", a group that does not exist; expected apiVersion: \
         kubescheduler.config.k8s.io/v1\n    apiVersion: kubescheduler.config.k8s.oi/v1\n                \
         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n    hint: did you mean \"kubescheduler.config.k8s.io/v1\"?\nthe file cannot be \
         used: 1 error\n",
    ),
    (
        "a ConfigMap among other objects, with the lines of the whole file",
        MANIFEST,
        1,
        "",
        "a.yaml:16:5: paralelism: found an unknown field; expected …",
    ),
    (
        "a ConfigMap whose text is in quotes",
        "apiVersion: v1\nkind: ConfigMap\ndata: {a: \"kind: KubeSchedulerConfiguration\"}\n",
        1,
        "",
        "a.yaml:1:13: apiVersion: found \"v1\"; expected apiVersion: kubescheduler.config.k8s.io/v1\n    apiVersion: v1\n \
         \x20              ^^\n    hint: v1 alone …",
    ),
    (
        "two configurations in one manifest",
        "kind: ConfigMap\ndata:\n  a: |\n    kind: KubeSchedulerConfiguration\n  b: |\n    kind: \
         KubeSchedulerConfiguration\n",
        1,
        "",
        "a.yaml: holds configurations at the lines 4, 6; expected one, so give each in a file of its own\nthe file cannot \
         be used: 1 error\n",
    ),
    (
        "a plugin that is not in the tree",
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins:\n    \
         multiPoint: {enabled: [{name: Coscheduling}]}\n",
        1,
        "",
        "a.yaml:5:35: profiles[0].plugins.multiPoint.enabled[0].name: found \"Coscheduling\", which is not a plugin of \
         kube-scheduler; …",
    ),
    (
        "what is odd but usable",
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\npercentageOfNodesToScore: 5\n",
        0,
        "a.yaml: valid: 1 profile (default-scheduler)\n",
        "a.yaml:3:27: warning: percentageOfNodesToScore: 5 is accepted, but Flotilla scores every node that is feasible\n",
    ),
];

#[test]
fn a_check_says_what_is_wrong_or_that_nothing_is() {
    for (what, text, code, stdout, stderr) in CHECKED {
        let found = flotilla(&[("a.yaml", text)], &["config", "check", "a.yaml"]);
        assert_eq!((found.0, found.1.as_str()), (Some(*code), *stdout), "{what}: {}", found.2);
        match stderr.strip_suffix('…') {
            Some(beginning) => assert!(found.2.starts_with(beginning), "{what}: {}", found.2),
            None => assert_eq!(found.2, *stderr, "{what}"),
        }
    }
}

/// A file that kube-scheduler would accept and this version cannot run, whatever this version lacks.
fn lacking() -> String {
    let lacking = PLUGINS.iter().find(|plugin| !plugin.built);
    let name = lacking.expect("a plugin that is not built; once there is none, this test can go").name;
    format!("{HEADER}profiles:\n- plugins: {{multiPoint: {{enabled: [{{name: {name}}}]}}}}\n")
}

#[test]
fn what_this_version_lacks_is_no_mistake_of_the_file() {
    let bad = format!("{}parallelism: 0\n", lacking());
    let (code, stdout, stderr) = flotilla(&[("a.yaml", &bad)], &["config", "check", "a.yaml"]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    let (invalid, lacked) = stderr
        .split_once("a.yaml: kube-scheduler would accept this; this version of Flotilla lacks it:\n")
        .expect("both kinds of errors");
    assert!(invalid.starts_with("a.yaml:5:14: parallelism: found 0; "), "{invalid}");
    assert!(lacked.starts_with("a.yaml:4:43: profiles[0].plugins.multiPoint.enabled[0].name: "), "{lacked}");
    assert!(lacked.ends_with("the file cannot be used: 1 error, and 1 thing not implemented\n"), "{lacked}");

    let (code, _, stderr) = flotilla(&[("a.yaml", &lacking())], &["config", "check", "a.yaml"]);
    assert_eq!(code, Some(1));
    assert!(stderr.ends_with("the file cannot be used: 1 thing not implemented\n"), "{stderr}");
}

#[test]
fn a_check_for_programs_is_one_object_with_every_file() {
    let files = [("a.yaml", TWO), ("b.yaml", &lacking()), ("c.yaml", "kind: [\n")];
    let arguments = ["config", "check", "a.yaml", "b.yaml", "c.yaml", "none.yaml", "-o", "json"];
    let (code, stdout, stderr) = flotilla(&files, &arguments);
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
fn the_standard_input_and_what_cannot_be_read_are_told_by_name() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("image.yaml"), b"a: 1\nb: \xff").expect("a file");
    let check = |file: &str, input: &str| run(directory.path(), &["config", "check", file], input);
    assert_eq!(check("-", OWN), said(0, "stdin: valid: 1 profile (my-scheduler)\n", ""));
    let end = "the file cannot be used: 1 error\n";
    let cases = [
        ("none.yaml", "none.yaml: cannot be read: No such file or directory (os error 2)\n"),
        (".", ".: cannot be read: Is a directory (os error 21)\n"),
        ("image.yaml", "image.yaml:2:4: this is not UTF-8 text; expected YAML or JSON\n"),
    ];
    for (file, expected) in cases {
        assert_eq!(check(file, ""), said(1, "", &format!("{expected}{end}")), "{file}");
        assert_eq!(run(directory.path(), &["config", "show", file], ""), said(1, "", expected), "{file}");
        assert_eq!(run(directory.path(), &["config", "diff", "default", file], ""), said(2, "", expected), "{file}");
        assert_eq!(run(directory.path(), &["config", "migrate", file], ""), said(1, "", expected), "{file}");
    }
}

#[test]
fn what_is_shown_is_a_configuration_of_the_same_effect() {
    let (code, yaml, stderr) = flotilla(&[("a.yaml", TWO)], &["config", "show", "a.yaml", "-o", "yaml"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let (_, text, _) = flotilla(&[("a.yaml", TWO)], &["config", "show", "a.yaml", "-o", "json"]);
    let json: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(serde_yaml::from_str::<Value>(&yaml).expect("YAML"), json);
    let files = [("a.yaml", TWO), ("b.yaml", yaml.as_str())];
    let (code, stdout, _) = flotilla(&files, &["config", "diff", "a.yaml", "b.yaml"]);
    assert_eq!((code, stdout.as_str()), (Some(0), "a.yaml and b.yaml are written differently and come to the same\n"));
}

#[test]
fn a_table_has_the_plugins_in_order_and_marks_what_is_not_as_by_default() {
    let text = TWO.replace(
        "- schedulerName: no-scoring",
        "  pluginConfig:\n  - name: NodeResourcesFit\n    args: \
        {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 3}]}}\n- schedulerName: no-scoring",
    );
    let (code, stdout, _) = flotilla(&[("a.yaml", &text)], &["config", "show", "a.yaml"]);
    assert_eq!(code, Some(0));
    let lines: Vec<String> = stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let place = |wanted: &str| {
        lines.iter().position(|line| line == wanted).unwrap_or_else(|| panic!("no line {wanted:?} in\n{stdout}"))
    };
    let order = [
        "Profile default-scheduler",
        "POINT PLUGIN WEIGHT NOTE",
        "queueSort PrioritySort",
        "filter NodeName",
        "filter NodeUnschedulable",
        "score ImageLocality 5 default weight 1, moved",
        "score TaintToleration 3",
        "score NodeResourcesBalancedAllocation switched off",
        "ARGUMENT VALUE DEFAULT",
        "NodeResourcesFit.scoringStrategy.resources[0].weight 3 1",
        "NodeResourcesFit.scoringStrategy.resources[1].name none memory",
        "NodeResourcesFit.scoringStrategy.type MostAllocated LeastAllocated",
        "Profile no-scoring",
        "All arguments of plugins are the defaults.",
        "SETTING VALUE DEFAULT",
        "leaderElection.leaseDuration 15s",
        "parallelism 16",
    ];
    let places: Vec<usize> = order.into_iter().map(place).collect();
    assert!(places.is_sorted(), "{places:?} in\n{stdout}");

    let (code, only, _) = flotilla(&[("a.yaml", &text)], &["config", "show", "a.yaml", "--profile", "no-scoring"]);
    assert_eq!(code, Some(0));
    assert!(only.starts_with("Profile no-scoring\n") && !only.contains("default-scheduler"), "{only}");
    let found = flotilla(&[("a.yaml", &text)], &["config", "show", "a.yaml", "--profile", "x"]);
    assert_eq!(found, said(1, "", "a.yaml: has no profile \"x\"; it has default-scheduler, no-scoring\n"));
}

#[test]
fn plugins_that_are_not_built_are_marked_in_the_defaults() {
    let (code, stdout, _) = flotilla(&[], &["config", "show"]);
    assert_eq!(code, Some(0));
    for plugin in PLUGINS.iter().filter(|plugin| plugin.is_default(&FeatureGates::default())) {
        let mut lines = stdout.lines().filter(|line| line.split_whitespace().nth(1) == Some(plugin.name)).peekable();
        assert!(lines.peek().is_some(), "{} in {stdout}", plugin.name);
        assert!(lines.all(|line| line.contains("not built yet") != plugin.built), "{} in {stdout}", plugin.name);
    }
}

const CHANGED: &str = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 32
profiles:
- schedulerName: default-scheduler
  plugins:
    filter:
      disabled: [{name: NodePorts}]
    score:
      enabled: [{name: ImageLocality, weight: 5}]
  pluginConfig:
  - name: NodeResourcesFit
    args: {ignoredResources: [example.com/a]}
- schedulerName: b
- schedulerName: c
  plugins: {filter: {disabled: [{name: NodeName}]}}
";

#[test]
fn a_difference_is_told_by_profile_extension_point_and_path() {
    let files = [("a.yaml", CHANGED), ("d.yaml", OWN)];
    let (code, stdout, _) = flotilla(&files, &["config", "diff", "default", "a.yaml"]);
    let expected = "\
--- default
+++ a.yaml
profile default-scheduler
  filter
    - NodePorts
  score
    ImageLocality: weight 1 -> 5
    ImageLocality: place 9 -> 1
  arguments
    NodeResourcesFit.ignoredResources: none -> [\"example.com/a\"]
+ profile b, like the one that is there by default
+ profile c, which differs from the one that is there by default
  filter
    - NodeName
settings
  parallelism: 16 -> 32
";
    assert_eq!((code, stdout.as_str()), (Some(1), expected));

    let (code, stdout, _) = flotilla(&files, &["config", "diff", "a.yaml", "d.yaml", "-o", "json"]);
    assert_eq!(code, Some(1));
    let differences: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!((&differences["same"], &differences["old"]), (&json!(false), &json!("a.yaml")));
    let changes = differences["profiles"].as_array().expect("a list").iter();
    let changes: Vec<_> = changes.map(|profile| (profile["name"].clone(), profile["change"].clone())).collect();
    let removed = |name: &str| (json!(name), json!("removed"));
    let expected = [removed("default-scheduler"), removed("b"), removed("c"), (json!("my-scheduler"), json!("added"))];
    assert_eq!(changes, expected);
    let settings = differences["settings"].as_array().expect("a list");
    assert!(settings.contains(&json!({ "path": "parallelism", "old": 32, "new": 16 })), "{settings:?}");
}

#[test]
fn what_comes_to_the_same_is_no_difference() {
    let explicit =
        format!("{HEADER}parallelism: 16 # as by default\nprofiles: [{{schedulerName: default-scheduler}}]\n");
    let files = [("a.yaml", HEADER), ("b.yaml", explicit.as_str())];
    let diff = |old: &str, new: &str| flotilla(&files, &["config", "diff", old, new]);
    let same = "a.yaml and b.yaml are written differently and come to the same\n";
    assert_eq!(diff("a.yaml", "b.yaml"), said(0, same, ""));
    assert_eq!(diff("a.yaml", "a.yaml"), said(0, "a.yaml and a.yaml are the same\n", ""));
    assert_eq!(diff("default", "default"), said(0, "default and default are the same\n", ""));
    // A file of that name goes before the word.
    let files = [("default", CHANGED)];
    let (code, stdout, _) = flotilla(&files, &["config", "diff", "default", "default", "-o", "json"]);
    let answer = json!({ "old": "default", "new": "default", "same": true, "profiles": [], "settings": [] });
    assert_eq!((code, serde_json::from_str::<Value>(&stdout).expect("JSON")), (Some(0), answer));
    let (_, shown, _) = flotilla(&files, &["config", "show", "default", "--profile", "c"]);
    assert!(shown.starts_with("Profile c\n"), "{shown}");
}

#[test]
fn a_migration_keeps_what_it_need_not_touch_and_tells_the_rest() {
    let expected = OLD.replace("v1beta2", "v1").replace("healthzBindAddress: 0.0.0.0:0 # nobody asks", "# nobody asks");
    let told = "\
a.yaml:2: apiVersion: kubescheduler.config.k8s.io/v1beta2 is now kubescheduler.config.k8s.io/v1
a.yaml:4: healthzBindAddress: removed, v1 has no such field; /healthz is served on the port of --secure-port
";
    let files = [("a.yaml", OLD)];
    assert_eq!(flotilla(&files, &["config", "migrate", "a.yaml"]), said(0, &expected, told));

    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    fs::write(path("a.yaml"), OLD).expect("a file");
    let migrate = |arguments: &[&str]| run(directory.path(), &[&["config", "migrate"], arguments].concat(), "");
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
fn a_configuration_in_a_config_map_is_migrated_where_it_stands() {
    let old = MANIFEST.replace("k8s.io/v1\n", "k8s.io/v1beta3\n").replace("    paralelism: 4\n", "");
    let (code, stdout, stderr) = flotilla(&[("a.yaml", &old)], &["config", "migrate", "a.yaml"]);
    assert_eq!((code, stdout.as_str()), (Some(0), old.replace("v1beta3", "v1").as_str()));
    assert!(stderr.starts_with("a.yaml:12: apiVersion: "), "{stderr}");
}

#[test]
fn what_cannot_be_migrated_is_told_and_nothing_is_written() {
    let old = OLD.replace("v1beta2", "v1beta1").replace("ImageLocality", "NodeLabel");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.yaml");
    fs::write(&path, &old).expect("a file");
    let (code, stdout, stderr) = run(directory.path(), &["config", "migrate", "a.yaml", "--in-place"], "");
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.starts_with("a.yaml:9:"), "{stderr}");
    assert!(stderr.ends_with("not migrated, and nothing written: 1 error\n"), "{stderr}");
    assert_eq!(fs::read_to_string(path).expect("a file"), old);

    // Other mistakes are no reason not to migrate, but they stay, and are told where they are now.
    let old = format!("{OLD}paralelism: 4\n");
    let (code, stdout, stderr) = flotilla(&[("a.yaml", &old)], &["config", "migrate", "a.yaml"]);
    assert_eq!(code, Some(1));
    assert!(stdout.contains("k8s.io/v1\n") && stdout.contains("paralelism"), "{stdout}");
    assert!(stderr.contains("\nstdout:10:1: paralelism: found an unknown field; "), "{stderr}");
    assert!(stderr.ends_with("flotilla: the result is in v1, and has the mistakes above\n"), "{stderr}");
}

#[test]
fn flags_that_make_no_sense_are_usage_errors() {
    let cases: &[&[&str]] = &[
        &["config"],
        &["config", "check"],
        &["config", "check", "a.yaml", "-o", "yaml"],
        &["config", "diff", "a.yaml"],
        &["config", "migrate", "a.yaml", "-o", "b.yaml", "--in-place"],
        &["config", "migrate", "-", "--in-place"],
        &["completion", "tcsh"],
        &["man"],
    ];
    for arguments in cases {
        let (code, stdout, stderr) = flotilla(&[("a.yaml", OWN)], arguments);
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{arguments:?}: {stderr}");
    }
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
        let (code, stdout, stderr) = flotilla(&[], &["completion", shell]);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{shell}");
        for word in ["simulate", "config", "migrate", "in-place", "completion", "man"] {
            assert!(stdout.contains(word), "{word} for {shell}");
        }
    }
    let (code, stdout, _) = flotilla(&[], &["completion", "--help"]);
    assert_eq!(code, Some(0));
    for shell in ["Bash", "Zsh", "Fish", "PowerShell", "Elvish"] {
        assert!(stdout.contains(&format!("# {shell}, in ")), "{shell} in {stdout}");
    }
}

#[test]
fn every_command_has_a_manual_page_with_its_exit_codes() {
    let directory = tempfile::tempdir().expect("a directory");
    assert_eq!(run(directory.path(), &["man", "deep/man1"], ""), said(0, "", ""));
    let page = |name: &str| fs::read_to_string(directory.path().join("deep/man1").join(name)).expect(name);
    for name in ["simulate", "config-check", "config-show", "config-diff", "config-migrate", "completion", "man"] {
        assert!(page(&format!("flotilla-{name}.1")).contains("Exit codes:"), "{name}");
    }
    for name in ["flotilla.1", "flotilla-config.1", "flotilla-coordinator.1"] {
        assert!(page(name).contains(".SH NAME"), "{name}");
    }
    fs::write(directory.path().join("file"), "").expect("a file");
    let (code, _, stderr) = run(directory.path(), &["man", "file"], "");
    assert_eq!((code, stderr.as_str()), (Some(1), "flotilla: cannot create file: File exists (os error 17)\n"));
}
