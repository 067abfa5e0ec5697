//! The scheduler as a pure state machine; see [`machine::Machine`].
//!
//! Contains: the queue, the cache of the cluster, offers and their repair, the assignment of nodes to workers. Does not depend on: sockets,
//! API verbs, protobuf, wall clocks, or the filters and scores, which are in `flotilla_framework`.

pub mod action;
mod admit;
mod asking;
pub mod audit;
mod cycle;
pub mod directory;
mod early;
mod end;
pub mod event;
mod extend;
mod follow;
mod gates;
mod groups;
mod held;
pub mod images;
mod intake;
mod judge;
pub mod machine;
mod objects;

mod pods;
mod prebind;
mod preempt;
mod preparations;
mod quarantine;
pub mod queue;
mod roster;
mod settings;
mod shards;
mod sharers;
mod sign;
mod site;
mod subject;
mod unread;
mod view;
mod wake;
mod workers;

pub use view::{census, comparison, outlook, overview, recall, recent, status, tally, trace};
