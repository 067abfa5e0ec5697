//! Where in the input something stands, in steps rather than in lines.
//!
//! Knows: how a path is extended and printed. Must not know: lines, columns, or what any field means.

use std::fmt;

/// One step down a document.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// Into the value of a mapping's key.
    Key(Box<str>),
    /// Into an element of a list, counted from 0.
    Index(usize),
}

/// The steps from the root of a document to a node; empty for the root.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Path(Vec<Step>);

impl Path {
    /// The node's value under `key`.
    pub(super) fn key(&self, key: &str) -> Self {
        self.join(Step::Key(key.into()))
    }

    /// The node's element `index`.
    pub(super) fn index(&self, index: usize) -> Self {
        self.join(Step::Index(index))
    }

    /// The node's value under each key in turn.
    pub(super) fn keys(&self, keys: &[&str]) -> Self {
        self.concat(&keys.iter().map(|&key| Step::Key(key.into())).collect())
    }

    /// This path with the steps of `relative` behind it.
    pub(super) fn concat(&self, relative: &Self) -> Self {
        Self(self.0.iter().chain(&relative.0).cloned().collect())
    }

    /// The steps, from the root.
    pub(super) fn steps(&self) -> &[Step] {
        &self.0
    }

    fn join(&self, step: Step) -> Self {
        Self(self.0.iter().cloned().chain([step]).collect())
    }
}

impl FromIterator<Step> for Path {
    fn from_iter<I: IntoIterator<Item = Step>>(steps: I) -> Self {
        Self(steps.into_iter().collect())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(out, "[{index}]")?,
                Step::Key(key) if key.chars().all(|c| c.is_alphanumeric() || c == '_') => {
                    write!(out, "{}{key}", if depth == 0 { "" } else { "." })?;
                }
                Step::Key(key) => write!(out, "[{key}]")?,
            }
        }
        Ok(())
    }
}

/// A node of the input, for whoever has to point at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The number of the document, counted over all files; `None` for what was made up.
    pub(super) document: Option<usize>,
    /// The node in the document.
    pub(super) path: Path,
    /// Whether the node's key is meant rather than its value.
    pub(super) is_key: bool,
}

impl Place {
    /// The root of a document.
    pub(super) fn document(number: usize) -> Self {
        Self { document: Some(number), path: Path::default(), is_key: false }
    }

    /// Something that no file holds.
    pub(crate) fn nowhere() -> Self {
        Self { document: None, path: Path::default(), is_key: false }
    }

    /// The node at `path` under this one.
    pub(super) fn at(&self, path: &Path) -> Self {
        Self { path: self.path.concat(path), ..*self }
    }

    /// The node under each key in turn.
    pub(super) fn keys(&self, keys: &[&str]) -> Self {
        Self { path: self.path.keys(keys), ..*self }
    }

    /// The key of this node.
    pub(super) fn on_key(self) -> Self {
        Self { is_key: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_printed_as_kubectl_users_write_it() {
        let path = Path::default().keys(&["spec", "containers"]).index(0).keys(&["requests", "example.com/gpu"]);
        assert_eq!(path.to_string(), "spec.containers[0].requests[example.com/gpu]");
        assert_eq!(Path::default().to_string(), "");
    }
}
