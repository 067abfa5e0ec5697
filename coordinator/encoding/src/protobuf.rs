//! Envelopes, pages and changes in protobuf.
//!
//! Source: k8s.io/apimachinery `pkg/runtime/serializer/protobuf`.

use bytes::{Buf as _, Bytes};
use prost::Message as _;

use crate::{
    DecodeError,
    answer::{Bookmark, Change, INITIAL_EVENTS_END, Item, Page, Read, Status},
    caught,
    convert::some,
    object::{Metadata, Object},
    pb,
};

/// The prefix of every top-level object.
pub(crate) const MAGIC: [u8; 4] = *b"k8s\0";

pub(crate) fn open(mut bytes: Bytes) -> Result<Bytes, DecodeError> {
    if !bytes.starts_with(&MAGIC) {
        return Err(DecodeError::Envelope(bytes.iter().take(MAGIC.len()).copied().collect()));
    }
    bytes.advance(MAGIC.len());
    let unknown = pb::Unknown::decode(bytes)?;
    if unknown.content_encoding.is_empty() {
        Ok(unknown.raw)
    } else {
        Err(DecodeError::Encoded(unknown.content_encoding))
    }
}

pub(crate) fn page(body: Bytes) -> Result<Page, DecodeError> {
    let list = pb::List::decode(open(body)?)?;
    let metadata = list.metadata.unwrap_or_default();
    let items = list.items.into_iter().map(Item::protobuf).collect();
    Ok(Page { version: some(metadata.resource_version), more: some(metadata.r#continue), items })
}

pub(crate) fn change<T: Object>(frame: Bytes) -> Result<Change<T>, DecodeError> {
    let event = pb::WatchEvent::decode(frame)?;
    let object = open(event.object.unwrap_or_default().raw)?;
    match event.r#type.as_str() {
        "ADDED" | "MODIFIED" => Ok(Change::Applied(read(&object)?)),
        "DELETED" => Ok(Change::Deleted(named(&object)?)),
        "BOOKMARK" => {
            let metadata = pb::Bookmark::decode(object)?.metadata.unwrap_or_default();
            let ends_list = metadata.annotations.get(INITIAL_EVENTS_END).is_some_and(|value| value == "true");
            Ok(Change::Bookmark(Bookmark { version: some(metadata.resource_version), ends_list }))
        }
        "ERROR" => Ok(Change::Error(pb::Status::decode(object)?.into())),
        _ => Err(DecodeError::Change(event.r#type)),
    }
}

pub(crate) fn read<T: Object>(object: &[u8]) -> Result<Read<T>, DecodeError> {
    let decode = || T::Message::decode(object).map_err(DecodeError::from).and_then(T::from_message);
    match caught(decode).and_then(|decoded| decoded) {
        Ok(object) => Ok(Read::Whole(object)),
        Err(error) => match named(object) {
            Ok(metadata) => Ok(Read::Unreadable(Box::new(metadata), error.to_string())),
            Err(_) => Err(error),
        },
    }
}

pub(crate) fn named(object: &[u8]) -> Result<Metadata, DecodeError> {
    Ok(pb::Named::decode(object)?.metadata.unwrap_or_default().into())
}

pub(crate) fn status(body: Bytes) -> Result<Status, DecodeError> {
    Ok(pb::Status::decode(open(body)?)?.into())
}

impl From<pb::Status> for Status {
    fn from(status: pb::Status) -> Self {
        let code = u16::try_from(status.code).unwrap_or_default();
        Self { code, reason: status.reason, message: status.message }
    }
}
