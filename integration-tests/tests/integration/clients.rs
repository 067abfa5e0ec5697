//! Clients of a scheduler, in the same scenes with kube-scheduler and with Flotilla. `cargo xtask clients` prints the tables.

mod jobs;
mod karpenter;
mod kuberay;
