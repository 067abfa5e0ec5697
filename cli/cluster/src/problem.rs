//! Errors and warnings about the input, as `file:line:column: sentence`.

use std::collections::BTreeMap;

use flotilla_yaml::Mark;

use super::{
    place::{InputPosition, Path},
    source::{Position, Sources},
};

/// The limit of printed errors; more are usually one mistake repeated.
const MOST_ERRORS: usize = 50;
const MOST_WARNINGS: usize = 20;
/// The limit of stored errors, and of stored warnings.
const MOST_KEPT: usize = 1_000;

/// The errors and warnings about the input.
#[derive(Debug, Default)]
pub struct Problems {
    errors: Pile,
    warnings: Pile,
}

#[derive(Debug, Default)]
struct Pile {
    kept: Vec<Problem>,
    count: usize,
}

#[derive(Debug)]
struct Problem {
    at: At,
    text: String,
    /// A second place, printed at the end of the sentence.
    other: Option<InputPosition>,
}

#[derive(Debug)]
enum At {
    Node(InputPosition),
    Mark {
        document: usize,
        mark: Mark,
    },
    /// The text names the place.
    Said,
}

impl Pile {
    fn add(&mut self, at: At, text: String, other: Option<InputPosition>) {
        self.count += 1;
        if self.kept.len() < MOST_KEPT {
            self.kept.push(Problem { at, text, other });
        }
    }
}

impl Problems {
    pub(super) fn error(&mut self, place: InputPosition, text: impl Into<String>) {
        self.errors.add(At::Node(place), text.into(), None);
    }

    pub(super) fn error_with(&mut self, place: InputPosition, text: impl Into<String>, other: InputPosition) {
        self.errors.add(At::Node(place), text.into(), Some(other));
    }

    pub(super) fn error_at(&mut self, document: usize, mark: Mark, text: impl Into<String>) {
        self.errors.add(At::Mark { document, mark }, text.into(), None);
    }

    /// An error; the text names the place.
    pub fn error_said(&mut self, text: impl Into<String>) {
        self.errors.add(At::Said, text.into(), None);
    }

    pub(super) fn warning(&mut self, place: InputPosition, text: impl Into<String>) {
        self.warnings.add(At::Node(place), text.into(), None);
    }

    /// A warning; the text names the place.
    pub(super) fn warning_said(&mut self, text: impl Into<String>) {
        self.warnings.add(At::Said, text.into(), None);
    }

    /// The number of errors; the input is usable if it is 0.
    pub fn error_count(&self) -> usize {
        self.errors.count
    }

    /// All errors, one line each, of objects that are in no file.
    #[must_use]
    pub fn render_errors(&self) -> Vec<String> {
        render_pile(&self.errors, &Sources::default(), "", MOST_ERRORS)
    }

    /// All warnings, then all errors, each in input order, for standard error.
    pub fn render(&self, sources: &Sources) -> Vec<String> {
        let mut lines = render_pile(&self.warnings, sources, "warning: ", MOST_WARNINGS);
        if self.warnings.count > MOST_WARNINGS {
            lines.push(format!("and {} more warnings", self.warnings.count - MOST_WARNINGS));
        }
        lines.extend(render_pile(&self.errors, sources, "", MOST_ERRORS));
        if self.errors.count > MOST_ERRORS {
            lines.push(format!("and {} more errors", self.errors.count - MOST_ERRORS));
        }
        lines
    }
}

fn render_pile(pile: &Pile, sources: &Sources, prefix: &str, most: usize) -> Vec<String> {
    let places = pile.kept.iter().flat_map(|problem| {
        let node = if let At::Node(place) = &problem.at { Some(place) } else { None };
        node.into_iter().chain(&problem.other)
    });
    let positions = positions(sources, places);
    let mut placed: Vec<(Option<Position>, String)> = Vec::with_capacity(pile.kept.len());
    for problem in &pile.kept {
        let position = match &problem.at {
            At::Node(place) => find(&positions, place).cloned(),
            At::Mark { document, mark } => sources.position(*document, *mark),
            At::Said => None,
        };
        let other = match &problem.other {
            Some(place) => find(&positions, place).map_or_else(|| " --generate".to_owned(), |at| format!(" {at}")),
            None => String::new(),
        };
        placed.push((position, format!("{}{other}", problem.text)));
    }
    placed.sort();
    let line = |(position, text): (Option<Position>, String)| match position {
        Some(position) => format!("{position}: {prefix}{text}"),
        None => format!("{prefix}{text}"),
    };
    placed.into_iter().take(most).map(line).collect()
}

/// Positions of nodes, by document, path and side.
type Positions<'a> = BTreeMap<usize, Vec<((&'a Path, bool), Position)>>;

/// Resolves all places with one pass over each document.
fn positions<'a>(sources: &Sources, places: impl Iterator<Item = &'a InputPosition>) -> Positions<'a> {
    let mut wanted: BTreeMap<usize, Vec<(&Path, bool)>> = BTreeMap::new();
    for place in places {
        if let Some(document) = place.document {
            wanted.entry(document).or_default().push((&place.path, place.is_key));
        }
    }
    let locate = |(document, wanted): (usize, Vec<(&'a Path, bool)>)| {
        let positions = sources.positions(document, &wanted);
        (document, wanted.into_iter().zip(positions).collect())
    };
    wanted.into_iter().map(locate).collect()
}

fn find<'a>(positions: &'a Positions<'_>, place: &InputPosition) -> Option<&'a Position> {
    let known = positions.get(&place.document?)?;
    known.iter().find(|((path, is_key), _)| *path == &place.path && *is_key == place.is_key).map(|(_, at)| at)
}
