//! The way to a live cluster and to the coordinator that decides in it, for every command that asks one.
//!
//! Knows: which flags say where they are. Must not know: what is asked.

mod args;
mod ask;
mod connection;
mod lease;

pub(crate) use args::{ClusterArgs, ReachArgs};
pub(crate) use ask::{Coordinator, Holder, find, holder};
pub(crate) use connection::Connection;
