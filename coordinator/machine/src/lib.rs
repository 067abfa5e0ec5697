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
pub mod census;
mod crew;
mod cycle;
pub mod directory;
pub mod event;
mod extend;
mod gates;
mod groups;
pub mod images;
mod intake;
mod judge;
mod label;
pub mod machine;
mod nominations;
pub mod outlook;
pub mod overview;
mod pods;
mod prebind;
mod preempt;
pub mod queue;
pub mod recent;
mod roster;
mod sign;
pub mod status;
mod storage;
mod subject;
pub mod tally;
pub mod trace;
mod unread;
mod wake;
