//! The text of an expression: where in it a node stands, and errors that show the place.

use crate::syntax::Id;

/// Upstream reports no more errors of one expression than this.
const MAX_ERRORS: usize = 100;
/// Upstream shows no line that is longer than this.
const MAX_SNIPPET_LENGTH: usize = 16_384;

/// The text, and the place of each node.
#[derive(Debug)]
pub(crate) struct Source {
    text: String,
    /// Offsets in characters, by the number of the node.
    offsets: Vec<usize>,
}

impl Source {
    /// A text without nodes.
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), offsets: vec![0] }
    }

    /// A new node at a character's offset.
    pub(crate) fn node(&mut self, offset: usize) -> Id {
        self.offsets.push(offset);
        Id::try_from(self.offsets.len() - 1).unwrap_or(Id::MAX)
    }

    /// How many nodes there are.
    pub(crate) fn nodes(&self) -> usize {
        self.offsets.len()
    }

    /// The offset of a node in characters.
    pub(crate) fn offset(&self, id: Id) -> usize {
        self.offsets.get(id as usize).copied().unwrap_or_default()
    }

    /// Line, from 1, and column, from 0, of an offset.
    fn position(&self, offset: usize) -> (usize, usize) {
        let before = self.text.chars().take(offset);
        before.fold((1, 0), |(line, column), one| if one == '\n' { (line + 1, 0) } else { (line, column + 1) })
    }
}

/// The errors found in one expression.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    /// Offsets in characters, where there is a place.
    found: Vec<(Option<usize>, String)>,
}

impl Errors {
    /// Reports an error at a character's offset.
    pub(crate) fn at(&mut self, offset: usize, message: String) {
        self.found.push((Some(offset), message));
    }

    /// Reports an error of the whole text.
    pub(crate) fn nowhere(&mut self, message: String) {
        self.found.push((None, message));
    }

    /// Whether nothing was reported.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// All errors with the lines in which they are, as upstream prints them: by their place.
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
