//! Devices: Dynamic Resource Allocation.
//!
//! Slices are taken into an [`inventory`], from which the [`pools`] of each node are made; claims are made ready once
//! ([`wanted`]) and then searched for on node after node ([`allocate`]). What was found becomes the [`result`].
//!
//! Knows: the objects of DRA as scheduling reads them, and which devices a claim gets on a node. Must not know: who watches
//! the objects or writes to them, or how CEL is evaluated.

pub mod allocate;
pub mod allocated;
pub mod amount;
mod binding;
pub mod cache;
mod capacity;
pub mod claimed;
pub mod count;
pub mod extended;
pub mod facts;
pub mod inventory;
pub mod language;
pub mod model;
pub mod node;
pub mod objects;
mod plan;
pub mod pools;
mod resolve;
pub mod result;
pub mod selectors;
pub mod special;
mod store;
pub mod taints;
mod views;
pub mod wanted;
pub mod work;
