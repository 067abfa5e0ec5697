//! Encodes fields of protobuf messages.

use prost::{
    bytes::BufMut as _,
    encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len},
};

/// A text, also if empty.
pub(super) fn text(field: u32, text: &str, out: &mut Vec<u8>) {
    encode_key(field, WireType::LengthDelimited, out);
    encode_varint(text.len() as u64, out);
    out.put_slice(text.as_bytes());
}

/// A number, unless 0.
pub(super) fn number(field: u32, number: i64, out: &mut Vec<u8>) {
    if number != 0 {
        encode_key(field, WireType::Varint, out);
        // A negative int32 or int64 takes ten bytes.
        encode_varint(number.cast_unsigned(), out);
    }
}

/// A message with content from `fill`, also if empty.
pub(super) fn message(field: u32, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    encode_key(field, WireType::LengthDelimited, out);
    // The length usually takes one byte; otherwise the content is moved.
    let at = out.len();
    out.push(0);
    fill(out);
    let len = (out.len() - at - 1) as u64;
    let wide = encoded_len_varint(len);
    if wide > 1 {
        out.splice(at + 1..at + 1, std::iter::repeat_n(0, wide - 1));
    }
    let mut place = &mut out[at..at + wide];
    encode_varint(len, &mut place);
}

pub(super) fn entry(field: u32, key: &str, value: &str, out: &mut Vec<u8>) {
    encode_key(field, WireType::LengthDelimited, out);
    let len = |text: &str| key_len(1) + encoded_len_varint(text.len() as u64) + text.len();
    encode_varint((len(key) + len(value)) as u64, out);
    text(1, key, out);
    text(2, value, out);
}

pub(super) fn quantity(field: u32, key: &str, quantity: &str, out: &mut Vec<u8>) {
    message(field, out, |out| {
        text(1, key, out);
        message(2, out, |out| text(1, quantity, out));
    });
}

/// Millicores as a quantity.
pub(super) fn cpu(milli: i64) -> String {
    if milli % 1000 == 0 { (milli / 1000).to_string() } else { format!("{milli}m") }
}
