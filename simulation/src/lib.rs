//! Simulation of whole coordinators on one thread and a virtual clock, with a model of the API server.
//!
//! Contains: the API server's rules, the faults of it and of the network, and the invariants. Does not depend on: how Flotilla decides.

pub mod api;
pub mod check;
pub mod cluster;
pub mod coordinator;
pub mod course;
pub mod defects;
pub mod faulty;
pub mod guard;
pub mod minimise;
pub mod namesakes;
pub mod panics;
pub mod plan;
pub mod seed;
pub mod workers;
pub mod world;
