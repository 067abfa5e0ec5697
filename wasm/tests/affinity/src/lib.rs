//! NodeAffinity as a module, for comparison.

#[cfg(feature = "batch")]
mod batch;
#[cfg(not(any(feature = "batch", feature = "team")))]
mod single;
#[cfg(feature = "team")]
mod team;
#[cfg(not(feature = "team"))]
mod terms;

#[cfg(not(feature = "team"))]
const REASON: &str = "node(s) didn't match Pod's node affinity/selector";
