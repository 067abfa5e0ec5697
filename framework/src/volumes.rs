//! Volumes: claims, persistent volumes, storage classes and CSI drivers, and their effect on scheduling.
//!
//! The coordinator caches all storage objects. It derives the facts of a class of pods ([`facts`]), the CSI data of a node ([`node`]) and
//! the claims in use ([`in_use`]). The plugins evaluate nodes by these alone.

pub mod binding;
pub(crate) mod cache;
pub mod facts;
pub(crate) mod finder;
pub mod in_use;
pub mod mounts;
pub mod node;
pub mod objects;
mod plan;
mod resolve;
mod stand_in;
pub mod storage;
pub mod translate;
mod writes;
pub(crate) mod zones;
