//! Volumes: what pods, claims, volumes, classes and drivers say about where a pod may go.
//!
//! The coordinator holds all objects of storage and works out what they say of a class of pods ([`facts`]), of a node
//! ([`node`]) and of the pods that stand on nodes ([`standing`]); the plugins judge by that alone.
//!
//! Knows: the objects of storage as scheduling reads them, what is assumed of them, and what CSI drivers call volumes that
//! are not theirs. Must not know: who watches them or writes to them.

pub mod binding;
pub(crate) mod cache;
pub mod facts;
pub(crate) mod finder;
pub mod mounts;
pub mod node;
pub mod objects;
mod plan;
mod resolve;
pub mod standing;
pub mod storage;
pub mod translate;
mod writes;
pub(crate) mod zones;
