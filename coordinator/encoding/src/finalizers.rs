//! Replaces the finalizers of an object and keeps all other bytes.
//!
//! The API server keeps JSON within an object, such as driver parameters, unchanged. A patch converts the whole object to JSON and back,
//! which may rewrite it; the API server rejects the patch if such a field is immutable. An update in protobuf avoids this.

use bytes::Bytes;
use prost::{
    Message as _,
    encoding::{DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field},
};

use crate::{DecodeError, object::Metadata, pb, protobuf::MAGIC};

/// The field `metadata` of every object and its field `finalizers`.
const METADATA: u32 = 1;
const FINALIZERS: u32 = 14;

enum Field {
    Kept,
    Dropped,
    Is(Vec<u8>),
}

/// The identity of an enveloped protobuf object, and the object with these finalizers.
///
/// # Errors
/// The bytes are not a protobuf object.
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

/// The message with each field replaced as `change` decides by number and content.
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
        // Without the envelope, which contains empty fields too.
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
