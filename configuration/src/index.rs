//! Positions of a document's nodes.

use indexmap::IndexMap;
use saphyr_parser::{ScanError, Span};

use super::path::{Path, Segment};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    /// From 1.
    pub(super) line: usize,
    /// From 1, in characters.
    pub(super) column: usize,
    /// In characters; `None` up to the end of the line.
    pub(super) width: Option<usize>,
}

impl Mark {
    pub(super) const START: Self = Self { line: 1, column: 1, width: None };

    pub(super) fn of(span: Span) -> Self {
        let width = (span.start.line() == span.end.line() && span.end.col() > span.start.col())
            .then(|| span.end.col() - span.start.col());
        Self { line: span.start.line(), column: span.start.col() + 1, width }
    }

    pub(super) fn of_error(error: &ScanError) -> Self {
        Self { line: error.marker().line().max(1), column: error.marker().col() + 1, width: Some(1) }
    }
}

/// A syntax error, independent of the fields.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) mark: Mark,
    pub(super) path: Path,
    pub(super) found: String,
    pub(super) expected: String,
    pub(super) hint: Option<String>,
    /// Whether reading cannot continue.
    pub(super) fatal: bool,
}

#[derive(Debug)]
pub(super) enum Children {
    None,
    Mapping(IndexMap<String, usize>),
    List(Vec<usize>),
}

/// The position of one node. A node that is reached through an alias has the position of its definition.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) key: Option<Mark>,
    pub(super) value: Mark,
    pub(super) children: Children,
}

#[derive(Debug, Default)]
pub(super) struct Index {
    nodes: Vec<Node>,
}

impl Index {
    pub(super) fn new(nodes: Vec<Node>) -> Self {
        Self { nodes }
    }

    /// The position of the value at `path`, or of its nearest ancestor if the value is absent.
    ///
    /// A mapping or list under a key is marked by its key, because its first character is not informative.
    pub(super) fn value(&self, path: &Path) -> Mark {
        let Some(node) = self.nearest(path) else { return Mark::START };
        match (&node.children, node.key) {
            (Children::None, _) | (_, None) => node.value,
            (_, Some(key)) => key,
        }
    }

    /// The position of the key at `path`, or of its nearest ancestor if the key is absent.
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
