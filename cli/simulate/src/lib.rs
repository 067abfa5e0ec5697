//! Schedules the pods of a cluster from files: the machine, workers on loopback, and substitutes for the API server and its controllers.
//!
//! Contains: starting the parts, feeding them the cluster, and recording the decisions. Does not depend on: where the cluster comes
//! from, or how the answer is printed.
//!
//! A crate, so that builds from source compile what runs for each pod at a higher level than the code that parses and prints.

mod claims;
pub mod ledger;
mod model;
pub mod removal;
mod requests;
mod rest;
mod rounds;
pub mod run;
mod storage;
pub mod workers;
