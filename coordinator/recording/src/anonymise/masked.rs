//! A serializer that replaces each text depending on its field.
//!
//! Texts of any type are replaced unless `places` excludes them.

use std::fmt::Display;

use serde::{
    Serialize, Serializer,
    ser::{
        SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple, SerializeTupleStruct,
        SerializeTupleVariant,
    },
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FieldName {
    /// The innermost type with fields or variants.
    pub(super) holder: &'static str,
    /// Its field or variant.
    pub(super) field: &'static str,
}

impl FieldName {
    pub(super) const NONE: Self = Self { holder: "", field: "" };
}

pub(super) trait Texts {
    fn text(&self, place: FieldName, text: &str) -> String;
}

pub(super) struct Masked<'a, S, T> {
    pub(super) inner: S,
    pub(super) texts: &'a T,
    pub(super) place: FieldName,
}

struct Within<'a, V: ?Sized, T> {
    value: &'a V,
    texts: &'a T,
    place: FieldName,
}

impl<V: Serialize + ?Sized, T: Texts> Serialize for Within<'_, V, T> {
    fn serialize<S: Serializer>(&self, inner: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(Masked { inner, texts: self.texts, place: self.place })
    }
}

pub(super) struct Parts<'a, C, T> {
    inner: C,
    texts: &'a T,
    place: FieldName,
}

macro_rules! pass {
    ($($name:ident: $kind:ty),*) => {
        $(fn $name(self, value: $kind) -> Result<S::Ok, S::Error> {
            self.inner.$name(value)
        })*
    };
}

