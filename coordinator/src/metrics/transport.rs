//! The numbers of how workers are spoken with.
//!
//! Knows: names, help texts and where each number comes from. Must not know: what moves a number.

use flotilla_runtime::fanout::Fanout;
use flotilla_transport::Transport;
use prometheus::proto::MetricFamily;

use super::family::{counters, gauges};

/// All of them; none, where words travel in plaintext.
pub(super) fn families(fanout: &Fanout) -> Vec<MetricFamily> {
    let Transport::Mutual(mutual) = fanout.transport() else { return Vec::new() };
    let failures = "TLS handshakes with workers that failed, by the reason";
    let own = mutual.credentials.current().map(|own| own.validity().not_after_s);
    let ends = [
        ("authority", mutual.authority_not_after_s()),
        ("coordinator", own),
        // Of those that are attached, the one that ends first.
        ("worker", fanout.workers_not_after_s()),
    ];
    let known = ends.into_iter().filter_map(|(whose, end)| Some((whose, u64::try_from(end?).unwrap_or_default())));
    let known: Vec<(&str, u64)> = known.collect();
    let help = "When certificates end, in seconds since 1970: the first of the workers', the coordinator's, and that of an \
                authority of its own";
    vec![
        counters("flotilla_worker_handshake_failures_total", failures, "reason", &mutual.failures.counts()),
        gauges("flotilla_worker_certificate_not_after_seconds", help, "certificate", &known),
    ]
}
