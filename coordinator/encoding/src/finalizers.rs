//! An object with other finalizers, and with each other byte as it was.
//!
//! The API server keeps JSON within an object, such as the parameters for a driver, as it came. A patch makes the whole object
//! JSON and back, which may write that anew; where it belongs to what cannot change, the patch is refused. So an object can be
//! changed as it was received, in protobuf, and sent back.
//!
//! Knows: where finalizers are in an object, and how fields are written. Must not know: kinds, or what finalizers are for.

use bytes::Bytes;
use prost::{
    Message as _,
    encoding::{DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field},
};

use crate::{DecodeError, object::Metadata, pb, protobuf::MAGIC};

/// The field `metadata` of every object, and `finalizers` within it.
const METADATA: u32 = 1;
const FINALIZERS: u32 = 14;

/// What becomes of a field.
enum Field {
    Kept,
    Dropped,
    Is(Vec<u8>),
}

/// What names an object that stands by itself in protobuf, and that object with these finalizers instead of its own.
///
/// # Errors
/// It is no object in protobuf.
pub fn with_finalizers(object: &[u8], finalizers: &[&str]) -> Result<(Metadata, Vec<u8>), DecodeError> {
    let envelope = object.strip_prefix(&MAGIC);
    let envelope = envelope.ok_or_else(|| DecodeError::Envelope(object.iter().take(MAGIC.len()).copied().collect()))?;
    let unknown = pb::Unknown::decode(envelope)?;
    let named = pb::Named::decode(unknown.raw.clone())?.metadata.unwrap_or_default().into();
    let raw = rewritten(&unknown.raw, |field, content| match field {
        METADATA => metadata(content, finalizers).map(Field::Is),
        _ => Ok(Field::Kept),
    })?;
    let unknown = pb::Unknown { raw: Bytes::from(raw), ..unknown };
    Ok((named, [&MAGIC[..], &unknown.encode_to_vec()].concat()))
}

fn metadata(content: &[u8], finalizers: &[&str]) -> Result<Vec<u8>, DecodeError> {
    let mut metadata =
        rewritten(content, |field, _| Ok(if field == FINALIZERS { Field::Dropped } else { Field::Kept }))?;
    finalizers.iter().for_each(|finalizer| put(FINALIZERS, finalizer.as_bytes(), &mut metadata));
    Ok(metadata)
}

/// A message whose fields `change` decides on by their numbers and contents.
fn rewritten(
    message: &[u8],
    change: impl Fn(u32, &[u8]) -> Result<Field, DecodeError>,
) -> Result<Vec<u8>, DecodeError> {
    let (mut rest, mut written) = (message, Vec::with_capacity(message.len() + 64));
    while !rest.is_empty() {
        let whole = rest;
        let (field, wire_type) = decode_key(&mut rest)?;
        let mut content = rest;
        skip_field(wire_type, field, &mut rest, DecodeContext::default())?;
        if wire_type == WireType::LengthDelimited {
            decode_varint(&mut content)?;
        }
        let content = &content[..content.len() - rest.len()];
        match change(field, content)? {
            Field::Kept => written.extend_from_slice(&whole[..whole.len() - rest.len()]),
            Field::Dropped => {}
            Field::Is(content) => put(field, &content, &mut written),
        }
    }
    Ok(written)
}

fn put(field: u32, content: &[u8], to: &mut Vec<u8>) {
    encode_key(field, WireType::LengthDelimited, to);
    encode_varint(content.len() as u64, to);
    to.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_finalizers_change() {
        let claim = include_bytes!("../tests/recorded/ResourceClaim.pb");
        // Without the envelope, in which the API server writes empty fields too.
        let raw = |object: &[u8]| {
            pb::Unknown::decode(object.strip_prefix(&MAGIC).expect("an envelope")).expect("a message").raw
        };
        let finalizers = |object: &[u8]| {
            let claim = pb::ResourceClaim::decode(raw(object)).expect("a claim");
            claim.metadata.unwrap_or_default().finalizers
        };
        let own = finalizers(claim);
        assert_eq!(own.len(), 2);
        let (named, fewer) = with_finalizers(claim, &["only"]).expect("an object");
        assert_eq!((named.key().as_str(), named.version().is_some()), ("shop/claim", true));
        assert_eq!(finalizers(&fewer), ["only"]);
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let (_, same) = with_finalizers(&fewer, &own).expect("an object");
        assert_eq!(finalizers(&same), finalizers(claim));
        let sorted = |object: &[u8]| {
            let mut bytes = raw(object).to_vec();
            bytes.sort_unstable();
            bytes
        };
        assert_eq!(sorted(&same), sorted(claim), "each byte is there, if not in its place");
        assert!(with_finalizers(b"{}", &[]).is_err());
        for length in 0..claim.len() {
            drop(with_finalizers(&claim[..length], &["only"]));
        }
    }
}
