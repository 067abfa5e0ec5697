//! What the tests against a real control plane share: Flotilla's processes beside it.
//!
//! Knows: processes and the Kubernetes API. Must not know: anything inside Flotilla; its binaries are driven as its
//! users drive them.

pub mod census;
pub mod certificates;
pub mod collector;
pub mod crds;
pub mod deployed;
pub mod e2e;
pub mod extender;
pub mod fleet;
mod go;
pub mod metrics;
pub mod oracle;
pub mod placements;
pub mod rights;
