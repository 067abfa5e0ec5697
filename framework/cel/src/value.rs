//! Values of expressions.

pub(crate) mod compare;
pub(crate) mod convert;
mod failure;
pub(crate) mod list;
pub(crate) mod map;
pub(crate) mod number;
pub(crate) mod show;

use std::{net::IpAddr, sync::Arc};

pub(crate) use self::{failure::Failure, list::List, map::Map};
use crate::{format::NamedFormat, net::Cidr, quantity::Quantity, semver::Semver, time::Timestamp, url::Url};

pub(crate) type EvalResult = Result<Value, Failure>;

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    List(List),
    Map(Map),
    Duration(i64),
    Timestamp(Timestamp),
    /// A type, by its name at run time.
    Type(Arc<str>),
    Optional(Option<Arc<Self>>),
    Quantity(Quantity),
    Semver(Arc<Semver>),
    Url(Arc<Url>),
    Ip(IpAddr),
    Cidr(Cidr),
    Format(NamedFormat),
}

impl Value {
    pub(crate) fn string(text: &str) -> Self {
        Self::String(Arc::from(text))
    }

    pub(crate) fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    pub(crate) const NONE: Self = Self::Optional(None);

    /// Name of the type at run time, without parameters.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Format(_) => "kubernetes.NamedFormat",
        }
    }

    /// Number of elements, characters or bytes, for values with a size.
    pub(crate) fn size(&self) -> Option<usize> {
        match self {
            Self::String(text) => Some(text.chars().count()),
            Self::Bytes(bytes) => Some(bytes.len()),
            Self::List(list) => Some(list.len()),
            Self::Map(map) => Some(map.len()),
            _ => None,
        }
    }

    /// Bytes that a comparison or printing reads. Contents count as often as they occur: a list with one text a thousand times takes little
    /// memory but weighs a thousand texts.
    pub(crate) fn weight(&self) -> u64 {
        let inside = match self {
            Self::String(text) | Self::Type(text) => text.len() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.weight(),
            Self::Map(map) => map.weight(),
            Self::Optional(Some(value)) => value.weight(),
            Self::Url(url) => url.bytes() as u64,
            Self::Quantity(quantity) => quantity.figures(),
            _ => 0,
        };
        inside.saturating_add(size_of::<Self>() as u64)
    }

    /// Whether `optional.ofNonZeroValue` treats it as absent.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::Duration(value) => *value == 0,
            Self::Timestamp(time) => time.is_zero(),
            Self::String(_) | Self::Bytes(_) | Self::List(_) | Self::Map(_) => self.size() == Some(0),
            _ => false,
        }
    }
}
