//! Where in the input something stands: which document, and which node of it.

pub(crate) use flotilla_objects::path::{Path, Step};

/// A node of the input, as messages refer to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
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
    pub fn nowhere() -> Self {
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
