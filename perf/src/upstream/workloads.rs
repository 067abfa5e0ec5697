//! The selection of workloads, and the workloads that the harness lists.

use std::{fs, path::Path};

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::args::Args;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Workload {
    /// Folder below scheduler_perf.
    pub(crate) package: String,
    /// Test case and workload, such as `SchedulingBasic/5000Nodes_10000Pods`.
    pub(crate) workload: String,
    /// Kubernetes' threshold in pods per second; 0 if there is none.
    pub(crate) threshold: f64,
    /// Reason if the workload cannot run with a scheduler in another process; otherwise empty.
    pub(crate) skip: String,
    /// Expressions of the selection that match.
    #[serde(skip_serializing)]
    pub(crate) patterns: Vec<String>,
}

/// Go regular expressions, any of which selects a workload with the label.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    label: String,
    patterns: Vec<Pattern>,
}

#[derive(Debug, Clone)]
struct Pattern {
    regex: String,
    /// Where it was given, for messages.
    place: String,
}

impl Selection {
    /// The expressions of `--workload` and of the lines of `--workload-file`; without either, one that matches all workloads.
    ///
    /// # Errors
    /// The file cannot be read, or has no expression.
    pub(crate) fn of(args: &Args) -> anyhow::Result<Self> {
        let patterns = match &args.workload_file {
            Some(path) => {
                let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
                let patterns = lines(path, &text);
                ensure!(!patterns.is_empty(), "{} selects no workload: each line has one expression", path.display());
                patterns
            }
            None => {
                let place = if args.workload.is_empty() { "--label" } else { "--workload" };
                vec![Pattern { regex: args.workload.clone(), place: place.to_owned() }]
            }
        };
        Ok(Self { label: args.label.clone(), patterns })
    }

    /// Labels, as for scheduler_perf's own flag.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// One expression per line.
    pub(crate) fn regexes(&self) -> String {
        self.patterns.iter().map(|pattern| &*pattern.regex).collect::<Vec<_>>().join("\n")
    }

    /// Each expression must match one of the workloads.
    ///
    /// # Errors
    /// Names the first expression that matches none.
    pub(crate) fn check(&self, workloads: &[Workload]) -> anyhow::Result<()> {
        let is_unused = |pattern: &&Pattern| !workloads.iter().any(|one| one.patterns.contains(&pattern.regex));
        let Some(Pattern { regex, place }) = self.patterns.iter().find(is_unused) else { return Ok(()) };
        let matches = if regex.is_empty() { String::new() } else { format!(" that matches {regex:?}") };
        bail!(
            "{place}: scheduler_perf has no workload with the label {:?}{matches}; --label '' selects all labels",
            self.label
        )
    }
}

fn lines(path: &Path, text: &str) -> Vec<Pattern> {
    let numbered = text.lines().map(str::trim).zip(1..);
    let given = numbered.filter(|(line, _): &(&str, usize)| !line.is_empty() && !line.starts_with('#'));
    given
        .map(|(line, number)| Pattern { regex: line.to_owned(), place: format!("{}:{number}", path.display()) })
        .collect()
}

/// Parses the list, one JSON object per line.
pub(crate) fn parse(list: &str) -> serde_json::Result<Vec<Workload>> {
    list.lines().map(serde_json::from_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(name: &str, patterns: &[&str]) -> Workload {
        let patterns = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        Workload { workload: name.to_owned(), patterns, ..Workload::default() }
    }

    #[test]
    fn an_expression_that_matches_no_workload_is_named_with_its_line() {
        let patterns = lines(Path::new("some.txt"), "# spread\n\n^A/\n^B/\n");
        let selection = Selection { label: "performance".to_owned(), patterns };
        assert_eq!(selection.regexes(), "^A/\n^B/");
        selection.check(&[workload("A/1", &["^A/"]), workload("B/1", &["^A/", "^B/"])]).expect("both match");
        let error = selection.check(&[workload("A/1", &["^A/"])]).expect_err("one matches none").to_string();
        let expected =
            "some.txt:4: scheduler_perf has no workload with the label \"performance\" that matches \"^B/\"; ";
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn each_line_of_the_list_is_a_workload() {
        let list = concat!(
            r#"{"package":"misc","workload":"SchedulingBasic/5000Nodes","threshold":270,"skip":"","patterns":["S"]}"#,
            "\n",
            r#"{"package":"dra","workload":"A/B","threshold":0,"skip":"reason","patterns":[""]}"#,
        );
        let workloads = parse(list).expect("it is valid");
        assert_eq!((workloads[0].workload.as_str(), workloads[0].threshold), ("SchedulingBasic/5000Nodes", 270.0));
        assert_eq!((workloads[1].package.as_str(), workloads[1].skip.as_str()), ("dra", "reason"));
        assert!(parse("{").is_err());
    }
}
