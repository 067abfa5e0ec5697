//! Whole coordinators on one thread and a virtual clock, beside a model of the API server.
//!
//! Knows: the API server's rules, and the faults that it and the network have. Must not know: how Flotilla decides.

pub mod api;
pub mod check;
pub mod cluster;
pub mod coordinator;
pub mod course;
pub mod faulty;
pub mod guard;
pub mod minimise;
pub mod namesakes;
pub mod panics;
pub mod plan;
pub mod seed;
pub mod workers;
pub mod world;
