//! Compares the documentation with the sources: metrics, messages, links.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use flotilla_integration_tests::fleet::binary;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("an entry of a folder that could be opened").path());
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|is| is == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Names of metrics that a source file registers outside of tests.
fn registered(source: &str) -> BTreeSet<String> {
    const STARTS: [&str; 6] =
        ["scheduler_", "flotilla_", "rest_client_", "leader_election_", "kubernetes_", "kube_pod_"];
    let source = source.split("#[cfg(test)]").next().unwrap_or_default();
    let is_name = |word: &str| {
        STARTS.iter().any(|start| word.starts_with(start))
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    source.split('"').skip(1).step_by(2).filter(|word| is_name(word)).map(str::to_owned).collect()
}

/// Whether a documented name, in which one `*` matches anything, denotes this metric.
fn means(written: &str, name: &str) -> bool {
    let written = written.split('{').next().unwrap_or(written);
    let is = |name: &str| match written.split_once('*') {
        Some((start, end)) => !start.is_empty() && name.starts_with(start) && name.ends_with(end),
        None => written == name,
    };
    is(name) || name.strip_prefix("scheduler_").is_some_and(is)
}

#[test]
fn every_metric_is_in_the_document_of_metrics_and_the_document_names_no_other() {
    let mut names = BTreeSet::new();
    let folder = root().join("coordinator/src/metrics");
    let sources = files(&folder, "rs").into_iter().filter(|path| !path.ends_with("tests.rs"));
    let others = ["coordinator/machine/src/view/status.rs", "worker/service/src/counters.rs", "worker/src/metrics.rs"];
    for path in sources.chain(others.map(|file| root().join(file))) {
        names.extend(registered(&read(&path)));
    }
    assert!(names.len() > 80, "only {} metrics were found; do their names stand elsewhere now?", names.len());
    let text = read(&root().join("docs/reference/metrics.md"));
    let (before, rest) = text.split_once("\nLeft out,").expect("the part about what is left out");
    let after = &rest[rest.find("\n## ").expect("a next part")..];
    let written: Vec<&str> = code(before).chain(code(after)).collect();
    let missing: Vec<&String> = names.iter().filter(|name| !written.iter().any(|word| means(word, name))).collect();
    assert!(missing.is_empty(), "docs/reference/metrics.md does not tell of {missing:#?}");
    let own = written.iter().filter(|word| word.starts_with("flotilla_") && !word.ends_with("_*"));
    let stale: Vec<&&str> = own.filter(|word| !names.iter().any(|name| means(word, name))).collect();
    assert!(stale.is_empty(), "docs/reference/metrics.md describes metrics that are not registered: {stale:#?}");
}

/// Sources of the programs, with continued strings joined.
fn sources() -> String {
    let rooms = ["coordinator/src", "coordinator/machine/src", "worker/src", "transport/src", "framework/src"];
    let more =
        ["cli/src", "proto/src", "configuration/src", "coordinator/runtime/src", "worker/service/src", "telemetry/src"];
    let paths = rooms.iter().chain(&more).flat_map(|room| files(&root().join(room), "rs"));
    let mut joined = String::new();
    for text in paths.map(|path| read(&path)) {
        let mut parts = text.split("\\\n");
        joined.push_str(parts.next().unwrap_or_default());
        parts.for_each(|part| joined.push_str(part.trim_start()));
    }
    joined.replace("\\\"", "\"")
}

/// First cells of all tables with this first heading.
fn first_cells<'a>(text: &'a str, heading: &str) -> Vec<&'a str> {
    let mut cells = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        let Some(row) = line.strip_prefix("| ") else {
            is_inside = is_inside && line.starts_with('|');
            continue;
        };
        let cell = row.split(" | ").next().unwrap_or_default().trim();
        match is_inside {
            true => cells.push(cell),
            false => is_inside = cell == heading,
        }
    }
    cells
}

#[test]
fn every_message_of_the_document_of_troubles_is_one_that_a_program_prints() {
    let sources = sources();
    let text = read(&root().join("docs/tasks/troubleshooting.md"));
    let cells = first_cells(&text, "message");
    assert!(cells.len() > 20, "the tables of messages were not found: {cells:?}");
    for message in cells.iter().flat_map(|cell| code(cell)) {
        for part in message.split("...").map(str::trim).filter(|part| !part.is_empty()) {
            assert!(sources.contains(part), "no program prints {part:?}, of the message {message:?}");
        }
    }
}

