//! Clients of a scheduler, in the same scenes with kube-scheduler and with Flotilla. `cargo xtask clients` prints the tables.
//!
//! Only Karpenter and Jobs run without `--include-ignored`.

mod descheduler;
mod jobs;
mod jobset;
mod karpenter;
mod kuberay;
mod kueue;
