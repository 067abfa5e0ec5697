//! Objects of the Kubernetes API as the API server encodes them: protobuf where it can, JSON elsewhere.
//!
//! An object is decoded into structs of `k8s_openapi`, of which only the fields are set that scheduling reads. Both encodings
//! give the same structs, so that what a field means is said once, in `flotilla_framework::ingest`.
//!
//! Knows: envelopes, frames of watches, pages of lists, and which fields are read. Must not know: requests, or what becomes of
//! an object.

mod answer;
mod caught;
mod convert;
mod error;
mod finalizers;
mod frame;
mod json;
mod object;
mod protobuf;
#[cfg(feature = "testing")]
pub mod testing;
mod whole;
mod written;

pub use answer::{Bookmark, Change, Item, Page, Read, Status};
pub use caught::caught;
pub use error::DecodeError;
pub use finalizers::with_finalizers;
pub use frame::{Encoding, FRAME_BYTES, Frames};
pub use object::{
    BudgetStatus, LabelSelector, Metadata, Namespace, Node, Object, Pod, Selecting, SelectorMap, Specified,
    StorageCapacity, StorageClass,
};
pub use written::{Binding, Event, Reference};

/// The generated types; `tests/generated.rs` writes them.
#[allow(missing_docs, clippy::all, clippy::use_self, unreachable_pub, unused_qualifications)]
pub(crate) mod pb {
    include!("generated/kubernetes.rs");
}
