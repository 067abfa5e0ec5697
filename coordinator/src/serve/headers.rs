//! Headers of the answers.

use axum::http::{HeaderName, header};

pub(super) const TEXT: (HeaderName, &str) = (header::CONTENT_TYPE, "text/plain; charset=utf-8");
/// As the API server sends with each answer.
pub(super) const NOSNIFF: (HeaderName, &str) = (header::X_CONTENT_TYPE_OPTIONS, "nosniff");