/// Quoted texts after `before` in a source file, with the rest of the line.
fn quoted_behind<'a>(source: &'a str, before: &str) -> Vec<(&'a str, &'a str)> {
    let parts = source.split(before).skip(1).filter_map(|rest| rest.trim_start().strip_prefix('"'));
    parts
        .filter_map(|rest| rest.split_once('"'))
        .map(|(name, rest)| (name, rest.split(')').next().unwrap_or(rest)))
        .collect()
}

#[test]
fn the_document_of_compatibility_has_every_plugin_and_every_gate_of_scheduling() {
    let text = read(&root().join("docs/reference/compatibility.md"));
    let catalogue = read(&root().join("configuration/src/catalogue.rs"));
    let mut plugins = quoted_behind(&catalogue, " stock(");
    plugins.extend(quoted_behind(&catalogue, " gated("));
    assert!(plugins.len() > 20, "the plugins were not found: {plugins:?}");
    let rows = first_cells(&text, "plugin");
    let missing: Vec<_> = plugins.iter().filter(|(name, _)| !rows.contains(name)).collect();
    assert!(missing.is_empty(), "docs/reference/compatibility.md has no row for {missing:?}");

    let table = read(&root().join("configuration/src/features/table.rs"));
    let gates = quoted_behind(&table, " gate(");
    let gates: Vec<_> = gates.into_iter().filter(|(_, rest)| rest.contains("SCHEDULING")).collect();
    assert!(gates.len() > 30, "the gates were not found: {gates:?}");
    let rows: BTreeSet<&str> = first_cells(&text, "gate").iter().flat_map(|cell| cell.split(", ")).collect();
    let missing: Vec<_> = gates.iter().filter(|(name, _)| !rows.contains(name)).collect();
    assert!(missing.is_empty(), "docs/reference/compatibility.md does not say what may be done with {missing:?}");
}

/// Anchor of a heading on a rendered page.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn prose(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

fn documents() -> Vec<PathBuf> {
    let folders = ["docs", "deploy", "integration-tests"].map(|folder| files(&root().join(folder), "md"));
    folders
        .concat()
        .into_iter()
        .chain(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"].map(|file| root().join(file)))
        .collect()
}

#[test]
fn every_path_of_this_repository_that_a_document_names_is_there() {
    let rooms = [
        "deploy/",
        "docs/",
        "examples/",
        "framework/",
        "configuration/",
        "proto/",
        "coordinator/",
        "control-plane/",
        "worker/",
        "cli/",
        "integration-tests/",
        "telemetry/",
        "transport/",
        "xtask/",
    ];
    for document in documents() {
        let text = read(&document);
        let names = code(&text).flat_map(str::split_whitespace).chain(text.split_whitespace());
        let names = names.filter(|name| rooms.iter().any(|room| name.starts_with(room)));
        for name in names.filter(|name| !name.contains(['*', '<', '{', '`', '(', ')', '[', '"'])) {
            let path = root().join(name.trim_end_matches(['.', ',', ';', ':', '/']));
            assert!(path.exists(), "{} names {name}, which is not there", document.display());
        }
    }
}

#[test]
fn the_first_example_of_the_readme_is_placed() -> anyhow::Result<()> {
    let example = "cargo run --release -p flotilla -- ";
    let readme = read(&root().join("README.md"));
    let arguments =
        readme.lines().find_map(|line| line.strip_prefix(example)).expect("the readme begins with an example");
    let output = Command::new(binary("flotilla")?).args(arguments.split(' ')).current_dir(root()).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains(": 20 placed, 6 pending"), "{arguments}: {output:?}");
    Ok(())
}

#[test]
fn every_link_of_a_document_leads_somewhere() {
    for document in documents() {
        let text = prose(&read(&document));
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://")) {
            let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { document.clone() } else { document.with_file_name("").join(file) };
            assert!(target.exists(), "{} links to {link}, which is not there", document.display());
            if !fragment.is_empty() {
                let target = prose(&read(&target));
                let mut headings = target.lines().filter(|line| line.starts_with('#'));
                let is_there = headings.any(|line| anchor(line.trim_start_matches('#')) == fragment);
                assert!(is_there, "{} links to {link}, which has no such heading", document.display());
            }
        }
    }
}
