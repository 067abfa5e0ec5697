//! Where every node of a document stands.
//!
//! Knows: lines, columns and paths. Must not know: YAML, which fields there are, or what a value means.

use indexmap::IndexMap;
use saphyr_parser::{ScanError, Span};

use super::path::{Path, Segment};

/// A stretch of one source line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    /// Counted from 1.
    pub(super) line: usize,
    /// Counted from 1, in characters.
    pub(super) column: usize,
    /// In characters; `None` to the end of the line.
    pub(super) width: Option<usize>,
}

impl Mark {
    /// The very beginning of the text.
    pub(super) const START: Self = Self { line: 1, column: 1, width: None };

    /// The stretch of a parser's event.
    pub(super) fn of(span: Span) -> Self {
        let width = (span.start.line() == span.end.line() && span.end.col() > span.start.col())
            .then(|| span.end.col() - span.start.col());
        Self { line: span.start.line(), column: span.start.col() + 1, width }
    }

    /// Where a parser gave up.
    pub(super) fn of_error(error: &ScanError) -> Self {
        Self { line: error.marker().line().max(1), column: error.marker().col() + 1, width: Some(1) }
    }
}

/// Something that no configuration may hold, whatever its fields.
#[derive(Debug)]
pub(super) struct Fault {
    /// Where it stands.
    pub(super) mark: Mark,
    /// The node it concerns.
    pub(super) path: Path,
    /// What is there, as a clause.
    pub(super) found: String,
    /// What should be there.
    pub(super) expected: String,
    /// What to do about it.
    pub(super) hint: Option<String>,
    /// Whether the document cannot be read any further.
    pub(super) fatal: bool,
}

/// What a node holds, by number.
#[derive(Debug)]
pub(super) enum Children {
    /// Nothing: the node is a scalar.
    None,
    /// The values of a mapping.
    Mapping(IndexMap<String, usize>),
    /// The elements of a list.
    List(Vec<usize>),
}

/// The place of one node. A node that is reached through an alias stands where it is written.
#[derive(Debug)]
pub(super) struct Node {
    /// Where its key stands, if it has one.
    pub(super) key: Option<Mark>,
    /// Where it begins.
    pub(super) value: Mark,
    /// What it holds.
    pub(super) children: Children,
}

/// The positions of all nodes of a document.
#[derive(Debug, Default)]
pub(super) struct Index {
    nodes: Vec<Node>,
}

impl Index {
    /// Positions of which the first is that of the document.
    pub(super) fn new(nodes: Vec<Node>) -> Self {
        Self { nodes }
    }

    /// The position of the value at `path`; of its nearest ancestor when it is not written down.
    ///
    /// A mapping or a list that stands under a key is shown by its key: its first character says little.
    pub(super) fn value(&self, path: &Path) -> Mark {
        let Some(node) = self.nearest(path) else { return Mark::START };
        match (&node.children, node.key) {
            (Children::None, _) | (_, None) => node.value,
            (_, Some(key)) => key,
        }
    }

    /// The position of the key at `path`; of its nearest ancestor when it is not written down.
    pub(super) fn key(&self, path: &Path) -> Mark {
        self.nearest(path).map_or(Mark::START, |node| node.key.unwrap_or(node.value))
    }

    fn nearest(&self, path: &Path) -> Option<&Node> {
        let mut node = self.nodes.first()?;
        for segment in path.segments() {
            let child = match (&node.children, segment) {
                (Children::Mapping(children), Segment::Key(key)) => children.get(key).copied(),
                (Children::List(children), Segment::Index(index)) => children.get(*index).copied(),
                _ => None,
            };
            match child.and_then(|child| self.nodes.get(child)) {
                Some(child) => node = child,
                None => break,
            }
        }
        Some(node)
    }
}
