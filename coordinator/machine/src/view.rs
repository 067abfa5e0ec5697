//! What the machine shows of itself: to people, to metrics, to traces.
//!
//! No decision on a pod looks at any of it.
//!
//! Knows: how to read every part of the machine. Must not know: who looks.

pub mod census;
pub mod comparison;
mod counting;
mod label;
pub mod outlook;
pub mod overview;
pub mod recall;
pub mod recent;
mod rest;
pub mod status;
pub mod tally;
pub mod trace;
mod tracing;
