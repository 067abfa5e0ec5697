//! The numbers of spans.
//!
//! Knows: names, help texts and where each number comes from. Must not know: what moves a number.

use flotilla_runtime::fanout::Fanout;
use prometheus::proto::MetricFamily;

use super::family::single;

/// All of them; none, where nothing is traced.
pub(super) fn families(fanout: &Fanout) -> Vec<MetricFamily> {
    let Some(counts) = fanout.spans() else { return Vec::new() };
    vec![
        single("flotilla_spans_sent_total", "Spans that a collector took", counts.sent),
        single("flotilla_spans_dropped_total", "Spans that were lost on the way to a collector", counts.dropped),
    ]
}
