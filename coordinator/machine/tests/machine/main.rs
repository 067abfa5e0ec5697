//! The machine driven by events, with real replicas as its workers and a small API server of its own.

mod census;
mod course;
mod extenders;
mod faulty;
mod group_extenders;
mod group_simulation;
mod groups;
mod history;
mod hostile;
mod late;
mod neighbours;
mod nominations;
mod outlook;
mod overview;
mod preemption;
mod queues;
mod reserve;
mod signatures;
mod simulation;
mod storage;
mod traces;
mod verdicts;
mod volume_simulation;
mod volumes;
mod workers;
mod world;
