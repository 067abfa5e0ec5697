//! The gRPC service of a worker: it holds a shard of the cluster's nodes, and filters and scores it for classes of pods.
//!
//! ```text
//! stream in -> session (async) -> bounded channel -> cpu (a thread with the replica) -> bounded channel -> stream out
//! ```
//!
//! All state belongs to a stream: a leader that attaches sends everything, so a worker can stop and start at any time.
//!
//! Contains: streams, threads and the choice of the leader. Does not depend on: filtering and scoring (the framework), encoding of messages
//! (the protocol), flags, or other workers.

mod counters;
mod cpu;
mod laps;
mod leader;
mod loading;
#[cfg(feature = "probes")]
mod probes;
mod serve;
mod service;
mod session;
mod spans;

pub use counters::{Counters, Counts};
pub use flotilla_transport::Transport;
pub use serve::{ServeError, ServeOptions, serve};
