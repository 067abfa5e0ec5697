//! Envelopes, pages and changes in protobuf.
//!
//! Source: k8s.io/apimachinery `pkg/runtime/serializer/protobuf`.

use std::sync::Arc;

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

/// The content of an envelope.
pub(crate) struct Opened {
    /// Such as `resource.k8s.io/v1beta1`; may be empty.
    pub(crate) api_version: String,
    pub(crate) object: Bytes,
}

fn open(bytes: Bytes) -> Result<Bytes, DecodeError> {
    Ok(opened(bytes)?.object)
}

pub(crate) fn opened(mut bytes: Bytes) -> Result<Opened, DecodeError> {
    if !bytes.starts_with(&MAGIC) {
        return Err(DecodeError::Envelope(bytes.iter().take(MAGIC.len()).copied().collect()));
    }
    bytes.advance(MAGIC.len());
    let unknown = pb::Unknown::decode(bytes)?;
    if unknown.content_encoding.is_empty() {
        let api_version = unknown.type_meta.unwrap_or_default().api_version;
        Ok(Opened { api_version, object: unknown.raw })
    } else {
        Err(DecodeError::Encoded(unknown.content_encoding))
    }
}

pub(crate) fn page(body: Bytes) -> Result<Page, DecodeError> {
    let Opened { api_version, object } = opened(body)?;
    let list = pb::List::decode(object)?;
    let metadata = list.metadata.unwrap_or_default();
    let api_version = Arc::<str>::from(api_version);
    let items = list.items.into_iter().map(|item| Item::protobuf(item, &api_version)).collect();
    Ok(Page { version: some(metadata.resource_version), more: some(metadata.r#continue), items })
}

pub(crate) fn change<T: Object>(frame: Bytes) -> Result<Change<T>, DecodeError> {
    let event = pb::WatchEvent::decode(frame)?;
    let Opened { api_version, object } = opened(event.object.unwrap_or_default().raw)?;
    match event.r#type.as_str() {
        "ADDED" | "MODIFIED" => Ok(Change::Applied(read(&api_version, &object)?)),
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

pub(crate) fn read<T: Object>(api_version: &str, object: &[u8]) -> Result<Read<T>, DecodeError> {
    match caught(|| T::decode(api_version, object)).and_then(|decoded| decoded) {
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
