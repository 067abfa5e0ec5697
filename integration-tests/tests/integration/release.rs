//! Files of `cargo xtask dist`: unpacked, verified and run.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn run(command: &mut Command) -> Output {
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

/// Creates the files with the programs of the integration tests. Static ones would have to be compiled, with all their dependencies.
fn dist(output: &Path) {
    let programs = flotilla_test_programs::programs().expect("the programs are built");
    run(Command::new(programs.join("flotilla-dist")).arg("--programs").arg(&programs).arg("--output").arg(output));
}

#[test]
fn a_release_unpacks_to_programs_that_run_with_what_users_look_for_beside_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = folder.path().join("files");
    dist(&files);
    run(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(&files));
    let names: Vec<String> = fs::read_dir(&files)
        .expect("a folder")
        .map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned())
        .collect();
    let archive = names.iter().find(|name| name.ends_with(".tar.gz")).expect("an archive");
    assert!(names.iter().any(|name| name.ends_with(".cdx.json")), "{names:?}");
    run(Command::new("tar").arg("xzf").arg(archive).current_dir(&files));
    let unpacked: PathBuf = files.join(archive.trim_end_matches(".tar.gz"));
    for program in ["flotilla", "flotilla-coordinator", "flotilla-worker"] {
        let output = run(Command::new(unpacked.join(program)).arg("--version"));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.starts_with(program) && said.contains(env!("CARGO_PKG_VERSION")), "{said}");
    }
    let help = run(Command::new(unpacked.join("kubectl-flotilla")).args(["explain", "--help"]));
    assert!(String::from_utf8_lossy(&help.stdout).contains("Usage: kubectl flotilla explain"), "{help:?}");
    for (file, text) in [
        ("completions/flotilla.bash", "_flotilla()"),
        ("completions/_flotilla", "#compdef flotilla"),
        ("man/man1/flotilla-simulate.1", ".TH flotilla-simulate"),
        ("man/man1/flotilla-coordinator.1", ".TH flotilla-coordinator"),
        ("LICENSE", "Apache License"),
        ("sbom.cdx.json", "\"CycloneDX\""),
    ] {
        let found = fs::read_to_string(unpacked.join(file)).expect(file);
        assert!(found.contains(text), "{file}");
    }
    let manifest = fs::read_to_string(files.join("flotilla.yaml")).expect("a manifest for krew");
    let sums = fs::read_to_string(files.join("SHA256SUMS")).expect("checksums");
    let sum = sums.lines().find(|line| line.ends_with(archive)).and_then(|line| line.split(' ').next());
    assert!(manifest.contains(sum.expect("its checksum")), "{manifest}");
}
