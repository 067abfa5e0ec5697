//! Types of the type check, and their notation.

use std::{fmt, sync::Arc};

use crate::value::{List, Map, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// Any type, known only at run time.
    Dyn,
    /// Type of an expression that already has an error.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Arc<Self>),
    Map(Arc<Self>, Arc<Self>),
    Of(Option<Arc<Self>>),
    /// Type without operators, with parameters: optionals, addresses.
    Opaque(Arc<str>, Arc<[Self]>),
    /// A message or a Kubernetes object.
    Struct(Arc<str>),
    /// Type parameter of a declaration.
    Param(Arc<str>),
    /// Type variable of the type check.
    Var(usize),
}

const PLAIN: [(&str, Type); 12] = [
    ("dyn", Type::Dyn),
    ("!error!", Type::Error),
    ("null", Type::Null),
    ("bool", Type::Bool),
    ("int", Type::Int),
    ("uint", Type::Uint),
    ("double", Type::Double),
    ("string", Type::String),
    ("bytes", Type::Bytes),
    ("type", Type::Of(None)),
    ("google.protobuf.Duration", Type::Duration),
    ("google.protobuf.Timestamp", Type::Timestamp),
];

impl Type {
    pub(crate) fn optional(value: Self) -> Self {
        Self::Opaque(Arc::from("optional_type"), Arc::from([value]))
    }

    pub(crate) fn list(element: Self) -> Self {
        Self::List(Arc::new(element))
    }

    pub(crate) fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    pub(crate) fn in_optional(&self) -> Option<&Self> {
        match self {
            Self::Opaque(name, parameters) if **name == *"optional_type" => parameters.first(),
            _ => None,
        }
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    pub(crate) fn parameters(&self) -> Vec<&Self> {
        match self {
            Self::List(element) => vec![element],
            Self::Map(key, value) => vec![key, value],
            Self::Of(of) => of.iter().map(Arc::as_ref).collect(),
            Self::Opaque(_, parameters) => parameters.iter().collect(),
            _ => Vec::new(),
        }
    }

    pub(crate) fn with(&self, replace: &mut dyn FnMut(&Self) -> Self) -> Self {
        match self {
            Self::List(element) => Self::list(replace(element)),
            Self::Map(key, value) => Self::map(replace(key), replace(value)),
            Self::Of(Some(of)) => Self::Of(Some(Arc::new(replace(of)))),
            Self::Opaque(name, parameters) => Self::Opaque(Arc::clone(name), parameters.iter().map(replace).collect()),
            other => other.clone(),
        }
    }

    /// Name at run time, without parameters.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Error => "error",
            Self::List(_) => "list",
            Self::Map(..) => "map",
            Self::Of(_) => "type",
            Self::Opaque(name, _) | Self::Struct(name) | Self::Param(name) => name,
            Self::Var(_) => "dyn",
            plain => PLAIN.iter().find(|(_, known)| known == plain).map_or("", |(name, _)| name),
        }
    }

    /// Whether a value has the type. In lists and maps, only one element is checked.
    pub(crate) fn takes(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Dyn | Self::Param(_) | Self::Var(_), _) => true,
            (Self::List(element), Value::List(list)) => Self::takes_first(element, list),
            (Self::Map(key, element), Value::Map(map)) => Self::takes_entry(key, element, map),
            _ => self.name() == value.type_name(),
        }
    }

    fn takes_first(element: &Self, list: &List) -> bool {
        list.get(0).is_none_or(|first| element.takes(&first))
    }

    fn takes_entry(key: &Self, element: &Self, map: &Map) -> bool {
        map.entries().first().is_none_or(|(name, value)| key.takes(name) && element.takes(value))
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(name) = text.strip_prefix('$') {
            return Some(Self::Param(name.into()));
        }
        if let Some((_, plain)) = PLAIN.iter().find(|(name, _)| *name == text) {
            return Some(plain.clone());
        }
        let Some((name, rest)) = text.split_once('<') else {
            return Some(match text {
                "net.IP" | "net.CIDR" => Self::Opaque(text.into(), Arc::from([])),
                _ => Self::Struct(text.into()),
            });
        };
        let mut parameters = split(rest.strip_suffix('>')?).into_iter().map(Self::parse);
        let first = parameters.next()??;
        Some(match name {
            "list" => Self::list(first),
            "map" => Self::map(first, parameters.next()??),
            "type" => Self::Of(Some(Arc::new(first))),
            _ => Self::Opaque(name.into(), Arc::from([first])),
        })
    }
}

/// Splits at commas outside brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0, 0);
    for (at, one) in text.char_indices() {
        match one {
            '<' => depth += 1,
            '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[from..].trim());
    parts
}

impl fmt::Display for Type {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => return formatter.write_str("null"),
            Self::Error => return formatter.write_str("!error!"),
            Self::Duration => return formatter.write_str("duration"),
            Self::Timestamp => return formatter.write_str("timestamp"),
            Self::Var(number) => return write!(formatter, "_var{number}"),
            _ => formatter.write_str(self.name())?,
        }
        let parameters: Vec<String> = self.parameters().iter().map(ToString::to_string).collect();
        if parameters.is_empty() { Ok(()) } else { write!(formatter, "({})", parameters.join(", ")) }
    }
}
