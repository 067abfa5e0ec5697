//! Read access to the machine for people, metrics and traces. No decision depends on it.

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
