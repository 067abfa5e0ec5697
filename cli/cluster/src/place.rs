//! The position of a node in the input: document and path.

pub(crate) use flotilla_objects::path::{Path, Step};

/// A node of the input, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputPosition {
    /// The index of the document over all files; `None` for generated objects.
    pub(super) document: Option<usize>,
    pub(super) path: Path,
    pub(super) is_key: bool,
}

impl InputPosition {
    pub(super) fn document(number: usize) -> Self {
        Self { document: Some(number), path: Path::default(), is_key: false }
    }

    /// The place of an object that is in no file.
    pub fn nowhere() -> Self {
        Self { document: None, path: Path::default(), is_key: false }
    }

    pub(super) fn at(&self, path: &Path) -> Self {
        Self { path: self.path.concat(path), ..*self }
    }

    pub(super) fn keys(&self, keys: &[&str]) -> Self {
        Self { path: self.path.keys(keys), ..*self }
    }

    pub(super) fn on_key(self) -> Self {
        Self { is_key: true, ..self }
    }
}
