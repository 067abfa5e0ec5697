//! Compiled-in plugins: the programs of `examples/plugin` schedule by its rules. Its unit tests run with those of all crates.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use flotilla_integration_tests::{
    fleet::binary,
    tutorial::{commands, section, typed},
};

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/plugin")
}

fn my_flotilla(words: &[&str]) -> Output {
    let program = binary("my-flotilla").expect("it builds");
    Command::new(program).args(words).current_dir(example()).output().expect("it starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Node of each pod, and the last pod's rejection.
fn placed(config: &str, workers: &str) -> (BTreeMap<String, String>, String) {
    let output =
        my_flotilla(&["simulate", "-f", "cluster.yaml", "--config", config, "--workers", workers, "-o", "json"]);
    assert!(output.status.success(), "{}", said(&output));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let placements = answer["placements"].as_array().expect("a list of placements");
    let nodes = placements.iter().map(|placement| (text(&placement["pod"]), text(&placement["node"]))).collect();
    (nodes, placements.iter().map(|placement| text(&placement["message"])).collect())
}

#[test]
fn pods_go_where_plugins_say_that_are_compiled_in() {
    let expected = [("default/red-3", "node-3"), ("default/web-2", "node-2"), ("default/web-3", "")];
    let expected: BTreeMap<_, _> = expected.map(|(pod, node)| (pod.to_owned(), node.to_owned())).into();
    for workers in ["1", "3"] {
        let (nodes, message) = placed("scheduler.yaml", workers);
        assert_eq!(nodes, expected);
        assert!(message.contains("1 node(s) belonged to another team"), "{message}");
    }
}

#[test]
fn the_other_nodes_are_taken_if_the_argument_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("reverse.yaml");
    let text = fs::read_to_string(example().join("scheduler.yaml")).expect("the configuration of the example");
    fs::write(&file, text.replace("reverse: false", "reverse: true")).expect("written");
    let config = file.display().to_string();
    let (nodes, _) = placed(&config, "2");
    assert_eq!(nodes["default/web-2"], "node-1", "node-2 has its digit, node-3 a team");
    let output = my_flotilla(&["explain", "-f", "cluster.yaml", "--config", &config]);
    let said = said(&output);
    assert!(output.status.success() && said.contains("default/web-2: fits 2 of 3 nodes, best node-1"), "{said}");
}

#[test]
fn arguments_that_a_plugin_refuses_are_told_with_their_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("wrong.yaml");
    let text = fs::read_to_string(example().join("scheduler.yaml")).expect("the configuration of the example");
    fs::write(&file, text.replace("reverse: false", "revers: true")).expect("written");
    let config = file.display().to_string();
    let output = my_flotilla(&["config", "check", &config]);
    let expected =
        format!("{config}:13:12: profiles[0].pluginConfig[0].args.revers: found an unknown field; expected reverse");
    let said = said(&output);
    assert!(!output.status.success() && said.contains(&expected), "{said}");
}

#[test]
fn the_tutorial_ends_with_a_pod_beside_an_api_server() -> anyhow::Result<()> {
    let page = fs::read_to_string(example().join("../../docs/tasks/plugins.md"))?;
    let tutorial = section(&page, "### Tutorial: write a compiled-in plugin")?;
    // The last step builds and pushes an image, which needs a registry.
    let commands: Vec<String> =
        commands(tutorial).into_iter().take_while(|line| !line.starts_with("docker ")).collect();
    let (place, typed_in) = commands.split_first().expect("commands");
    assert_eq!(place, "cd examples/plugin");
    // The tutorial's files must not be in the repository.
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("up.txt").display().to_string();
    let written: Vec<String> =
        typed_in.iter().filter(|line| *line != "cargo test").map(|line| built(line).replace("up.txt", &file)).collect();
    assert!(written.iter().filter(|line| line.starts_with("my-flotilla ")).count() > 2, "{written:?}");
    let (state, program) = (folder.path().join("state"), binary("my-flotilla")?);
    let cache = example().join("../../target");
    let variables = [("FLOTILLA_STATE_DIR", &*state), ("FLOTILLA_CACHE_DIR", &*cache)];
    let programs = program.parent().expect("a folder");
    let said = typed(&example(), programs, &variables, &written, "my-flotilla down")?;
    let node = |pod: &str, node: &str| said.lines().any(|line| line.starts_with(pod) && line.contains(node));
    assert!(node("web-2 ", "node-2") && node("red-7 ", "node-7"), "{said}");
    Ok(())
}

/// A command without its build: the program is built with the workspace's features, so that no crate is compiled twice.
fn built(line: &str) -> String {
    let runs = ["cargo run --features cluster --bin my-flotilla -- ", "cargo run --bin my-flotilla -- "];
    let words = runs.iter().find_map(|run| line.strip_prefix(run));
    words.map_or_else(|| line.to_owned(), |words| format!("my-flotilla {words}"))
}
