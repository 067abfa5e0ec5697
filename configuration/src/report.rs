//! Errors of a configuration, shown as `file:line:column: path: message`, the source line and carets.

use std::fmt;
use std::sync::Arc;

use super::index::{Fault, Index, Mark};
use super::path::Path;

const MAX_EXCERPT: usize = 120;
const MAX_QUOTE: usize = 64;

const MAX_ERRORS: usize = 1000;

/// All errors of a configuration, in the order of the text.
///
/// Displays each error as `file:line:column: path: message`, the source line, carets under the value, and a hint if there is one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", Rendered(self))]
pub struct ConfigErrors {
    /// At least one, ordered by line and column.
    pub errors: Vec<ConfigError>,
    /// Number of errors beyond the first thousand.
    pub omitted: usize,
}

/// One error of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {path}: {found}; expected {expected}")]
pub struct ConfigError {
    /// File name, as passed to [`load`](super::load).
    pub file: Arc<str>,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// The node, such as `profiles[0].plugins.score.enabled[1].name`; `document` for the whole file.
    pub path: String,
    /// The value found, as a clause: `found 0`.
    pub found: String,
    /// The expected value: `an integer greater than 0`.
    pub expected: String,
    /// The next step, unless `expected` implies it.
    pub hint: Option<String>,
    /// Whether kube-scheduler rejects the configuration too.
    pub cause: Cause,
    excerpt: Option<Excerpt>,
}

/// Cause of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// kube-scheduler rejects the configuration too.
    Invalid,
    /// kube-scheduler accepts the configuration, but Flotilla does not implement it.
    NotImplemented,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Excerpt {
    text: String,
    offset: usize,
    width: usize,
}

struct Rendered<'a>(&'a ConfigErrors);

impl fmt::Display for Rendered<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, error) in self.0.errors.iter().enumerate() {
            if number > 0 {
                out.write_str("\n")?;
            }
            write!(out, "{error}")?;
            if let Some(excerpt) = &error.excerpt {
                write!(out, "\n    {}\n    ", excerpt.text)?;
                // Only the same tabs align the carets: the width of a tab depends on the terminal.
                for character in excerpt.text.chars().take(excerpt.offset) {
                    out.write_str(if character == '\t' { "\t" } else { " " })?;
                }
                write!(out, "{:^<1$}", "^", excerpt.width.max(1))?;
            }
            if let Some(hint) = &error.hint {
                write!(out, "\n    hint: {hint}")?;
            }
        }
        match self.0.omitted {
            0 => Ok(()),
            omitted => write!(out, "\nand {omitted} more"),
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum ProblemPosition {
    Key,
    Value,
    At(Mark),
}

#[derive(Debug)]
pub(super) struct Problem {
    path: Path,
    place: ProblemPosition,
    found: String,
    expected: String,
    hint: Option<String>,
    cause: Cause,
}

impl Problem {
    pub(super) fn new(path: Path, found: impl Into<String>, expected: impl Into<String>) -> Self {
        let (found, expected) = (found.into(), expected.into());
        Self { path, place: ProblemPosition::Value, found, expected, hint: None, cause: Cause::Invalid }
    }

    pub(super) fn value(path: Path, found: impl fmt::Display, expected: impl Into<String>) -> Self {
        Self::new(path, format!("found {found}"), expected)
    }

    pub(super) fn missing(path: Path, expected: impl Into<String>) -> Self {
        Self::new(path, "found nothing", expected)
    }

    pub(super) fn on_key(mut self) -> Self {
        self.place = ProblemPosition::Key;
        self
    }

    pub(super) fn at(mut self, mark: Mark) -> Self {
        self.place = ProblemPosition::At(mark);
        self
    }

    pub(super) fn not_implemented(mut self) -> Self {
        self.cause = Cause::NotImplemented;
        self
    }

    pub(super) fn hint(mut self, hint: impl Into<Option<String>>) -> Self {
        self.hint = hint.into();
        self
    }
}

pub(super) struct Report<'a> {
    file: Arc<str>,
    lines: Vec<&'a str>,
    index: Index,
    /// Nodes that could not be read: rules skip the values in their place.
    unreadable: Vec<Path>,
    errors: Vec<ConfigError>,
    omitted: usize,
    warnings: Vec<((usize, usize), String)>,
}

