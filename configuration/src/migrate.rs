//! Migrates a KubeSchedulerConfiguration of an older version to v1.
//!
//! Edits only the lines that have to change, so that comments and layout survive. The result is read again and compared with the plan.

mod edit;
mod rules;
mod tree;

use super::expand::expand;
use super::index::Index;
use super::path::Path;
use super::report::{Problem, Report};
use super::{ConfigErrors, KIND, decode, header};

use rules::{Note, Plan, Version};
use tree::Tree;

/// A configuration in `kubescheduler.config.k8s.io/v1` and its changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migration {
    /// The whole text; unchanged lines are identical.
    pub text: String,
    /// Changes, by line; empty if the text was v1 already.
    pub changes: Vec<Change>,
    /// Unchanged settings that have another effect in v1, by line.
    pub notices: Vec<Change>,
}

/// One change or notice of a migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The line in the original text, from 1.
    pub line: usize,
    /// `path: text`, describing the change or the different effect.
    pub what: String,
}

/// Rewrites a KubeSchedulerConfiguration of v1alpha2, v1beta1, v1beta2 or v1beta3 as v1. `file` is the name in errors. Other errors in the
/// text remain: call [`examine`](super::examine) on the result.
///
/// Sources: `k8s.io/kube-scheduler/config` and `pkg/scheduler/apis/config` of Kubernetes 1.18 to 1.25.
///
/// # Errors
///
/// Unreadable text, another kind of document, or a setting that v1 cannot express, each with its line and column.
pub fn migrate(text: &str, file: &str) -> Result<Migration, ConfigErrors> {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut report = Report::new(file, body);
    let migration = attempt(&mut report, body);
    let (_, errors) = report.finish();
    if let Some(errors) = errors {
        return Err(errors);
    }
    let Migration { text: body, changes, notices } =
        migration.unwrap_or_else(|| Migration { text: body.to_owned(), changes: Vec::new(), notices: Vec::new() });
    let text = if text.starts_with('\u{feff}') { format!("\u{feff}{body}") } else { body };
    Ok(Migration { text, changes, notices })
}

/// `None` if the report has an error or nothing has to change.
fn attempt(report: &mut Report<'_>, text: &str) -> Option<Migration> {
    let document = decode::document(report, text)?;
    let version = document.get("apiVersion").and_then(|version| version.as_str()).and_then(Version::parse);
    let Some(version) = version.filter(|_| document.get("kind").and_then(|kind| kind.as_str()) == Some(KIND)) else {
        header::check(report, &document);
        return None;
    };
    let Plan { mut edits, changes, notices, problems } = rules::plan(&document, version);
    if !problems.is_empty() {
        problems.into_iter().for_each(|problem| report.error(problem));
        return None;
    }
    edit::widen(&document, &mut edits);
    let edited = edit::apply(text, &Tree::build(text), &edits);
    let expected = edit::apply_to_value(document, &edits);
    if decode::document(&mut Report::new("", &edited), &edited) != Some(expected) {
        let hint = "write the file in plain block style, without anchors, and try again; or change by hand: ";
        let changes: Vec<&str> = changes.iter().map(|change| change.text.as_str()).collect();
        let found = "the way this is written does not allow to change it in place";
        let problem = Problem::new(Path::default(), found, "a plain style");
        report.error(problem.hint(format!("{hint}{}", changes.join("; "))));
        return None;
    }
    let index = expand(&super::tree::Tree::build(text)).map(|expanded| expanded.index).unwrap_or_default();
    Some(Migration { text: edited, changes: placed(&index, changes), notices: placed(&index, notices) })
}

fn placed(index: &Index, notes: Vec<Note>) -> Vec<Change> {
    let place = |Note { path, text }: Note| Change { line: index.key(&path).line, what: format!("{path}: {text}") };
    let mut changes: Vec<Change> = notes.into_iter().map(place).collect();
    changes.sort_by_key(|change| change.line);
    changes
}
