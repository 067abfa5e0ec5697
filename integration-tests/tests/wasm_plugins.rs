//! The tutorial of docs/plugins.md, and the projects that `flotilla plugin new` writes, as they are written: line by line.

use std::{
    path::Path,
    process::{Command, Output},
};

use flotilla_integration_tests::fleet::binary;

/// The commands of the blocks of shell lines in a text, each with what it reads from its lines.
fn commands(text: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let (mut in_block, mut in_here) = (false, false);
    for line in text.lines() {
        if line.starts_with("```") {
            in_block = line == "```console";
        } else if in_here {
            let command = commands.last_mut().expect("a command");
            command.push('\n');
            command.push_str(line);
            in_here = line != "END";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| in_block) {
            in_here = command.contains("<<'END'");
            commands.push(command.to_owned());
        }
    }
    commands
}

/// Runs commands one after the other in one shell, from a folder; gives what the last one says.
fn run(folder: &Path, commands: &[String]) -> String {
    let flotilla = binary("flotilla").expect("it is built");
    let flotilla = flotilla.parent().expect("a folder").display();
    let path = format!("{flotilla}:{}", std::env::var("PATH").expect("a path"));
    let mut place = folder.to_owned();
    let mut said = String::new();
    for command in commands {
        if let Some(into) = command.strip_prefix("cd ") {
            place = place.join(into);
            continue;
        }
        let mut shell = Command::new("bash");
        let shell = shell.args(["-c", command]).current_dir(&place).env("PATH", &path);
        // What cargo sets for this test is not for those that a person runs.
        let shell = shell.env_remove("CARGO_TARGET_DIR").env_remove("RUSTFLAGS").env_remove("RUST_LOG");
        let Output { status, stdout, stderr } = shell.output().expect("a shell");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(status.success(), "{command}\n{}{}", text(&stdout), text(&stderr));
        said = text(&stdout);
    }
    said
}

#[test]
fn the_tutorial_ends_with_a_pod_that_the_module_has_placed() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/plugins.md");
    let docs = std::fs::read_to_string(docs).expect("the page");
    let (_, tutorial) = docs.split_once("## From nothing to a pod that your module has placed").expect("the tutorial");
    let (tutorial, _) = tutorial.split_once("\n## ").expect("its end");
    let commands = commands(tutorial);
    assert!(commands.len() > 6, "{commands:?}");
    let folder = tempfile::tempdir().expect("a folder");
    let said = run(folder.path(), &commands);
    assert!(said.contains("default/web") && said.contains("red-1"), "{said}");
}

#[test]
fn a_project_in_go_is_tested_built_and_looked_at_as_its_readme_says() {
    let folder = tempfile::tempdir().expect("a folder");
    run(folder.path(), &["flotilla plugin new team-nodes --lang go".to_owned()]);
    let project = folder.path().join("team-nodes");
    let readme = std::fs::read_to_string(project.join("README.md")).expect("a readme");
    // A control plane is built for the last one; the tests of `flotilla up` do that.
    let commands: Vec<String> =
        commands(&readme).into_iter().filter(|command| !command.starts_with("flotilla up")).collect();
    assert!(commands.len() > 3, "{commands:?}");
    run(&project, &commands);
}
