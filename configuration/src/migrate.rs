//! From the versions of a KubeSchedulerConfiguration that kube-scheduler used to read to the one that it reads now.
//!
//! Knows: the order of reading, planning, editing and checking. Must not know: what differs between versions, or how a
//! text is edited.
//!
//! The text is edited where it has to be and stays as it is everywhere else, so that comments and layout survive. What
//! was edited is read again and compared with what should have come of it.

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

/// A configuration in `kubescheduler.config.k8s.io/v1`, and how it came to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migration {
    /// The whole text, equal to the one that was given wherever nothing had to change.
    pub text: String,
    /// What was changed, in the order of the lines; nothing where the text was in v1 already.
    pub changes: Vec<Change>,
    /// What was left alone and yet has another effect in v1, in the order of the lines.
    pub notices: Vec<Change>,
}

/// One thing that a user who migrates a configuration should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The line of the text that was given, counted from 1.
    pub line: usize,
    /// What was changed there, or has another effect: `path: text`.
    pub what: String,
}

/// Rewrites a KubeSchedulerConfiguration of v1alpha2, v1beta1, v1beta2 or v1beta3 in v1; `file` is only what errors call
/// it. Whatever else is wrong with the text stays so: [`examine`](super::examine) the result.
///
/// Sources: `k8s.io/kube-scheduler/config` and `pkg/scheduler/apis/config` of Kubernetes 1.18 to 1.25.
///
/// # Errors
///
/// Where the text cannot be read, is something else than a KubeSchedulerConfiguration, or asks for what v1 has no way to
/// say, each with its line and column.
pub fn migrate(text: &str, file: &str) -> Result<Migration, ConfigErrors> {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut report = Report::new(file, body);
    let migration = attempt(&mut report, body);
    let (_, errors) = report.finish();
    if let Some(errors) = errors {
        return Err(errors);
    }
    // Where there is no migration there is an error.
    let Migration { text: body, changes, notices } =
        migration.unwrap_or_else(|| Migration { text: body.to_owned(), changes: Vec::new(), notices: Vec::new() });
    let text = if text.starts_with('\u{feff}') { format!("\u{feff}{body}") } else { body };
    Ok(Migration { text, changes, notices })
}

/// What becomes of the text; `None` with an error in the report, or where nothing has to be done.
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
