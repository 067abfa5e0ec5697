//! Responses of the API server: list pages, watch changes and statuses.

use std::{fmt, sync::Arc};

use bytes::Bytes;

use crate::{
    DecodeError, Encoding, json,
    object::{Metadata, Object},
    protobuf,
};

pub(crate) const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// A page of a list.
#[derive(Debug)]
pub struct Page {
    /// The `resourceVersion` of the list.
    pub version: Option<String>,
    /// The continue token; `None` on the last page.
    pub more: Option<String>,
    /// The objects, still encoded.
    pub items: Vec<Item>,
}

impl Page {
    /// Decodes a page.
    ///
    /// # Errors
    /// The body is not a list.
    pub fn decode(encoding: Encoding, body: Bytes) -> Result<Self, DecodeError> {
        match encoding {
            Encoding::Json => json::page(&body),
            Encoding::Protobuf => protobuf::page(body),
        }
    }
}

/// An object of a page, as a slice of its body.
#[derive(Debug)]
pub struct Item {
    encoding: Encoding,
    /// The version of the list's objects in protobuf. In JSON their shape is enough.
    api_version: Arc<str>,
    bytes: Bytes,
}

impl Item {
    pub(crate) fn json(bytes: Bytes) -> Self {
        Self { encoding: Encoding::Json, api_version: Arc::default(), bytes }
    }

    pub(crate) fn protobuf(bytes: Bytes, api_version: &Arc<str>) -> Self {
        Self { encoding: Encoding::Protobuf, api_version: Arc::clone(api_version), bytes }
    }

    /// Decodes the object.
    ///
    /// # Errors
    /// Not even its name can be read.
    pub fn read<T: Object>(&self) -> Result<Read<T>, DecodeError> {
        match self.encoding {
            Encoding::Json => json::read(&self.bytes),
            Encoding::Protobuf => protobuf::read(&self.api_version, &self.bytes),
        }
    }

    /// Decodes the object's identity, for any kind.
    ///
    /// # Errors
    /// Not even its name can be read.
    pub fn named(&self) -> Result<Metadata, DecodeError> {
        match self.encoding {
            Encoding::Json => json::named(&self.bytes),
            Encoding::Protobuf => protobuf::named(&self.bytes),
        }
    }
}

/// An existing object.
#[derive(Debug)]
pub enum Read<T> {
    /// Decoded.
    Whole(T),
    /// Not decodable except for its identity, with the reason.
    Unreadable(Box<Metadata>, String),
}

impl<T: Object> Read<T> {
    /// The metadata, or only the identity of an object that does not decode.
    pub fn metadata(&self) -> &Metadata {
        match self {
            Self::Whole(object) => object.metadata(),
            Self::Unreadable(metadata, _) => metadata,
        }
    }
}

/// One frame of a watch.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are objects, and one is there at a time: a box would be an allocation for each"
)]
pub enum Change<T> {
    /// An object was added or modified.
    Applied(Read<T>),
    /// An object was deleted.
    Deleted(Metadata),
    /// A bookmark.
    Bookmark(Bookmark),
    /// The watch ends with this status.
    Error(Status),
}

impl<T: Object> Change<T> {
    /// Decodes a frame.
    ///
    /// # Errors
    /// The frame is not a change, or its object has no readable name.
    pub fn decode(encoding: Encoding, frame: Bytes) -> Result<Self, DecodeError> {
        match encoding {
            Encoding::Json => json::change(&frame),
            Encoding::Protobuf => protobuf::change(frame),
        }
    }
}

/// The progress of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bookmark {
    /// The `resourceVersion` of the last change sent.
    pub version: Option<String>,
    /// Whether all initial objects are sent.
    pub ends_list: bool,
}

/// An error status of the API server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// The HTTP code.
    pub code: u16,
    /// A reason such as `NotFound`.
    pub reason: String,
    /// The message.
    pub message: String,
}

impl Status {
    /// The status in the body, or else the HTTP code with the body as message.
    #[must_use]
    pub fn decode(encoding: Encoding, code: u16, body: Bytes) -> Self {
        let decoded = match encoding {
            Encoding::Json => json::status(&body),
            Encoding::Protobuf => protobuf::status(body.clone()),
        };
        match decoded {
            Ok(status) => Self { code, ..status },
            Err(_) => Self { code, reason: String::new(), message: String::from_utf8_lossy(&body).into_owned() },
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, reason, message } = self;
        match (&**message, &**reason) {
            ("", "") => write!(out, "the API server answers with {code}"),
            ("", reason) => write!(out, "{reason} ({code})"),
            (message, _) => write!(out, "{message} ({code})"),
        }
    }
}
