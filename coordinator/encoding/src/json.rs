//! Pages and changes in JSON.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    DecodeError,
    answer::{self, Bookmark, Change, INITIAL_EVENTS_END, Item, Read},
    caught,
    object::{Metadata, Object},
};

/// Objects are decoded separately, so that one invalid object does not affect others.
#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(default, borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMetadata {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    more: Option<String>,
}

/// A line of a watch. The API server writes `type` before `object`, so serde buffers nothing.
#[derive(Deserialize)]
#[serde(tag = "type", content = "object", rename_all = "UPPERCASE")]
enum Line<T> {
    Added(T),
    Modified(T),
    Deleted(Box<Anything>),
    Bookmark(Box<Mark>),
    Error(Box<Status>),
}

/// Metadata of any object: all that is read of a deleted or undecodable one.
#[derive(Deserialize)]
struct Anything {
    #[serde(default, deserialize_with = "crate::object::named")]
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Mark {
    metadata: MarkMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MarkMetadata {
    resource_version: Option<String>,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
    reason: String,
    message: String,
}

pub(crate) fn page(body: &Bytes) -> Result<answer::Page, DecodeError> {
    let page: Page<'_> = serde_json::from_slice(body)?;
    let items =
        page.items.into_iter().flatten().map(|item| Item::json(body.slice_ref(item.get().as_bytes()))).collect();
    let full = |text: Option<String>| text.filter(|text| !text.is_empty());
    Ok(answer::Page { version: full(page.metadata.resource_version), more: full(page.metadata.more), items })
}

pub(crate) fn change<T: Object>(line: &[u8]) -> Result<Change<T>, DecodeError> {
    match decoded::<Line<T>>(line) {
        Ok(Line::Added(object) | Line::Modified(object)) => Ok(Change::Applied(Read::Whole(object))),
        Ok(Line::Deleted(gone)) => Ok(Change::Deleted(gone.metadata)),
        Ok(Line::Bookmark(mark)) => {
            let annotations = mark.metadata.annotations.unwrap_or_default();
            let ends_list = annotations.get(INITIAL_EVENTS_END).is_some_and(|value| value == "true");
            let version = mark.metadata.resource_version.filter(|version| !version.is_empty());
            Ok(Change::Bookmark(Bookmark { version, ends_list }))
        }
        Ok(Line::Error(status)) => Ok(Change::Error((*status).into())),
        Err(error) => match serde_json::from_slice::<Line<Anything>>(line) {
            Ok(Line::Added(object) | Line::Modified(object)) => {
                Ok(Change::Applied(Read::Unreadable(Box::new(object.metadata), error.to_string())))
            }
            _ => Err(error),
        },
    }
}

pub(crate) fn read<T: Object>(object: &[u8]) -> Result<Read<T>, DecodeError> {
    match decoded(object) {
        Ok(object) => Ok(Read::Whole(object)),
        Err(error) => match named(object) {
            Ok(metadata) => Ok(Read::Unreadable(Box::new(metadata), error.to_string())),
            Err(_) => Err(error),
        },
    }
}

pub(crate) fn named(object: &[u8]) -> Result<Metadata, DecodeError> {
    Ok(serde_json::from_slice::<Anything>(object)?.metadata)
}

fn decoded<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, DecodeError> {
    caught(|| serde_json::from_slice(json))?.map_err(DecodeError::from)
}

pub(crate) fn status(body: &[u8]) -> Result<answer::Status, DecodeError> {
    Ok(serde_json::from_slice::<Status>(body)?.into())
}

impl From<Status> for answer::Status {
    fn from(Status { code, reason, message }: Status) -> Self {
        Self { code, reason, message }
    }
}
