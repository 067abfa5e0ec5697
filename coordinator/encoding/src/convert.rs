//! Messages turned into the structs that JSON is decoded into.
//!
//! A text that is no pointer in Go is written even where it is empty, and left out of JSON; so are lists and maps. Here an empty
//! one of those is none.
//!
//! Knows: which field of a message is which of a struct. Must not know: what any of them means.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::{
    api::resource::Quantity,
    apis::meta::v1::{LabelSelector, LabelSelectorRequirement, OwnerReference, Time},
};

use crate::{DecodeError, object::Metadata, pb};

mod claim;
mod node;
mod pod;
mod selecting;
mod slice;
mod storage;
mod volume;

/// A text that is none where it is empty.
pub(crate) fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// A list that is none where it is empty.
fn list<T, U: From<T>>(list: Vec<T>) -> Option<Vec<U>> {
    (!list.is_empty()).then(|| every(list))
}

fn every<T, U: From<T>>(list: Vec<T>) -> Vec<U> {
    list.into_iter().map(U::from).collect()
}

/// A list of texts that is none where it is empty.
fn texts(list: Vec<String>) -> Option<Vec<String>> {
    (!list.is_empty()).then_some(list)
}

/// A list of what may be JSON that is none; none where it is empty.
fn tried<T, U: TryFrom<T, Error = DecodeError>>(list: Vec<T>) -> Result<Option<Vec<U>>, DecodeError> {
    let converted = list.into_iter().map(U::try_from).collect::<Result<Vec<_>, _>>()?;
    Ok((!converted.is_empty()).then_some(converted))
}

/// A map that is none where it is empty.
fn map(map: BTreeMap<String, String>) -> Option<BTreeMap<String, String>> {
    (!map.is_empty()).then_some(map)
}

/// Amounts by name; none where there are none.
fn amounts(map: BTreeMap<String, pb::Quantity>) -> Option<BTreeMap<String, Quantity>> {
    (!map.is_empty()).then(|| map.into_iter().map(|(name, amount)| (name, amount.into())).collect())
}

impl From<pb::Quantity> for Quantity {
    fn from(quantity: pb::Quantity) -> Self {
        Self(quantity.string)
    }
}

impl From<pb::Time> for Time {
    fn from(time: pb::Time) -> Self {
        let nearest = if time.seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
        Self(Timestamp::from_second(time.seconds).unwrap_or(nearest))
    }
}

impl From<pb::ObjectMeta> for Metadata {
    fn from(metadata: pb::ObjectMeta) -> Self {
        Self {
            name: some(metadata.name),
            namespace: some(metadata.namespace),
            uid: some(metadata.uid),
            resource_version: some(metadata.resource_version),
            generation: Some(metadata.generation).filter(|generation| *generation != 0),
            deletion_timestamp: metadata.deletion_timestamp.map(Time::from),
            labels: map(metadata.labels),
            annotations: map(metadata.annotations),
            owner_references: list(metadata.owner_references),
            ..Self::default()
        }
    }
}

impl From<pb::DeviceMeta> for Metadata {
    fn from(metadata: pb::DeviceMeta) -> Self {
        Self {
            name: some(metadata.name),
            namespace: some(metadata.namespace),
            uid: some(metadata.uid),
            resource_version: some(metadata.resource_version),
            creation_timestamp: metadata.creation_timestamp.map(Time::from),
            deletion_timestamp: metadata.deletion_timestamp.map(Time::from),
            annotations: map(metadata.annotations),
            owner_references: list(metadata.owner_references),
            finalizers: texts(metadata.finalizers),
            ..Self::default()
        }
    }
}

impl From<pb::NamedMeta> for Metadata {
    fn from(metadata: pb::NamedMeta) -> Self {
        Self {
            name: some(metadata.name),
            namespace: some(metadata.namespace),
            uid: some(metadata.uid),
            resource_version: some(metadata.resource_version),
            ..Self::default()
        }
    }
}

impl From<pb::OwnerReference> for OwnerReference {
    fn from(owner: pb::OwnerReference) -> Self {
        Self {
            api_version: owner.api_version,
            kind: owner.kind,
            name: owner.name,
            uid: owner.uid,
            controller: owner.controller,
            block_owner_deletion: None,
        }
    }
}

impl From<pb::LabelSelector> for LabelSelector {
    fn from(selector: pb::LabelSelector) -> Self {
        Self { match_labels: map(selector.match_labels), match_expressions: list(selector.match_expressions) }
    }
}

impl From<pb::LabelSelectorRequirement> for LabelSelectorRequirement {
    fn from(requirement: pb::LabelSelectorRequirement) -> Self {
        Self { key: requirement.key, operator: requirement.operator, values: texts(requirement.values) }
    }
}
