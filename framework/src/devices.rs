//! Dynamic Resource Allocation: devices and their allocation.
//!
//! The [`inventory`] holds the slices, and the [`pools`] of each node derive from it. [`wanted`] prepares the claims of a pod once;
//! [`allocate`] searches devices for them on each node. [`result`] turns the found devices into allocations.

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
pub mod footprint;
pub mod inventory;
pub mod language;
pub mod model;
pub mod node;
pub mod objects;
mod plan;
mod pod_groups;
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