impl<'a, S: Serializer, T: Texts> Serializer for Masked<'a, S, T> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Parts<'a, S::SerializeSeq, T>;
    type SerializeTuple = Parts<'a, S::SerializeTuple, T>;
    type SerializeTupleStruct = Parts<'a, S::SerializeTupleStruct, T>;
    type SerializeTupleVariant = Parts<'a, S::SerializeTupleVariant, T>;
    type SerializeMap = Parts<'a, S::SerializeMap, T>;
    type SerializeStruct = Parts<'a, S::SerializeStruct, T>;
    type SerializeStructVariant = Parts<'a, S::SerializeStructVariant, T>;

    pass! {
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_i128: i128, serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
        serialize_u128: u128, serialize_f32: f32, serialize_f64: f64, serialize_char: char, serialize_bytes: &[u8]
    }

    fn serialize_str(self, text: &str) -> Result<S::Ok, S::Error> {
        self.inner.serialize_str(&self.texts.text(self.place, text))
    }

    fn collect_str<V: Display + ?Sized>(self, value: &V) -> Result<S::Ok, S::Error> {
        self.inner.serialize_str(&self.texts.text(self.place, &value.to_string()))
    }

    fn serialize_none(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_none()
    }

    fn serialize_some<V: Serialize + ?Sized>(self, value: &V) -> Result<S::Ok, S::Error> {
        self.inner.serialize_some(&Within { value, texts: self.texts, place: self.place })
    }

    fn serialize_unit(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit()
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit_struct(name)
    }

    fn serialize_unit_variant(self, name: &'static str, index: u32, variant: &'static str) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit_variant(name, index, variant)
    }

    fn serialize_newtype_struct<V: Serialize + ?Sized>(self, name: &'static str, value: &V) -> Result<S::Ok, S::Error> {
        self.inner.serialize_newtype_struct(name, &Within { value, texts: self.texts, place: self.place })
    }

    fn serialize_newtype_variant<V: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &V,
    ) -> Result<S::Ok, S::Error> {
        let place = FieldName { holder: name, field: variant };
        self.inner.serialize_newtype_variant(name, index, variant, &Within { value, texts: self.texts, place })
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<Self::SerializeSeq, S::Error> {
        Ok(Parts { inner: self.inner.serialize_seq(len)?, texts: self.texts, place: self.place })
    }

    fn serialize_tuple(self, len: usize) -> Result<Self::SerializeTuple, S::Error> {
        Ok(Parts { inner: self.inner.serialize_tuple(len)?, texts: self.texts, place: self.place })
    }

    fn serialize_tuple_struct(self, name: &'static str, len: usize) -> Result<Self::SerializeTupleStruct, S::Error> {
        Ok(Parts { inner: self.inner.serialize_tuple_struct(name, len)?, texts: self.texts, place: self.place })
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeTupleVariant, S::Error> {
        let place = FieldName { holder: name, field: variant };
        Ok(Parts { inner: self.inner.serialize_tuple_variant(name, index, variant, len)?, texts: self.texts, place })
    }

    fn serialize_map(self, len: Option<usize>) -> Result<Self::SerializeMap, S::Error> {
        Ok(Parts { inner: self.inner.serialize_map(len)?, texts: self.texts, place: self.place })
    }

    fn serialize_struct(self, name: &'static str, len: usize) -> Result<Self::SerializeStruct, S::Error> {
        let place = FieldName { holder: name, field: "" };
        Ok(Parts { inner: self.inner.serialize_struct(name, len)?, texts: self.texts, place })
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeStructVariant, S::Error> {
        let place = FieldName { holder: name, field: variant };
        Ok(Parts { inner: self.inner.serialize_struct_variant(name, index, variant, len)?, texts: self.texts, place })
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! parts {
    ($($role:ident $method:ident),*) => {
        $(impl<C: $role, T: Texts> $role for Parts<'_, C, T> {
            type Ok = C::Ok;
            type Error = C::Error;

            fn $method<V: Serialize + ?Sized>(&mut self, value: &V) -> Result<(), C::Error> {
                let within = Within { value, texts: self.texts, place: self.place };
                self.inner.$method(&within)
            }

            fn end(self) -> Result<C::Ok, C::Error> {
                self.inner.end()
            }
        })*
    };
}

parts!(
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
);

impl<C: SerializeMap, T: Texts> SerializeMap for Parts<'_, C, T> {
    type Ok = C::Ok;
    type Error = C::Error;

    fn serialize_key<V: Serialize + ?Sized>(&mut self, key: &V) -> Result<(), C::Error> {
        let within = Within { value: key, texts: self.texts, place: self.place };
        self.inner.serialize_key(&within)
    }

    fn serialize_value<V: Serialize + ?Sized>(&mut self, value: &V) -> Result<(), C::Error> {
        let within = Within { value, texts: self.texts, place: self.place };
        self.inner.serialize_value(&within)
    }

    fn end(self) -> Result<C::Ok, C::Error> {
        self.inner.end()
    }
}

impl<C: SerializeStruct, T: Texts> SerializeStruct for Parts<'_, C, T> {
    type Ok = C::Ok;
    type Error = C::Error;

    fn serialize_field<V: Serialize + ?Sized>(&mut self, field: &'static str, value: &V) -> Result<(), C::Error> {
        let within = Within { value, texts: self.texts, place: FieldName { field, ..self.place } };
        self.inner.serialize_field(field, &within)
    }

    fn skip_field(&mut self, field: &'static str) -> Result<(), C::Error> {
        self.inner.skip_field(field)
    }

    fn end(self) -> Result<C::Ok, C::Error> {
        self.inner.end()
    }
}

impl<C: SerializeStructVariant, T: Texts> SerializeStructVariant for Parts<'_, C, T> {
    type Ok = C::Ok;
    type Error = C::Error;

    fn serialize_field<V: Serialize + ?Sized>(&mut self, field: &'static str, value: &V) -> Result<(), C::Error> {
        let within = Within { value, texts: self.texts, place: FieldName { field, ..self.place } };
        self.inner.serialize_field(field, &within)
    }

    fn end(self) -> Result<C::Ok, C::Error> {
        self.inner.end()
    }
}
