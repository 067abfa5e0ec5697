//! The contract: what coordinator and workers say to each other, as it is written on the wire.
//!
//! Every domain type that crosses the wire implements [`Wire`], so that both directions of its conversion stand side by
//! side. Encoding cannot fail; decoding names the field that is wrong, and never panics.
//!
//! Knows: the generated types, the conversions, the bounds of a message. Must not know: streams, connections, or who
//! is at either end.

pub mod bounds;
pub mod codec;
pub mod convert;
pub mod lists;
pub mod words;

pub use convert::{DecodeError, Problem, Wire};

/// The generated types, the client and the server of the service `flotilla.v1.Worker`; `tests/generated.rs` writes them.
#[allow(
    missing_docs,
    clippy::all,
    clippy::or_fun_call,
    clippy::use_self,
    clippy::too_many_lines,
    unused_qualifications
)]
pub mod pb {
    include!("generated/flotilla.v1.rs");
}

/// The version of the protocol that this build speaks; a worker names its own in `Hello`.
pub const PROTOCOL_VERSION: u32 = 3;

/// The full name of the service, as health checks and reflection name it.
pub const SERVICE_NAME: &str = "flotilla.v1.Worker";

/// The compiled `.proto` file as an encoded `google.protobuf.FileDescriptorSet`, for reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("generated/flotilla.v1.bin");
