//! Evaluates nodes for pods: whether a node is feasible, and its score, exactly as kube-scheduler 1.37.
//!
//! Contains: Kubernetes' scheduling semantics. Does not depend on: callers, connections, or the current time. Equal inputs give equal
//! bytes, in the coordinator and on every worker.

pub mod admission;
pub mod class;
pub mod contain;
pub mod declared;
pub mod devices;
pub mod diagnosis;
mod domain_labels;
pub mod domains;
pub mod evaluate;
pub mod evaluation;
pub mod excess;
pub mod explain;
pub mod extender;
pub mod extension;
pub mod family;
pub mod ingest;
pub mod interest;
pub mod labels;
pub mod laps;
pub mod map;
pub mod matches;
pub mod modules;
pub mod node;
pub mod objects;
pub mod plugins;
pub mod pod_group;
pub mod preemption;
pub mod prepared;
pub mod profile;
pub mod quantity;
pub mod registry;
pub mod replica;
pub mod resources;
pub mod select;
mod selector;
pub mod shard;
pub mod signature;
pub mod snapshot;
pub mod status;
pub mod symbols;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod trace;
mod trial_counts;
pub mod volumes;
pub mod weight;
