//! Read access to the machine for people, metrics and traces. No decision depends on it.

pub mod census;
pub mod comparison;
mod counting;
pub(crate) mod label;
pub mod outlook;
pub mod overview;
pub mod recall;
pub mod recent;
pub mod status;
pub mod tally;
pub mod trace;
mod tracing;
