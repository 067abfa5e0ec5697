//! The course of things: what happens next to each pod, each node and each worker.
//!
//! A pure state machine. The shell tells it what happened and when; it answers with what is to be done. It never
//! waits, never fails, and the same events give the same actions.
//!
//! Knows: the queue, the cache of the cluster, offers and their repair, the roster of workers. Must not know: sockets,
//! API verbs, protobuf, wall clocks, or whether a node suits a pod (that is `flotilla_framework`).

pub mod action;
mod asking;
pub mod audit;
mod cycle;
mod deadlines;
pub mod directory;
mod early;
pub mod event;
mod excess;
mod extend;
mod extending;
mod gates;
mod groups;
mod held;
pub mod images;
mod intake;
mod judge;
pub mod machine;
mod nominations;
mod objects;

mod pods;
mod prebind;
mod preempt;
mod preparations;
mod quarantine;
pub mod queue;
mod roster;
mod sharers;
mod sign;
mod subject;
mod unread;
mod view;
mod wake;
mod workers;

pub use view::{census, comparison, outlook, overview, recall, recent, status, tally, trace};
