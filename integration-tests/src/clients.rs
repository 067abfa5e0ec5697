//! Clients of a scheduler, as processes.

mod descheduler;
mod jobset;
mod karpenter;
mod kuberay;
mod kueue;
mod manifests;

pub use descheduler::Descheduler;
pub use jobset::JobSets;
pub use karpenter::Karpenter;
pub use kuberay::KubeRay;
pub use kueue::Kueue;
