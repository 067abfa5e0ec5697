//! Error responses of the API server. Source: k8s.io/apimachinery `pkg/api/errors`.

use serde_json::{Value, json};

use super::kind::Kind;

/// Error response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({code} {reason})")]
pub struct Refusal {
    /// HTTP code.
    pub code: u16,
    /// Reason.
    pub reason: &'static str,
    /// Message.
    pub message: String,
    /// `Retry-After` in seconds.
    pub retry_after_s: Option<u32>,
}

impl Refusal {
    /// A refusal with this code.
    #[must_use]
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), retry_after_s: None }
    }

    /// 404: the object does not exist.
    #[must_use]
    pub fn not_found(kind: Kind, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", kind.resource()))
    }

    /// 409: the object already exists.
    #[must_use]
    pub fn already_exists(kind: Kind, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", kind.resource()))
    }

    /// 409: the object is in another state than the request assumes.
    #[must_use]
    pub fn conflict(resource: &str, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}");
        Self::new(409, "Conflict", message)
    }

    /// 409: the object has another version than in the request.
    #[must_use]
    pub fn modified(kind: Kind, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(&kind.resource(), name, why)
    }

    /// 409: the object has another UID than in the request.
    #[must_use]
    pub fn other_uid(kind: Kind, name: &str, asked: &str, is: &str) -> Self {
        let why = format!(
            "StorageError: invalid object, Code: 4, AdditionalErrorMsg: Precondition failed: UID in precondition: {asked}, \
             UID in object meta: {is}"
        );
        Self::conflict(&kind.resource(), name, &why)
    }

    /// 400: invalid request.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 422: invalid object.
    #[must_use]
    pub fn invalid(kind: Kind, name: &str, why: &str) -> Self {
        Self::new(422, "Invalid", format!("{} \"{name}\" is invalid: {why}", kind.name()))
    }

    /// 410: the version has expired.
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 504: the version is newer than the cache.
    #[must_use]
    pub fn too_large(asked: u64, has: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {has}");
        Self { retry_after_s: Some(1), ..Self::new(504, "Timeout", message) }
    }

    /// 429: too many requests.
    #[must_use]
    pub fn too_many(retry_after_s: Option<u32>) -> Self {
        let message = "Too many requests, please try again later.";
        Self { retry_after_s, ..Self::new(429, "TooManyRequests", message) }
    }

    /// The `Status` object.
    #[must_use]
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if let Some(seconds) = self.retry_after_s {
            status["details"] = json!({ "retryAfterSeconds": seconds });
        }
        status
    }
}
