//! Rules of the repository.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

mod circles;
mod words;

const MAX_LINES: usize = 500;

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// All files below a folder, except build output, generated code and version control.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("an entry of a folder that could be opened").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !matches!(name.as_str(), "target" | ".git" | "generated" | "node_modules") {
                files(&path, found);
            }
        } else {
            found.push(path);
        }
    }
}

fn rust_files() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    files(&root(), &mut found);
    found.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path, text)
    };
    found.into_iter().map(read).collect()
}

fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "benches")
        || path.file_name().is_some_and(|name| name == "tests.rs")
}

fn lines_of_code(text: &str) -> usize {
    text.lines().take_while(|line| line.trim() != "#[cfg(test)]").count()
}

#[test]
fn every_rust_file_says_first_what_it_is() {
    for (path, text) in rust_files() {
        assert!(text.starts_with("//!"), "{} does not open with //!", path.display());
    }
}

#[test]
fn no_file_of_code_is_longer_than_five_hundred_lines() {
    for (path, text) in rust_files().into_iter().filter(|(path, _)| !is_test(path)) {
        let lines = lines_of_code(&text);
        assert!(lines <= MAX_LINES, "{} has {lines} lines before its tests, more than {MAX_LINES}", path.display());
    }
}

#[test]
fn every_main_is_short() {
    for (path, text) in rust_files() {
        if path.ends_with("src/main.rs") {
            let lines =
                text.lines().skip_while(|line| !line.contains("fn main")).take_while(|line| *line != "}").count();
            assert!(lines <= 20, "{}: main has {lines} lines", path.display());
        }
    }
}

#[test]
fn every_rust_file_is_part_of_a_crate() {
    let all = rust_files();
    let declared: BTreeSet<PathBuf> = all.iter().flat_map(|(path, text)| modules(path, text)).collect();
    for (path, _) in &all {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_root = matches!(name.as_str(), "lib.rs" | "main.rs" | "build.rs")
            || path.parent().is_some_and(|folder| folder.ends_with("tests") && folder.join("../Cargo.toml").exists())
            || path
                .parent()
                .is_some_and(|folder| ["benches", "examples", "src/bin"].iter().any(|root| folder.ends_with(root)));
        assert!(is_root || declared.contains(path), "{} is in no `mod`", path.display());
    }
}

/// Possible files of `mod name;` declarations, with or without `#[path]`.
fn modules(path: &Path, text: &str) -> Vec<PathBuf> {
    let Some(folder) = path.parent() else { return Vec::new() };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let home = if matches!(stem.as_str(), "lib" | "main") { folder.to_path_buf() } else { folder.join(&stem) };
    let named = text.lines().filter_map(|line| {
        let line =
            line.trim().trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ").trim_start_matches("pub ");
        line.strip_prefix("mod ")?.strip_suffix(';').map(str::to_owned)
    });
    let placed = text.lines().filter_map(|line| {
        let path = line.trim().strip_prefix("#[path = \"")?.strip_suffix("\"]")?;
        Some(folder.join(path))
    });
    let named = named.flat_map(|name| [home.join(format!("{name}.rs")), folder.join(format!("{name}.rs"))]);
    named.chain(placed).collect()
}

/// Endpoints, authorization and signals, which simulations do not use.
const NOT_SIMULATED: [&str; 3] = ["coordinator/src/serve", "coordinator/src/access", "coordinator/src/run/signals"];

#[test]
fn what_is_simulated_chooses_nothing_at_random() {
    let coordinator = root().join("coordinator");
    let is_simulated = |path: &Path| {
        path.starts_with(&coordinator)
            && !is_test(path)
            && !NOT_SIMULATED.iter().any(|part| path.with_extension("").to_string_lossy().contains(part))
    };
    let files = rust_files();
    let mut choices = 0;
    for (path, text) in files.iter().filter(|(path, _)| is_simulated(path)) {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (index, pair) in lines.windows(2).enumerate().filter(|(_, pair)| pair[0].contains("select! {")) {
            choices += 1;
            assert_eq!(
                pair[1],
                "biased;",
                "{}:{}: tokio draws which branch it looks at first",
                path.display(),
                index + 1
            );
        }
    }
    assert!(choices > 5, "only {choices}");
}

#[test]
fn every_crate_inherits_the_lints_of_the_workspace() {
    let mut found = Vec::new();
    files(&root(), &mut found);
    for path in found.into_iter().filter(|path| path.file_name().is_some_and(|name| name == "Cargo.toml")) {
        let text = fs::read_to_string(&path).expect("a manifest");
        // Users copy the example.
        let is_alone = text.contains("[workspace]") || path.ends_with("examples/plugin/Cargo.toml");
        let inherits = text.contains("[lints]\nworkspace = true");
        assert!(is_alone || inherits, "{} does not say [lints] workspace = true", path.display());
    }
}

#[test]
fn the_pure_crates_depend_on_nothing_that_waits_or_talks() {
    let banned = ["tokio", "tonic", "kube", "rand", "tracing", "hyper", "reqwest", "futures", "prometheus-client"];
    for manifest in [
        "framework/Cargo.toml",
        "configuration/Cargo.toml",
        "configuration/yaml/Cargo.toml",
        "coordinator/machine/Cargo.toml",
    ] {
        let text = fs::read_to_string(root().join(manifest)).expect("a manifest");
        for name in banned {
            let depends =
                text.lines().any(|line| line.starts_with(&format!("{name}.")) || line.starts_with(&format!("{name} ")));
            assert!(!depends, "{manifest} depends on {name}");
        }
    }
}

#[test]
fn a_worker_is_built_without_a_reader_of_yaml() {
    for room in [
        "framework",
        "proto",
        "telemetry",
        "telemetry/spans",
        "transport",
        "worker",
        "worker/service",
        "coordinator/machine",
    ] {
        let text = fs::read_to_string(root().join(room).join("Cargo.toml")).expect("a manifest");
        let linked = text.split("[dev-dependencies]").next().unwrap_or_default();
        for name in ["flotilla-configuration", "flotilla-yaml", "saphyr-parser", "serde_yaml"] {
            assert!(!linked.lines().any(|line| line.starts_with(name)), "{room} depends on {name}");
        }
    }
}
