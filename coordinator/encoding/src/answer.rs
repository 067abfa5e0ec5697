//! What the API server answers: pages of a list, changes of a watch, and why it refuses.
//!
//! Knows: the parts of an answer. Must not know: how each encoding writes them (`json`, `protobuf`).

use std::fmt;

use bytes::Bytes;

use crate::{
    DecodeError, Encoding, json,
    object::{Metadata, Object},
    protobuf,
};

/// The annotation of the bookmark after which a watch has told all that there was.
pub(crate) const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// A part of a list.
#[derive(Debug)]
pub struct Page {
    /// The `resourceVersion` of the list.
    pub version: Option<String>,
    /// What to ask with for the next part; `None`: this is the last one.
    pub more: Option<String>,
    /// The objects, not decoded yet.
    pub items: Vec<Item>,
}

impl Page {
    /// A page out of the body of an answer.
    ///
    /// # Errors
    /// It is no list.
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
    bytes: Bytes,
}

impl Item {
    pub(crate) fn json(bytes: Bytes) -> Self {
        Self { encoding: Encoding::Json, bytes }
    }

    pub(crate) fn protobuf(bytes: Bytes) -> Self {
        Self { encoding: Encoding::Protobuf, bytes }
    }

    /// Decodes it.
    ///
    /// # Errors
    /// Not even a name can be read.
    pub fn read<T: Object>(&self) -> Result<Read<T>, DecodeError> {
        match self.encoding {
            Encoding::Json => json::read(&self.bytes),
            Encoding::Protobuf => protobuf::read(&self.bytes),
        }
    }

    /// What names the object, whatever it is.
    ///
    /// # Errors
    /// Not even a name can be read.
    pub fn named(&self) -> Result<Metadata, DecodeError> {
        match self.encoding {
            Encoding::Json => json::named(&self.bytes),
            Encoding::Protobuf => protobuf::named(&self.bytes),
        }
    }
}

/// An object that is there.
#[derive(Debug)]
pub enum Read<T> {
    /// It has been decoded.
    Whole(T),
    /// It has a name and does not decode, for this reason.
    Unreadable(Box<Metadata>, String),
}

impl<T: Object> Read<T> {
    /// Its metadata; of one that does not decode only what names it.
    pub fn metadata(&self) -> &Metadata {
        match self {
            Self::Whole(object) => object.metadata(),
            Self::Unreadable(metadata, _) => metadata,
        }
    }
}

/// What a frame of a watch tells.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are objects, and one is there at a time: a box would be an allocation for each"
)]
pub enum Change<T> {
    /// An object is there, as it is now.
    Applied(Read<T>),
    /// An object is gone.
    Deleted(Metadata),
    /// How far the watch has got.
    Bookmark(Bookmark),
    /// Why the watch ends.
    Error(Status),
}

impl<T: Object> Change<T> {
    /// A change out of a frame.
    ///
    /// # Errors
    /// It is none, or of an object of which not even a name can be read.
    pub fn decode(encoding: Encoding, frame: Bytes) -> Result<Self, DecodeError> {
        match encoding {
            Encoding::Json => json::change(&frame),
            Encoding::Protobuf => protobuf::change(frame),
        }
    }
}

/// How far a watch has got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bookmark {
    /// The `resourceVersion` up to which all changes have been told.
    pub version: Option<String>,
    /// All objects that there were when the watch began have been told.
    pub ends_list: bool,
}

/// Why the API server does not do what it was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// The HTTP code.
    pub code: u16,
    /// Why, in a word, such as `NotFound`.
    pub reason: String,
    /// Why, for people.
    pub message: String,
}

impl Status {
    /// The status in the body of an answer with this HTTP code; where there is none, what the body says.
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
