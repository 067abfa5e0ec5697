//! A deserializer of JSON values that records unknown fields and the path of errors.
//!
//! It is one layer because every API type is compiled for it. The crates for paths and ignored fields, wrapped around serde_json's
//! deserializer, compile ten times as long. For the same reason functions without a type parameter are separate, and the map or list of a
//! value adds the path of an error.

use std::{cell::RefCell, fmt};

use serde::{
    de::{
        self, DeserializeSeed, Deserializer, EnumAccess, Error as _, Expected, MapAccess, SeqAccess, Unexpected,
        Visitor,
        value::{StrDeserializer, StringDeserializer, UnitDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::{Number, Value};

use crate::path::{Path, Step};

/// A value that does not fit its type, and its path.
#[derive(Debug)]
pub struct Error {
    message: Box<str>,
    /// `None` until the innermost map or list has added it.
    path: Option<Path>,
}

impl Error {
    /// The path of the value.
    #[must_use]
    pub fn path(&self) -> Path {
        self.path.clone().unwrap_or_default()
    }
}

impl de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { message: message.to_string().into(), path: None }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

enum Trail<'a> {
    Root,
    Key(&'a Self, &'a str),
    Index(&'a Self, usize),
}

impl Trail<'_> {
    fn path(&self) -> Path {
        let mut steps = Vec::new();
        let mut at = self;
        loop {
            match at {
                Trail::Root => break,
                Trail::Key(parent, key) => {
                    steps.push(Step::Key((*key).into()));
                    at = parent;
                }
                Trail::Index(parent, index) => {
                    steps.push(Step::Index(*index));
                    at = parent;
                }
            }
        }
        steps.into_iter().rev().collect()
    }

    fn place(&self, mut error: Error) -> Error {
        error.path.get_or_insert_with(|| self.path());
        error
    }
}

struct Noting<'a> {
    value: Value,
    trail: &'a Trail<'a>,
    unknown: &'a RefCell<Vec<Path>>,
}

/// Decodes a value; also returns the paths of fields that `T` does not have, in input order.
///
/// # Errors
/// A value does not fit its type, with its path.
pub(crate) fn decode<T: de::DeserializeOwned>(value: Value) -> Result<(T, Vec<Path>), Error> {
    let unknown = RefCell::default();
    let decoded = T::deserialize(Noting { value, trail: &Trail::Root, unknown: &unknown });
    decoded.map(|decoded| (decoded, unknown.into_inner())).map_err(|error| Trail::Root.place(error))
}

impl<'a> Noting<'a> {
    fn elements(self, expected: &dyn Expected) -> Result<Elements<'a>, Error> {
        match self.value {
            Value::Array(values) => {
                Ok(Elements { values: values.into_iter().enumerate(), trail: self.trail, unknown: self.unknown })
            }
            _ => Err(self.mismatch(expected)),
        }
    }

    fn fields(self, expected: &dyn Expected) -> Result<Fields<'a>, Error> {
        match self.value {
            Value::Object(fields) => {
                Ok(Fields { fields: fields.into_iter(), next: None, trail: self.trail, unknown: self.unknown })
            }
            _ => Err(self.mismatch(expected)),
        }
    }

    #[cold]
    fn mismatch(&self, expected: &dyn Expected) -> Error {
        let found = match &self.value {
            Value::Null => Unexpected::Unit,
            Value::Bool(value) => Unexpected::Bool(*value),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(number), _, _) => Unexpected::Unsigned(number),
                (_, Some(number), _) => Unexpected::Signed(number),
                (_, _, number) => Unexpected::Float(number.unwrap_or_default()),
            },
            Value::String(text) => Unexpected::Str(text),
            Value::Array(_) => Unexpected::Seq,
            Value::Object(_) => Unexpected::Map,
        };
        self.trail.place(Error::invalid_type(found, expected))
    }
}

fn visit_number<'de, V: Visitor<'de>>(number: &Number, visitor: V) -> Result<V::Value, Error> {
    match (number.as_u64(), number.as_i64(), number.as_f64()) {
        (Some(number), _, _) => visitor.visit_u64(number),
        (_, Some(number), _) => visitor.visit_i64(number),
        (_, _, number) => visitor.visit_f64(number.unwrap_or_default()),
    }
}

macro_rules! numbers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match &self.value {
                Value::Number(number) => visit_number(number, visitor),
                _ => Err(self.mismatch(&visitor)),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Noting<'_> {
    type Error = Error;

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16 deserialize_u32
        deserialize_u64 deserialize_f32 deserialize_f64
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(_) => self.deserialize_bool(visitor),
            Value::Number(_) => self.deserialize_i64(visitor),
            Value::String(_) => self.deserialize_string(visitor),
            Value::Array(_) => self.deserialize_seq(visitor),
            Value::Object(_) => self.deserialize_map(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Bool(value) => visitor.visit_bool(value),
            _ => Err(self.mismatch(&visitor)),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_string(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::String(text) => visitor.visit_string(text),
            _ => Err(self.mismatch(&visitor)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let elements = self.elements(&visitor)?;
        visitor.visit_seq(elements)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let fields = self.fields(&visitor)?;
        visitor.visit_map(fields)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.value {
            Value::String(variant) => visitor.visit_enum(Variant(variant)),
            _ => Err(self.mismatch(&visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.unknown.borrow_mut().push(self.trail.path());
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit unit_struct tuple tuple_struct identifier
    }
}

struct Elements<'a> {
    values: std::iter::Enumerate<std::vec::IntoIter<Value>>,
    trail: &'a Trail<'a>,
    unknown: &'a RefCell<Vec<Path>>,
}

impl<'de> SeqAccess<'de> for Elements<'_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some((index, value)) = self.values.next() else { return Ok(None) };
        let trail = Trail::Index(self.trail, index);
        match seed.deserialize(Noting { value, trail: &trail, unknown: self.unknown }) {
            Ok(element) => Ok(Some(element)),
            Err(error) => Err(trail.place(error)),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.values.len())
    }
}

struct Fields<'a> {
    fields: serde_json::map::IntoIter,
    next: Option<(String, Value)>,
    trail: &'a Trail<'a>,
    unknown: &'a RefCell<Vec<Path>>,
}

impl Fields<'_> {
    fn advance(&mut self) -> Option<&str> {
        self.next = self.fields.next();
        self.next.as_ref().map(|(key, _)| key.as_str())
    }

    fn take(&mut self) -> Result<(String, Value), Error> {
        self.next.take().ok_or_else(|| Error::custom("a value without a key"))
    }
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some(key) = self.advance() else { return Ok(None) };
        match seed.deserialize(StrDeserializer::new(key)) {
            Ok(known) => Ok(Some(known)),
            Err(error) => Err(error),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let (key, value) = self.take()?;
        let trail = Trail::Key(self.trail, &key);
        match seed.deserialize(Noting { value, trail: &trail, unknown: self.unknown }) {
            Ok(field) => Ok(field),
            Err(error) => Err(trail.place(error)),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.fields.len())
    }
}

/// A variant without data.
struct Variant(String);

impl<'de> EnumAccess<'de> for Variant {
    type Error = Error;
    type Variant = Unit;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Unit), Error> {
        let name: StringDeserializer<Error> = StringDeserializer::new(self.0);
        seed.deserialize(name).map(|variant| (variant, Unit))
    }
}

struct Unit;

impl<'de> de::VariantAccess<'de> for Unit {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(UnitDeserializer::new())
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        Err(Error::invalid_type(Unexpected::UnitVariant, &visitor))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        Err(Error::invalid_type(Unexpected::UnitVariant, &visitor))
    }
}
