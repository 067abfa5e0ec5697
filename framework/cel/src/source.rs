//! Source text of an expression: offsets of nodes, and errors with their positions.

use crate::syntax::Id;

/// Upstream reports at most this many errors per expression.
const MAX_ERRORS: usize = 100;
const MAX_SNIPPET_LENGTH: usize = 16_384;

#[derive(Debug)]
pub(crate) struct Source {
    text: String,
    offsets: Vec<usize>,
}

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), offsets: vec![0] }
    }

    pub(crate) fn node(&mut self, offset: usize) -> Id {
        self.offsets.push(offset);
        Id::try_from(self.offsets.len() - 1).unwrap_or(Id::MAX)
    }

    pub(crate) fn nodes(&self) -> usize {
        self.offsets.len()
    }

    pub(crate) fn offset(&self, id: Id) -> usize {
        self.offsets.get(id as usize).copied().unwrap_or_default()
    }

    /// Line, from 1, and column, from 0.
    fn position(&self, offset: usize) -> (usize, usize) {
        let before = self.text.chars().take(offset);
        before.fold((1, 0), |(line, column), one| if one == '\n' { (line + 1, 0) } else { (line, column + 1) })
    }
}

#[derive(Debug, Default)]
pub(crate) struct Errors {
    /// Offsets in characters, if known.
    found: Vec<(Option<usize>, String)>,
}

impl Errors {
    pub(crate) fn at(&mut self, offset: usize, message: String) {
        self.found.push((Some(offset), message));
    }

    pub(crate) fn nowhere(&mut self, message: String) {
        self.found.push((None, message));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// All errors with their source lines, ordered by position as upstream prints them.
    pub(crate) fn show(&self, source: &Source) -> String {
        let mut placed: Vec<_> = self
            .found
            .iter()
            .take(MAX_ERRORS)
            .map(|(offset, message)| (offset.map(|offset| source.position(offset)), message))
            .collect();
        placed.sort_by_key(|(position, _)| *position);
        let mut told: Vec<String> =
            placed.into_iter().map(|(position, message)| show(source, position, message)).collect();
        if self.found.len() > MAX_ERRORS {
            told.push(format!("{} more errors were truncated", self.found.len() - MAX_ERRORS));
        }
        told.join("\n")
    }
}

fn show(source: &Source, position: Option<(usize, usize)>, message: &str) -> String {
    let Some((line, column)) = position else { return format!("ERROR: <input>:-1:0: {message}") };
    let mut told = format!("ERROR: <input>:{line}:{}: {message}", column + 1);
    if let Some(snippet) = source.text.split('\n').nth(line - 1)
        && snippet.len() <= MAX_SNIPPET_LENGTH
    {
        let snippet = snippet.replace('\t', " ");
        told.push_str("\n | ");
        told.push_str(&snippet);
        told.push_str("\n | ");
        let is_wide = |one: char| one.len_utf8() > 1;
        told.extend(snippet.chars().take(column).map(|one| if is_wide(one) { '\u{ff0e}' } else { '.' }));
        told.push(if snippet.chars().nth(column).is_some_and(is_wide) { '\u{ff3e}' } else { '^' });
    }
    told
}
