//! Volumes: what pods, claims, volumes, classes and drivers say about where a pod may go.
//!
//! Knows: the objects of storage as scheduling reads them. Must not know: who watches them or writes to them.

pub mod binding;
pub mod objects;
pub mod storage;
