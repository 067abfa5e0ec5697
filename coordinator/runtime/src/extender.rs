//! Calls to HTTP extenders: filter, prioritize, preempt and bind.

mod caller;
#[cfg_attr(feature = "tls", path = "extender/tls.rs")]
#[cfg_attr(not(feature = "tls"), path = "extender/without_tls.rs")]
mod connector;
mod course;
mod preemption;
mod text;
mod wire;

pub use caller::{CallError, Callers, Tally, check};
pub use course::{Failure, Objects, ask};
pub use preemption::propose;
pub use text::{node_text, pod_text};

/// kube-scheduler takes a single node without a score.
pub const SCORED_FROM: usize = 2;

#[cfg(test)]
mod any_bytes;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
