//! The shell of Flotilla: everything that touches a socket, a clock or a process.
//!
//! Knows: the API server, the lease, the workers' streams, the endpoints. Must not know: whether a node suits a pod
//! (`flotilla_framework`), or what happens next to a pod (`flotilla_machine`).

pub mod access;
pub mod args;
pub mod attempts;
pub mod bind;
pub mod certificates;
pub mod client;
pub mod discovery;
pub mod driver;
pub mod extender;
pub mod fanout;
pub mod lease;
pub mod logging;
pub mod metrics;
pub mod preempt;
pub mod run;
pub mod serve;
pub mod status;
pub mod volumes;
pub mod watch;
