//! The way to a live cluster and to the coordinator that decides in it, for every command that asks one.
//!
//! Knows: which flags say where they are. Must not know: what is asked.

mod ask;
mod connection;
mod dump;
mod holder;
mod lease;
pub(crate) mod list;

pub(crate) use ask::{Coordinator, find};
pub(crate) use connection::Connection;
pub(crate) use dump::dump;
pub(crate) use holder::{Holder, holder};
