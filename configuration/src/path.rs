//! Where in a document something stands: `profiles[0].plugins.score.enabled[1].name`.
//!
//! Knows: how a path is extended and printed. Must not know: YAML, lines and columns, or what any field means.

use std::fmt;

/// One step down a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Segment {
    /// Into the value of a mapping's key.
    Key(String),
    /// Into an element of a list, counted from 0.
    Index(usize),
}

/// The steps from the root of the document to a node; empty for the root.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Path(Vec<Segment>);

impl Path {
    /// The node's value under `key`.
    pub(super) fn key(&self, key: &str) -> Self {
        self.join(Segment::Key(key.to_owned()))
    }

    /// The node's element `index`.
    pub(super) fn index(&self, index: usize) -> Self {
        self.join(Segment::Index(index))
    }

    /// One step further down.
    pub(super) fn join(&self, segment: Segment) -> Self {
        let mut segments = self.0.clone();
        segments.push(segment);
        Self(segments)
    }

    /// This path with the steps of `relative` behind it.
    pub(super) fn concat(&self, relative: &Self) -> Self {
        let mut segments = self.0.clone();
        segments.extend(relative.0.iter().cloned());
        Self(segments)
    }

    /// Whether `ancestor` is this node or stands above it.
    pub(super) fn is_within(&self, ancestor: &Self) -> bool {
        self.0.starts_with(&ancestor.0)
    }

    /// The steps, from the root.
    pub(super) fn segments(&self) -> &[Segment] {
        &self.0
    }
}

impl FromIterator<Segment> for Path {
    fn from_iter<I: IntoIterator<Item = Segment>>(segments: I) -> Self {
        Self(segments.into_iter().collect())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return out.write_str("document");
        }
        for (depth, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(out, "[{index}]")?,
                Segment::Key(key) if is_plain(key) => {
                    let dot = if depth == 0 { "" } else { "." };
                    write!(out, "{dot}{key}")?;
                }
                Segment::Key(key) => write!(out, "[{}]", super::report::quoted(key))?,
            }
        }
        Ok(())
    }
}

/// Whether `key` can stand in a path without quotes and without being taken for something else.
fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.len() <= 64 && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}
