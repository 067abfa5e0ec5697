//! The gRPC service of a worker: it holds a shard of the cluster's nodes, and filters and scores it for classes of pods.
//!
//! ```text
//! stream in -> session (async) -> bounded channel -> cpu (a thread with the replica) -> bounded channel -> stream out
//! ```
//!
//! Nothing here outlives its stream: a leader that attaches sends all that a worker needs, so a worker may be killed
//! and started at any time.
//!
//! Knows: streams, threads, which leader is obeyed. Must not know: what makes a node suit a pod (that is the
//! framework), how a message is written (that is the contract), flags, or anything about other workers.

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
