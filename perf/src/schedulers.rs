//! Starts the measured schedulers.

use std::{process::Command, time::Duration};

use flotilla_control_plane::free_port;
use serde::{Serialize, Serializer};

use crate::{cluster::Cluster, flotilla, programs::Programs};

pub(crate) const POLL: Duration = Duration::from_millis(20);

/// kube-scheduler's client limit in requests per second, as in scheduler_perf: more than the API server handles.
const CLIENT_LIMIT: u32 = 5_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheduler {
    /// Binds each pod to the next node, round-robin.
    Ceiling,
    /// Like [`Self::Ceiling`], with an event per pod.
    CeilingWithEvents,
    Stock,
    Flotilla,
}

impl Scheduler {
    /// In the report's order.
    pub(crate) const ALL: [Self; 4] = [Self::Ceiling, Self::CeilingWithEvents, Self::Stock, Self::Flotilla];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ceiling => "ceiling",
            Self::CeilingWithEvents => "ceiling-events",
            Self::Stock => "kube-scheduler",
            Self::Flotilla => "flotilla",
        }
    }

    /// Whether it binds pods without scheduling.
    pub(crate) const fn decides_nothing(self) -> bool {
        matches!(self, Self::Ceiling | Self::CeilingWithEvents)
    }

    /// Starts the processes, waits until they are ready, and returns their names.
    pub(crate) async fn start(
        self,
        cluster: &Cluster,
        programs: &Programs,
        workers: u32,
    ) -> anyhow::Result<Vec<String>> {
        match self {
            Self::Ceiling => ceiling(cluster, programs, self.name(), &[]),
            Self::CeilingWithEvents => ceiling(cluster, programs, self.name(), &["--events"]),
            Self::Stock => kube_scheduler(cluster).await,
            Self::Flotilla => flotilla::start(cluster, programs, workers).await,
        }
    }
}

impl Serialize for Scheduler {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

fn ceiling(cluster: &Cluster, programs: &Programs, name: &str, more: &[&str]) -> anyhow::Result<Vec<String>> {
    let mut command = Command::new(&programs.load);
    command.arg("ceiling").arg("--kubeconfig").arg(&cluster.kubeconfig).args(more);
    cluster.control_plane.processes().spawn(name, command)?;
    Ok(vec![name.to_owned()])
}

/// Default configuration: Lease, protobuf and events.
async fn kube_scheduler(cluster: &Cluster) -> anyhow::Result<Vec<String>> {
    let port = free_port()?;
    let (certificate, key) = cluster.control_plane.serving_certificate();
    let mut command = Command::new(cluster.control_plane.binaries().kube_scheduler());
    for flag in ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"] {
        command.arg(format!("--{flag}={}", cluster.kubeconfig.display()));
    }
    command.arg(format!("--kube-api-qps={CLIENT_LIMIT}")).arg(format!("--kube-api-burst={CLIENT_LIMIT}"));
    command.arg("--bind-address=127.0.0.1").arg(format!("--secure-port={port}"));
    command.arg(format!("--tls-cert-file={}", certificate.display()));
    command.arg(format!("--tls-private-key-file={}", key.display()));
    let name = Scheduler::Stock.name();
    cluster.control_plane.processes().spawn(name, command)?;
    cluster.wait_for(name, &format!("https://127.0.0.1:{port}"), "readyz", |_| true).await?;
    Ok(vec![name.to_owned()])
}
