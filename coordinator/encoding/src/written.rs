//! What is written in protobuf.
//!
//! Knows: the message of each kind. Must not know: why it is written, or what the API server makes of it.

use prost::Message as _;

use crate::{pb, protobuf::MAGIC};

/// A reference to an object, and its kind.
#[derive(Debug, Clone, Copy)]
pub struct Reference<'a> {
    /// The group and version, such as `v1`; empty: none is told.
    pub api_version: &'a str,
    /// The kind, such as `Node`.
    pub kind: &'a str,
    /// The namespace; empty: the kind has none.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
    /// The UID; empty: none is told.
    pub uid: &'a str,
    /// The `resourceVersion`; empty: none is told.
    pub version: &'a str,
}

/// That a pod is to run on a node.
#[derive(Debug, Clone, Copy)]
pub struct Binding<'a> {
    /// The namespace of the pod.
    pub namespace: &'a str,
    /// The name of the pod.
    pub name: &'a str,
    /// The UID of the pod.
    pub uid: &'a str,
    /// The name of the node.
    pub node: &'a str,
}

impl Binding<'_> {
    /// The body of the request, as [`Encoding::PROTOBUF`](crate::Encoding::PROTOBUF).
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let metadata = pb::ObjectMeta {
            name: self.name.to_owned(),
            namespace: self.namespace.to_owned(),
            uid: self.uid.to_owned(),
            ..pb::ObjectMeta::default()
        };
        let target =
            pb::ObjectReference { kind: "Node".to_owned(), name: self.node.to_owned(), ..pb::ObjectReference::default() };
        enveloped("v1", "Binding", &pb::Binding { metadata: Some(metadata), target: Some(target) })
    }
}

/// An object in its envelope.
fn enveloped(api_version: &str, kind: &str, object: &impl prost::Message) -> Vec<u8> {
    let type_meta = pb::TypeMeta { api_version: api_version.to_owned(), kind: kind.to_owned() };
    let raw = object.encode_to_vec().into();
    let unknown = pb::Unknown { type_meta: Some(type_meta), raw, ..pb::Unknown::default() };
    let mut bytes = Vec::with_capacity(MAGIC.len() + unknown.encoded_len());
    bytes.extend_from_slice(&MAGIC);
    // A Vec grows, so that nothing is lacking.
    let _ = unknown.encode(&mut bytes);
    bytes
}
