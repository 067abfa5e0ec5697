//! Evaluates a pod on all nodes of a cluster: the outcome per node, the missing resources, and changes that would make the pod fit.
//!
//! Contains: the evaluation in one process, and its wording. Does not depend on: files, tables or pages. It does no I/O, so that it builds
//! for wasm32.

pub mod account;
pub mod advice;
pub mod amount;
pub mod answer;
pub mod devices;
pub mod explainer;
pub mod in_the_way;
pub mod kept;
pub mod missing;
pub mod pod_explanation;
pub mod preemption;
pub mod question;
pub mod why;
pub mod words;
pub mod world;
