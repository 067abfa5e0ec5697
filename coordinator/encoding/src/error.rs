//! The errors of decoding.

use crate::frame::FRAME_BYTES;

/// Why bytes from the API server are no object, page or frame.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// No JSON, or not of the shape that is expected.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// No protobuf, or not of the shape that is expected.
    #[error("{0}")]
    Protobuf(#[from] prost::DecodeError),
    /// An object in protobuf without the envelope.
    #[error("an object in protobuf begins with \"k8s\" and a zero byte; this one begins with {0:?}")]
    Envelope(Vec<u8>),
    /// An object in an envelope that says that it is compressed or otherwise encoded.
    #[error("an object in protobuf is encoded as {0:?}, which was not asked for")]
    Encoded(String),
    /// A change of a kind that is not known.
    #[error("a watch has changes of type ADDED, MODIFIED, DELETED, BOOKMARK and ERROR; this one is of type {0:?}")]
    Change(String),
    /// A frame that is too long.
    #[error("a frame of {0} bytes; an object has at most {FRAME_BYTES}")]
    Oversized(usize),
    /// What reads an object has panicked, with this message.
    #[error("the code that reads it panicked, which is a bug in Flotilla to report: {0}")]
    Panicked(String),
    /// A stream that ended within a frame.
    #[error("the answer ended within a frame, after {0} bytes of it")]
    Truncated(usize),
}

impl From<std::convert::Infallible> for DecodeError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}
