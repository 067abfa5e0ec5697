//! Converts protobuf messages to the structs that JSON decodes to.
//!
//! Protobuf contains empty values of texts that are no pointers in Go, of lists and of maps; JSON omits them. Here empty values become
//! `None`.

use std::{collections::BTreeMap, convert::identity};

use jiff::Timestamp;
use k8s_openapi::{
    api::resource::v1 as devices,
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta, OwnerReference, Time},
    },
};

use crate::{DecodeError, object::Metadata, pb};

mod claim;
mod node;
mod pod;
mod selecting;
mod slice;
mod storage;
mod volume;

pub(crate) fn some<T: Default + PartialEq>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}

fn list<T, U: From<T>>(list: Vec<T>) -> Option<Vec<U>> {
    (!list.is_empty()).then(|| list.into_iter().map(U::from).collect())
}

/// Converts a list with items that may contain invalid JSON; `None` if empty.
fn tried<T, U: TryFrom<T, Error = DecodeError>>(list: Vec<T>) -> Result<Option<Vec<U>>, DecodeError> {
    let converted = list.into_iter().map(U::try_from).collect::<Result<Vec<_>, _>>()?;
    Ok((!converted.is_empty()).then_some(converted))
}

pub(crate) trait Field<T> {
    fn field(self) -> T;
}

impl<T, U: From<T>> Field<Option<U>> for Option<T> {
    fn field(self) -> Option<U> {
        self.map(U::from)
    }
}

impl<T, U: From<T>> Field<Vec<U>> for Vec<T> {
    fn field(self) -> Vec<U> {
        self.into_iter().map(U::from).collect()
    }
}

impl<T, U: From<T>> Field<Option<Vec<U>>> for Vec<T> {
    fn field(self) -> Option<Vec<U>> {
        list(self)
    }
}

impl<T, U: From<T>> Field<BTreeMap<String, U>> for BTreeMap<String, T> {
    fn field(self) -> BTreeMap<String, U> {
        self.into_iter().map(|(name, value)| (name, value.into())).collect()
    }
}

impl<T> Field<Metadata> for Option<T>
where
    T: Default,
    Metadata: From<T>,
{
    fn field(self) -> Metadata {
        self.unwrap_or_default().into()
    }
}

impl Field<Quantity> for Option<pb::Quantity> {
    fn field(self) -> Quantity {
        self.map(Quantity::from).unwrap_or_default()
    }
}

macro_rules! fields {
    ($($from:ty => $to:ty: $how:expr;)*) => {$(
        impl Field<$to> for $from {
            fn field(self) -> $to {
                $how(self)
            }
        }
    )*};
}

fields! {
    Metadata => ObjectMeta: ObjectMeta::from;
    String => String: identity;
    String => Option<String>: some;
    bool => bool: identity;
    bool => Option<bool>: some;
    i32 => i32: identity;
    i32 => Option<i32>: some;
    i64 => i64: identity;
    i64 => Option<i64>: some;
    BTreeMap<String, String> => Option<BTreeMap<String, String>>: some;
    BTreeMap<String, pb::Quantity> => Option<BTreeMap<String, Quantity>>: some_named;
    BTreeMap<String, pb::DeviceAttribute> => Option<BTreeMap<String, devices::DeviceAttribute>>: some_named;
    BTreeMap<String, pb::NodeAllocatableResource> => Option<BTreeMap<String, devices::NodeAllocatableResource>>: some_named;
    BTreeMap<String, pb::DeviceCapacity> => Option<BTreeMap<String, devices::DeviceCapacity>>: some_named;
}

/// `None` if empty.
fn some_named<T, U: From<T>>(map: BTreeMap<String, T>) -> Option<BTreeMap<String, U>> {
    (!map.is_empty()).then(|| map.field())
}

/// Lists the converted fields of a message. A field has the same name in the struct unless an expression follows. Fields `from` an optional
/// nested message follow the message's own.
macro_rules! read {
    ($($message:ident: $from:ty => $to:ty {
        $($field:ident $(= $value:expr)?),* $(,)?
    } $(from $part:ident { $($more:ident),* $(,)? })? $(..$default:ident)?;)*) => {$(
        impl From<$from> for $to {
            fn from($message: $from) -> Self {
                $(let part = $message.$part.unwrap_or_default();)?
                Self {
                    $($field: read!(@ $message.$field $(, $value)?),)*
                    $($($more: crate::convert::Field::field(part.$more),)*)?
                    $(..Self::$default())?
                }
            }
        }
    )*};
    (@ $message:ident.$field:ident) => { crate::convert::Field::field($message.$field) };
    (@ $message:ident.$field:ident, $value:expr) => { $value };
}

pub(crate) use read;

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

read! {
    metadata: pb::ObjectMeta => Metadata {
        name, namespace, uid, resource_version, generation, deletion_timestamp, labels, annotations, owner_references,
    } ..default;
    metadata: pb::DeviceMeta => Metadata {
        name, namespace, uid, resource_version, creation_timestamp, deletion_timestamp, annotations, owner_references,
        finalizers,
    } ..default;
    metadata: pb::GroupMeta => Metadata { name, namespace, uid, resource_version, generation, creation_timestamp } ..default;
    metadata: pb::NamedMeta => Metadata { name, namespace, uid, resource_version } ..default;
    owner: pb::OwnerReference => OwnerReference {
        api_version, kind, name, uid, controller, block_owner_deletion = None,
    };
    selector: pb::LabelSelector => LabelSelector { match_labels, match_expressions };
    requirement: pb::LabelSelectorRequirement => LabelSelectorRequirement { key, operator, values };
}
