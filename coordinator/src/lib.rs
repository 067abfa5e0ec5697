//! The shell of Flotilla: everything that touches the API server or the process.
//!
//! Knows: the API server, the lease, the endpoints, and how `flotilla_runtime` is put to work. Must not know: whether a node suits a pod
//! (`flotilla_framework`), or what happens next to a pod (`flotilla_machine`).

pub mod access;
pub mod args;
pub mod attempts;
pub mod bind;
pub mod certificates;
pub mod client;
pub mod discovery;
pub mod extender;
pub mod lease;
pub mod metrics;
pub mod outgoing;
pub mod preempt;
pub mod run;
pub mod serve;
pub mod status;
pub mod takeover;
pub mod wall;
pub mod watch;
pub mod writer;
