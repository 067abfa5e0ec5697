//! Metrics of the transport to workers.

use flotilla_runtime::fanout::Fanout;
use flotilla_transport::Transport;
use prometheus::proto::MetricFamily;

use super::family::{counters, gauges};

pub(super) fn families(fanout: &Fanout) -> Vec<MetricFamily> {
    let Transport::Mutual(mutual) = fanout.transport() else { return Vec::new() };
    let failures = "Failed TLS handshakes with workers by reason";
    let own = mutual.credentials.current().map(|own| own.validity().not_after_s);
    let ends = [
        ("authority", mutual.authority_not_after_s()),
        ("coordinator", own),
        // The earliest expiry of the attached workers.
        ("worker", fanout.workers_not_after_s()),
    ];
    let known = ends.into_iter().filter_map(|(whose, end)| Some((whose, u64::try_from(end?).unwrap_or_default())));
    let known: Vec<(&str, u64)> = known.collect();
    let help = "Expiry of certificates in seconds since 1970: the earliest of the workers', the coordinator's, and its own \
                authority's";
    vec![
        counters("flotilla_worker_handshake_failures_total", failures, "reason", &mutual.failures.counts()),
        gauges("flotilla_worker_certificate_not_after_seconds", help, "certificate", &known),
    ]
}
