//! Decoding errors.

use crate::frame::FRAME_BYTES;

/// Reason that bytes from the API server are not an object, page or frame.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Invalid JSON or an unexpected shape.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// Invalid protobuf or an unexpected shape.
    #[error("{0}")]
    Protobuf(#[from] prost::DecodeError),
    /// A protobuf object without envelope.
    #[error("an object in protobuf begins with \"k8s\" and a zero byte; this one begins with {0:?}")]
    Envelope(Vec<u8>),
    /// An envelope with compressed or otherwise encoded content.
    #[error("an object in protobuf is encoded as {0:?}, which was not asked for")]
    Encoded(String),
    /// A custom resource in protobuf.
    #[error("a custom resource in protobuf; API servers encode custom resources in JSON only")]
    Custom,
    /// A change of unknown type.
    #[error("a watch has changes of type ADDED, MODIFIED, DELETED, BOOKMARK and ERROR; this one is of type {0:?}")]
    Change(String),
    /// A frame that is too long.
    #[error("a frame of {0} bytes; an object has at most {FRAME_BYTES}")]
    Oversized(usize),
    /// Reading the object panicked with this message.
    #[error("the code that reads it panicked, which is a bug in Flotilla to report: {0}")]
    Panicked(String),
    /// A DeviceTaintRule of v1alpha3 with a selector that later versions do not have.
    #[error(
        "spec.deviceSelector: deviceClassName and selectors are not supported, as in Kubernetes since 1.35; select by driver, pool or \
         device instead"
    )]
    TaintSelector,
    /// A stream that ended within a frame.
    #[error("the answer ended within a frame, after {0} bytes of it")]
    Truncated(usize),
}

impl From<std::convert::Infallible> for DecodeError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}
