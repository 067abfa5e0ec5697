//! `docs/getting-started/migrate.md` quotes the output of `flotilla config` about `examples/migrate`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The commands of the document, with the lines quoted below each.
fn shown(text: &str) -> Vec<(&str, Vec<&str>)> {
    let blocks = text.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let parts = blocks.flat_map(|block| block.split("$ flotilla ").skip(1));
    parts.map(|part| (part.lines().next().unwrap_or_default(), part.lines().skip(1).collect())).collect()
}

/// Whether the document quotes a line, possibly cut.
fn is_shown(line: &str, shown: &str) -> bool {
    shown.strip_suffix(" ...").map_or(line == shown, |start| line.starts_with(start))
}

#[test]
fn the_document_of_migration_shows_what_the_commands_print() {
    let text =
        fs::read_to_string(root().join("docs/getting-started/migrate.md")).expect("docs/getting-started/migrate.md");
    let commands = shown(&text);
    assert!(commands.len() >= 5, "the commands were not found: {commands:?}");
    for (command, expected) in commands {
        let folder = tempfile::tempdir().expect("a folder");
        for file in fs::read_dir(root().join("examples/migrate")).expect("the examples") {
            let file = file.expect("an entry").path();
            fs::copy(&file, folder.path().join(file.file_name().unwrap_or_default())).expect("a copy");
        }
        // The document migrates each file before it compares it.
        if command.starts_with("config diff") {
            let migrate = ["config", "migrate", "packing.yaml", "--in-place"];
            let status = Command::new(env!("CARGO_BIN_EXE_flotilla")).args(migrate).current_dir(&folder).output();
            assert!(status.expect("it runs").status.success());
        }
        let mut run = Command::new(env!("CARGO_BIN_EXE_flotilla"));
        let output = run.args(command.split_whitespace()).current_dir(&folder).output().expect("it runs");
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8(printed).expect("text");
        let mut lines = printed.lines();
        for wanted in expected {
            assert!(
                lines.any(|line| is_shown(line, wanted)),
                "flotilla {command} does not print {wanted:?} there:\n{printed}"
            );
        }
    }
}
