//! Calls to HTTP extenders: filter, prioritize, preempt and bind.

mod caller;
mod course;
mod preemption;
mod text;
#[cfg(feature = "tls")]
mod tls;
mod wire;
#[cfg(not(feature = "tls"))]
mod without_tls;

pub use caller::{CallError, Callers, Tally, check};
pub use course::{Failure, Objects, ask};
pub use preemption::propose;
pub use text::{node_text, pod_text};
#[cfg(feature = "tls")]
use tls::{Connector, connector};
#[cfg(not(feature = "tls"))]
use without_tls::{Connector, connector};

/// kube-scheduler takes a single node without a score.
pub const SCORED_FROM: usize = 2;

#[cfg(all(test, feature = "tls"))]
mod any_bytes;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(all(test, feature = "tls"))]
mod tests;
