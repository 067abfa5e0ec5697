//! The controllers and kubelets of a cluster from files, on a virtual clock.
//!
//! Contains: rollouts, drains, disruption budgets, the recreation of deleted pods, and their readiness. Does not depend on: the scheduler's
//! decisions, files, or printing. It does no I/O and reads no clock: time passes in rounds.
//!
//! In a round, each kubelet, each controller and each drain acts once on the state that the scheduler has left. A pod that is bound is ready
//! in the next round. Grace periods, `minReadySeconds` and retries of `kubectl drain` take less than a round.

mod budget_status;
mod budgets;
mod change;
mod controllers;
mod drains;
mod refused;
mod removal;
mod report;
mod rollouts;
mod sequences;
mod start;
mod statuses;
mod world;

pub use budget_status::{BudgetStatus, Controller};
pub use change::{Change, Deletion};
pub use controllers::Controllers;
pub use flotilla_cluster::lifecycle::BudgetBound;
pub use removal::Resident;
pub use report::{Blocked, DrainReport, NotCreated, Obstacle, PodRef, Report, RolloutEnd, RolloutReport};
pub use start::Start;
pub use statuses::current_budgets;

#[cfg(test)]
mod tests;
