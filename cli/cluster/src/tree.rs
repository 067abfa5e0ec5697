//! Reads JSON values strictly: errors for everything that a decoder would drop silently.

use std::{cell::Cell, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Output bytes for each byte of text; only nested aliases produce more.
const GROWTH: usize = 16;
/// The output limit of the shortest texts.
const LEAST: usize = 1024;

/// Reads one value. Duplicate keys and infinite numbers are errors.
///
/// `length` is the length of the text.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D, length: usize) -> Result<Value, D::Error> {
    let left = Cell::new(length.saturating_mul(GROWTH).saturating_add(LEAST));
    Tree { left: &left }.deserialize(deserializer)
}

#[derive(Clone, Copy)]
struct Tree<'a> {
    left: &'a Cell<usize>,
}

impl Tree<'_> {
    fn spend<E: Error>(self, bytes: usize) -> Result<(), E> {
        let left = self.left.get().checked_sub(bytes + 1);
        self.left.set(left.ok_or_else(|| E::custom("its aliases expand to too much; write out the values"))?);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value without a tag")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.spend(0)?;
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.spend(0)?;
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.spend(0)?;
        Ok(value.into())
    }

    // Quantities may exceed all JSON integers, and may be strings.
    fn visit_i128<E: Error>(self, value: i128) -> Result<Value, E> {
        self.visit_string(value.to_string())
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Value, E> {
        self.visit_string(value.to_string())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.spend(0)?;
        let number = Number::from_f64(value).ok_or_else(|| E::custom(format!("{value} is not a finite number")))?;
        Ok(Value::Number(number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.visit_string(value.to_owned())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        self.spend(value.len())?;
        Ok(value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.spend(0)?;
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        self.spend(0)?;
        let mut elements = Vec::new();
        while let Some(element) = list.next_element_seed(self)? {
            elements.push(element);
        }
        Ok(elements.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut mapping: A) -> Result<Value, A::Error> {
        self.spend(0)?;
        let mut fields = Map::new();
        while let Some(key) = mapping.next_key::<String>()? {
            if fields.contains_key(&key) {
                return Err(A::Error::custom(format!("the key {key:?} occurs twice in the same mapping")));
            }
            self.spend(key.len())?;
            let value = mapping.next_value_seed(self)?;
            fields.insert(key, value);
        }
        Ok(fields.into())
    }
}