impl<'a> Report<'a> {
    pub(super) fn new(file: &str, text: &'a str) -> Self {
        let (unreadable, errors, warnings) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            file: file.into(),
            lines: split_lines(text),
            index: Index::default(),
            unreadable,
            errors,
            omitted: 0,
            warnings,
        }
    }

    pub(super) fn set_index(&mut self, index: Index) {
        self.index = index;
    }

    /// Adds an error, unless its node could not be read.
    pub(super) fn error(&mut self, problem: Problem) {
        // Errors beyond the limit are only counted, so the comparison with unreadable nodes is skipped.
        if self.is_full() || !self.unreadable.iter().any(|path| problem.path.is_within(path)) {
            self.record(problem);
        }
    }

    /// Adds an error and excludes its node from further rules.
    pub(super) fn unreadable(&mut self, problem: Problem) {
        if !self.is_full() {
            self.unreadable.push(problem.path.clone());
        }
        self.record(problem);
    }

    fn is_full(&self) -> bool {
        self.errors.len() >= MAX_ERRORS
    }

    /// Adds the index's faults and returns whether reading can continue.
    pub(super) fn faults(&mut self, faults: Vec<Fault>) -> bool {
        let mut readable = true;
        for fault in faults {
            readable &= !fault.fatal;
            self.unreadable(Problem::new(fault.path, fault.found, fault.expected).at(fault.mark).hint(fault.hint));
        }
        readable
    }

    pub(super) fn warning(&mut self, path: &Path, text: impl fmt::Display) {
        self.warning_at(self.index.value(path), path, text);
    }

    pub(super) fn warning_at(&mut self, mark: Mark, path: &Path, text: impl fmt::Display) {
        let Mark { line, column, .. } = mark;
        self.warnings.push(((line, column), format!("{}:{line}:{column}: {path}: {text}", self.file)));
    }

    /// Turns the errors after the first `kept` ones into warnings, because their settings have no effect.
    pub(super) fn excuse(&mut self, kept: usize) {
        let excused = self.errors.split_off(kept.min(self.errors.len()));
        for ConfigError { file, line, column, path, found, expected, .. } in excused {
            let text =
                format!("{file}:{line}:{column}: {path}: {found}; expected {expected}, but the plugin does not run");
            self.warnings.push(((line, column), text));
        }
    }

    pub(super) fn error_count(&self) -> usize {
        self.errors.len() + self.omitted
    }

    /// Number of errors that kube-scheduler reports too.
    pub(super) fn mistake_count(&self) -> usize {
        self.errors.iter().filter(|error| error.cause == Cause::Invalid).count() + self.omitted
    }

    pub(super) fn finish(mut self) -> (Vec<String>, Option<ConfigErrors>) {
        self.errors.sort_by_key(|error| (error.line, error.column));
        self.warnings.sort_by_key(|(position, _)| *position);
        let warnings = self.warnings.into_iter().map(|(_, text)| text).collect();
        let errors = ConfigErrors { errors: self.errors, omitted: self.omitted };
        (warnings, (!errors.errors.is_empty()).then_some(errors))
    }

    fn record(&mut self, problem: Problem) {
        if self.is_full() {
            self.omitted += 1;
            return;
        }
        let mark = match problem.place {
            ProblemPosition::Key => self.index.key(&problem.path),
            ProblemPosition::Value => self.index.value(&problem.path),
            ProblemPosition::At(mark) => mark,
        };
        self.errors.push(ConfigError {
            file: Arc::clone(&self.file),
            line: mark.line,
            column: mark.column,
            path: problem.path.to_string(),
            found: problem.found,
            expected: problem.expected,
            hint: problem.hint,
            cause: problem.cause,
            excerpt: self.excerpt(mark),
        });
    }

    /// The line of `mark`, cut around its column: JSON is often a single long line.
    fn excerpt(&self, mark: Mark) -> Option<Excerpt> {
        let line = self.lines.get(mark.line.checked_sub(1)?)?.trim_end();
        let start = mark.column.saturating_sub(1);
        let fits = start < MAX_EXCERPT / 2 || line.chars().nth(MAX_EXCERPT).is_none();
        let skipped = if fits { 0 } else { start - MAX_EXCERPT / 4 };
        // Counting characters from the start for every error would be quadratic in a line of a million.
        let (line, passed) =
            if line.is_ascii() { (line.get(skipped..).unwrap_or_default(), 0) } else { (line, skipped) };
        let shown = line.chars().skip(passed).take(MAX_EXCERPT);
        let text: String = shown.map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect();
        let length = text.chars().count();
        let offset = (start - skipped).min(length);
        let rest = length - offset;
        Some(Excerpt { offset, width: mark.width.unwrap_or(rest).min(rest), text })
    }
}

/// YAML ends a line at a lone carriage return too.
fn split_lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(end) = rest.find(['\n', '\r']) {
        let (line, tail) = rest.split_at(end);
        lines.push(line);
        rest = tail.strip_prefix("\r\n").unwrap_or_else(|| tail.get(1..).unwrap_or_default());
    }
    lines.push(rest);
    lines
}

/// Quotes, escapes and shortens a string.
pub(crate) fn quoted(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTE) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// `a`, `a or b`, `a, b or c`.
pub(crate) fn either<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

pub(crate) fn near_miss<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    const LONGEST: usize = 64;
    if name.is_empty() || name.len() > LONGEST {
        return None;
    }
    let lower = name.to_lowercase();
    let allowed = (lower.chars().count() / 4).clamp(1, 3);
    let best = candidates
        .into_iter()
        .map(|candidate| (edit_distance(&lower, &candidate.to_lowercase()), candidate))
        .min_by_key(|(distance, _)| *distance)?;
    // A candidate without a matching character is not a misspelling.
    let resembles = best.0 <= allowed && best.0 < best.1.chars().count();
    resembles.then(|| format!("did you mean {:?}?", best.1))
}

/// Damerau-Levenshtein distance: insertions, deletions, substitutions and swaps of neighbours.
fn edit_distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut before: Vec<usize> = vec![0; right.len() + 1];
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (row, &here) in left.iter().enumerate() {
        let mut current = vec![row + 1; right.len() + 1];
        for (column, &there) in right.iter().enumerate() {
            let substituted = above[column] + usize::from(here != there);
            let mut best = substituted.min(above[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && here == right[column - 1] && left[row - 1] == there {
                best = best.min(before[column - 1] + 1);
            }
            current[column + 1] = best;
        }
        before = above;
        above = current;
    }
    above.last().copied().unwrap_or(0)
}
