//! Requests and limits of each pod for `/metrics/resources`.
//!
//! Every pod has a few samples of some 200 B: 120 MB for 150,000 pods with two requests and two limits each. The page is written a thousand
//! pods at a time, so that only the text holds all.
//!
//! Source: `pkg/scheduler/metrics/resources/resources.go`. As in scheduling, CPU is rounded up to thousandths, all else to whole units.

use std::sync::Arc;

use flotilla_framework::{class::PodInfo, resources::Resources};
use prometheus::{
    TextEncoder,
    proto::{Metric, MetricFamily},
};

use super::family::{gauge, level};

const CHUNK: usize = 1_000;

const REQUEST: (&str, &str) = (
    "kube_pod_resource_request",
    "[STABLE] Resources requested by workloads on the cluster, broken down by pod. This shows the resource usage the \
     scheduler and kubelet expect per pod for resources along with the unit for the resource if any.",
);
const LIMIT: (&str, &str) = (
    "kube_pod_resource_limit",
    "[STABLE] Resources limit for workloads on the cluster, broken down by pod. This shows the resource usage the \
     scheduler and kubelet expect per pod for resources along with the unit for the resource if any.",
);

/// The page.
///
/// # Errors
/// Errors of the exporter, which do not occur for these names.
pub(super) fn page(pods: &[Arc<PodInfo>]) -> Result<String, prometheus::Error> {
    let mut text = String::new();
    write(&mut text, LIMIT, pods, |pod| pod.limits.as_deref())?;
    write(&mut text, REQUEST, pods, |pod| Some(&pod.class.requests))?;
    Ok(text)
}

fn write(
    text: &mut String,
    (name, help): (&str, &str),
    pods: &[Arc<PodInfo>],
    of: impl Fn(&PodInfo) -> Option<&Resources>,
) -> Result<(), prometheus::Error> {
    let mut is_first = true;
    for chunk in pods.chunks(CHUNK) {
        let counted = chunk.iter().filter(|pod| !(pod.finished && pod.node_name.is_some()));
        let samples = counted.flat_map(|pod| of(pod).into_iter().flat_map(|resources| samples(pod, resources)));
        let family: MetricFamily = gauge(name, help, samples.collect());
        if family.get_metric().is_empty() {
            continue;
        }
        let written = TextEncoder::new().encode_to_string(&[family])?;
        // The two lines of help and type appear once.
        let skipped = if is_first { 0 } else { 2 };
        is_first = false;
        text.extend(written.split_inclusive('\n').skip(skipped));
    }
    Ok(())
}

fn samples(pod: &PodInfo, resources: &Resources) -> Vec<Metric> {
    let Resources { milli_cpu, memory, ephemeral_storage, scalars } = resources;
    let own = [
        ("cpu", "cores", thousandths(*milli_cpu)),
        ("ephemeral-storage", "bytes", whole(*ephemeral_storage)),
        ("memory", "bytes", whole(*memory)),
    ];
    let scalars = scalars.iter().map(|(name, amount)| (&**name, unit(name), whole(*amount)));
    let node = pod.node_name.as_deref().unwrap_or_default();
    let priority = pod.priority.to_string();
    own.into_iter()
        .chain(scalars)
        .filter(|(.., amount)| *amount != 0.0)
        .map(|(resource, unit, amount)| {
            let labels = [
                ("namespace", &*pod.class.namespace),
                ("node", node),
                ("pod", &*pod.name),
                ("priority", &priority),
                ("resource", resource),
                ("scheduler", &*pod.scheduler_name),
                ("unit", unit),
            ];
            level(&labels, amount)
        })
        .collect()
}

fn unit(name: &str) -> &'static str {
    match name {
        "storage" => "bytes",
        name if name.starts_with("hugepages-") => "bytes",
        name if name.starts_with("attachable-volumes-") => "integer",
        _ => "",
    }
}

#[expect(clippy::cast_precision_loss, reason = "a sample is a float")]
fn whole(amount: i64) -> f64 {
    amount as f64
}

fn thousandths(amount: i64) -> f64 {
    whole(amount) / 1000.0
}
