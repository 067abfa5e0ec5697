//! Labels of objects.

use std::sync::Arc;

/// Labels, sorted by key.
pub type Labels = Vec<(Arc<str>, Arc<str>)>;
