//! The pages `/metrics` and `/metrics/resources`: kube-scheduler's metric names where the value is available, `flotilla_*` for the rest.
//!
//! A value that is not measured is omitted, because a constant zero would mislead. docs/reference/metrics.md describes each metric.
//!
//! The format is Prometheus' text format, as kube-scheduler's. From OpenMetrics, a Prometheus before 3 reads bucket bounds in another
//! spelling, and quantiles over schedulers of both kinds would be wrong.

use std::{fmt, sync::Arc};

use flotilla_configuration::features::FeatureGates;
use futures::FutureExt as _;
use prometheus::{TextEncoder, proto::MetricFamily};

use crate::{
    lease::Leadership,
    run::Parts,
    serve::{Page, places::Places},
    watch::Watches,
};

mod family;
mod machine;
mod observed;
mod parts;
mod preemption;
mod process;
mod resources;
pub(crate) mod rest;
mod spans;
#[cfg(test)]
mod tests;
mod transport;

pub use observed::{Buckets, EventHistograms, Latency, Scheduled};

/// The sources of metrics.
#[derive(Clone)]
pub struct Sources {
    /// The parts of the process.
    pub parts: Parts,
    /// The watches.
    pub watches: Watches,
    /// The name of the Lease; `None` without an election.
    pub lease: Option<Arc<str>>,
    /// The enabled feature gates.
    pub gates: FeatureGates,
    /// Whether a flag names workers.
    pub expects_workers: bool,
    /// The connection slots of each port.
    pub places: Vec<(&'static str, Places)>,
}

impl fmt::Debug for Sources {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Sources")
    }
}

impl Sources {
    /// The page `/metrics`.
    #[must_use]
    pub fn metrics(&self) -> Page {
        let sources = self.clone();
        Arc::new(move || {
            let sources = sources.clone();
            async move { sources.write_metrics().await }.boxed()
        })
    }

    /// The page `/metrics/resources`, which is empty while another process leads.
    ///
    /// Source: `installMetricHandler` of `cmd/kube-scheduler`.
    #[must_use]
    pub fn resources(&self) -> Page {
        let (handle, leading) = (self.parts.handle.clone(), self.parts.leading.clone());
        Arc::new(move || {
            let (handle, leading) = (handle.clone(), leading.clone());
            async move {
                if !matches!(*leading.borrow(), Leadership::Leading { .. }) {
                    return Ok(String::new());
                }
                let pods = handle.ask(|machine, _| machine.pod_infos()).await.map_err(|error| error.to_string())?;
                let written = tokio::task::spawn_blocking(move || resources::page(&pods)).await;
                written.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
            }
            .boxed()
        })
    }

    async fn write_metrics(&self) -> Result<String, String> {
        let Parts { handle, scheduled, .. } = &self.parts;
        let census = handle.ask(|machine, _| machine.census()).await.map_err(|error| error.to_string())?;
        let status = handle.status();
        let mut families = scheduled.registry().gather();
        families.extend(rest::registry().gather());
        families.extend(machine::upstream(&status, &census));
        families.extend(machine::own(&status));
        families.extend(parts::families(self));
        families.extend(process::process());
        families.extend(process::builds());
        families.extend([process::tasks(), process::gates(&self.gates)]);
        text(families)
    }
}

fn text(mut families: Vec<MetricFamily>) -> Result<String, String> {
    families.retain(|family| !family.get_metric().is_empty());
    families.sort_by(|one, other| one.name().cmp(other.name()));
    TextEncoder::new().encode_to_string(&families).map_err(|error| error.to_string())
}
