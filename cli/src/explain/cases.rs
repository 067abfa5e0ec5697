//! `--cases`, a hidden flag: explains many small clusters in one process, for comparison with kube-scheduler.
//!
//! The oracle `decide` of the integration tests reads the same folders and writes the same lines.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde_json::json;

const CLUSTER: &str = ".yaml";
const CONFIGURATION: &str = ".config.yaml";

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Case {
    /// The name of its file without `.yaml`.
    pub(super) name: String,
    /// `NAME.yaml`.
    pub(super) cluster: PathBuf,
    /// `NAME.config.yaml`, if it exists.
    pub(super) configuration: Option<PathBuf>,
}

/// The cases of a folder, sorted by name.
///
/// # Errors
/// The folder cannot be read or has no cases.
pub(super) fn find(folder: &Path) -> Result<Vec<Case>, String> {
    let unreadable = |error: io::Error| format!("{}: {error}; expected a folder of cases", folder.display());
    let mut cases = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.file_name();
        let file = file.to_string_lossy();
        let Some(name) = file.strip_suffix(CLUSTER).filter(|_| !file.ends_with(CONFIGURATION)) else { continue };
        let configuration = folder.join(format!("{name}{CONFIGURATION}"));
        cases.push(Case {
            name: name.to_owned(),
            cluster: folder.join(&*file),
            configuration: configuration.exists().then_some(configuration),
        });
    }
    if cases.is_empty() {
        return Err(format!(
            "{} holds no case; expected NAME{CLUSTER}, and maybe NAME{CONFIGURATION}",
            folder.display()
        ));
    }
    cases.sort_unstable_by(|left, right| left.name.cmp(&right.name));
    Ok(cases)
}

/// Writes the answers of a case, one per line, or its error.
pub(super) fn print(case: &Case, outcome: Result<Vec<u8>, String>, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{{\"case\":{}", json!(case.name))?;
    match outcome {
        Ok(answers) => {
            let answers = String::from_utf8(answers).map_err(io::Error::other)?;
            let answers: Vec<&str> = answers.lines().collect();
            writeln!(out, ",\"answers\":[{}]}}", answers.join(","))?;
        }
        Err(refused) => writeln!(out, ",\"refused\":{}}}", json!(refused))?,
    }
    // A later case may end the process.
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_a_cluster_with_the_configuration_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["b.yaml", "a.yaml", "a.config.yaml", "README.md", "answers.jsonl"] {
            fs::write(folder.path().join(name), "").expect("a file");
        }
        let cases = find(folder.path()).expect("two cases");
        let seen: Vec<(&str, bool)> =
            cases.iter().map(|case| (case.name.as_str(), case.configuration.is_some())).collect();
        assert_eq!(seen, [("a", true), ("b", false)]);
        let none = find(&folder.path().join("none")).expect_err("no folder");
        assert!(none.ends_with("; expected a folder of cases"), "{none}");
    }

    #[test]
    fn a_line_holds_the_answers_as_they_are_or_why_there_are_none() {
        let case = Case { name: "a".to_owned(), cluster: "a.yaml".into(), configuration: None };
        let mut out = Vec::new();
        print(&case, Ok(b"{\"pod\": 1}\n{\"pod\": 2}\n".to_vec()), &mut out).expect("written");
        print(&case, Err("no".to_owned()), &mut out).expect("written");
        let expected =
            "{\"case\":\"a\",\"answers\":[{\"pod\": 1},{\"pod\": 2}]}\n{\"case\":\"a\",\"refused\":\"no\"}\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }
}
