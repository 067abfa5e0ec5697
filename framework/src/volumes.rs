//! Volumes: what pods, claims, volumes, classes and drivers say about where a pod may go.
//!
//! Knows: the objects of storage as scheduling reads them, what is assumed of them, and what CSI drivers call volumes that are not
//! theirs. Must not know: who watches them or writes to them.

pub mod objects;
pub mod storage;
pub mod translate;
