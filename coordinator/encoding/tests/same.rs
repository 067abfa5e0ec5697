//! JSON and protobuf yield the same scheduling view of an object.
//!
//! `recorded` has an object of each kind in both encodings from an API server. `integration-tests/tests/integration/encodings.rs` records
//! them with `FLOTILLA_RECORD=1` and tests many more objects.

#![allow(missing_docs)]

use std::{fs, path::PathBuf};

use flotilla_encoding::{
    Encoding,
    testing::{KINDS, facts},
};
use serde_json::{Value, json};

fn recorded(kind: &str, ending: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/recorded/{kind}.{ending}"));
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn recorded_objects_are_the_same() {
    for (kind, _) in KINDS {
        let json = facts(kind, Encoding::Json, &recorded(kind, "json"));
        let protobuf = facts(kind, Encoding::Protobuf, &recorded(kind, "pb"));
        assert_eq!(json, protobuf, "{kind}");
        assert!(json.is_ok_and(|facts| !facts.contains("Err(Missing") && facts.len() > 20), "{kind}");
    }
}

/// Maps with user-defined keys.
const NAMED: [&str; 3] = ["attributes", "capacity", "counters"];
/// JSON that is kept whole.
const OPAQUE: [&str; 2] = ["data", "parameters"];

/// Adds unknown fields to every object within a value.
fn grow(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (field, value) in map.iter_mut() {
                match value {
                    Value::Object(named) if NAMED.contains(&field.as_str()) => named.values_mut().for_each(grow),
                    _ if OPAQUE.contains(&field.as_str()) => {}
                    _ => grow(value),
                }
            }
            // Every key of a map of texts or quantities is read.
            if map.values().any(|value| value.is_object() || value.is_array()) {
                map.insert("unknown".to_owned(), json!({ "of": ["a", { "later": 1 }] }));
            }
        }
        Value::Array(list) => list.iter_mut().for_each(grow),
        _ => {}
    }
}

fn varint(bytes: &mut &[u8]) -> usize {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let (first, rest) = bytes.split_first().expect("a number");
        *bytes = rest;
        number |= usize::from(first & 127) << shift;
        if first & 128 == 0 {
            break;
        }
    }
    number
}

fn write_varint(mut number: usize, to: &mut Vec<u8>) {
    while number >= 128 {
        to.push(u8::try_from(number % 128).expect("less than 128") | 128);
        number /= 128;
    }
    to.push(u8::try_from(number).expect("less than 128"));
}

/// Fields 999 to 1002: a number, eight bytes, a message and four bytes.
const UNKNOWN: [u8; 26] =
    [0xb8, 0x3e, 7, 0xc1, 0x3e, 1, 2, 3, 4, 5, 6, 7, 8, 0xca, 0x3e, 4, 0x0a, 2, b'h', b'i', 0xd5, 0x3e, 1, 2, 3, 4];

/// The object with unknown fields around its own, and in its metadata, spec and status.
fn grown(kind: &str, mut object: &[u8]) -> Vec<u8> {
    let mut grown = UNKNOWN.to_vec();
    while !object.is_empty() {
        let (tag, length) = (varint(&mut object), varint(&mut object));
        assert_eq!(tag & 7, 2, "{kind}: a field that has a length");
        let (field, rest) = object.split_at(length);
        object = rest;
        // Other fields of storage classes and capacities are texts.
        let is_message = tag >> 3 == 1 || !matches!(kind, "StorageClass" | "CSIStorageCapacity");
        let unknown = if is_message { &UNKNOWN[..] } else { &[] };
        write_varint(tag, &mut grown);
        write_varint(field.len() + 2 * unknown.len(), &mut grown);
        grown.extend([unknown, field, unknown].concat());
    }
    grown.extend(UNKNOWN);
    grown
}

fn opened(mut envelope: &[u8]) -> &[u8] {
    envelope = envelope.strip_prefix(b"k8s\0").expect("an envelope");
    loop {
        let (tag, length) = (varint(&mut envelope), varint(&mut envelope));
        let (field, rest) = envelope.split_at(length);
        if tag == 0x12 {
            return field;
        }
        envelope = rest;
    }
}

fn enveloped(object: &[u8]) -> Vec<u8> {
    let mut envelope = b"k8s\0\x12".to_vec();
    write_varint(object.len(), &mut envelope);
    [envelope, object.to_vec()].concat()
}

#[test]
fn fields_that_nobody_knows_change_nothing() {
    for (kind, _) in KINDS {
        let (json, protobuf) = (recorded(kind, "json"), recorded(kind, "pb"));
        let expected = facts(kind, Encoding::Json, &json);
        let mut value: Value = serde_json::from_slice(&json).expect("JSON");
        grow(&mut value);
        assert!(value.to_string().contains("later"), "{kind}");
        assert_eq!(facts(kind, Encoding::Json, value.to_string().as_bytes()), expected, "{kind}");
        let bytes = enveloped(&grown(kind, opened(&protobuf)));
        assert_eq!(facts(kind, Encoding::Protobuf, &bytes), expected, "{kind}");
    }
}

#[test]
fn what_is_cut_short_or_damaged_is_an_error_or_another_object_and_never_a_panic() {
    for (kind, _) in KINDS {
        let whole = recorded(kind, "pb");
        let mut refused = 0;
        for length in (0..whole.len()).step_by(3) {
            refused += usize::from(facts(kind, Encoding::Protobuf, &whole[..length]).is_err());
            let mut damaged = whole.clone();
            damaged[length] ^= 0x55;
            let _ = facts(kind, Encoding::Protobuf, &damaged);
        }
        // Only empty fields follow the object in an envelope.
        assert!(refused + 2 >= whole.len() / 3, "{kind}: {refused} of {}", whole.len());
    }
}
