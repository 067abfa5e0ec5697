//! Metrics of spans.

use flotilla_runtime::fanout::Fanout;
use prometheus::proto::MetricFamily;

use super::family::single;

pub(super) fn families(fanout: &Fanout) -> Vec<MetricFamily> {
    let Some(counts) = fanout.spans() else { return Vec::new() };
    vec![
        single("flotilla_spans_sent_total", "Spans exported to a collector", counts.sent),
        single("flotilla_spans_dropped_total", "Spans lost before a collector received them", counts.dropped),
    ]
}
