//! Connections to a live cluster and its coordinator.

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
