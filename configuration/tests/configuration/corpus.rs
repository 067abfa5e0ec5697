//! The corpus and kube-scheduler's recorded answers.

#![expect(clippy::disallowed_methods, reason = "a corpus is read from files; the crate itself reads none")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answer {
    pub(crate) file: String,
    pub(crate) accepted: bool,
    /// The stage at which kube-scheduler rejected the file.
    pub(crate) stage: FailureStage,
    pub(crate) error: String,
    /// The output of `--write-config-to`.
    pub(crate) configuration: Option<Value>,
    /// Plugins per extension point and profile.
    pub(crate) running: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FailureStage {
    #[serde(rename = "")]
    None,
    /// Before the file is read.
    Gates,
    Decode,
    Validate,
    /// While frameworks, extenders and leader election are built.
    Construct,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configuration")
}

pub(crate) fn files() -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for group in entries(&folder().join("files")) {
        for path in entries(&group) {
            let name = format!("{}/{}", last(&group), last(&path));
            let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            found.insert(name, bytes);
        }
    }
    found
}

pub(crate) fn answers() -> BTreeMap<String, Answer> {
    let path = folder().join("answers.jsonl");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let parse = |line: &str| -> Answer {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{}: {error}: {line}", path.display()))
    };
    text.lines().map(parse).map(|answer| (answer.file.clone(), answer)).collect()
}

pub(crate) fn gates(bytes: &[u8]) -> String {
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    first.strip_prefix("# feature-gates:").unwrap_or_default().trim().to_owned()
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordedGate {
    pub(crate) name: String,
    pub(crate) default: bool,
    pub(crate) stage: String,
    pub(crate) locked: bool,
    pub(crate) requires: Vec<String>,
}

pub(crate) fn recorded_gates() -> Vec<RecordedGate> {
    let path = folder().join("gates.jsonl");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(parse).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.expect("an entry of a folder that could be opened").path()).collect()
}

fn last(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
