//! Helpers to build metric families.

use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

pub(super) type Label<'a> = (&'a str, &'a str);

fn family(name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}

fn pairs(labels: &[Label<'_>]) -> Vec<LabelPair> {
    let pair = |&(name, value): &Label<'_>| {
        let mut pair = LabelPair::default();
        pair.set_name(name.to_owned());
        pair.set_value(value.to_owned());
        pair
    };
    labels.iter().map(pair).collect()
}

pub(super) fn level(labels: &[Label<'_>], value: f64) -> Metric {
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    let mut metric = Metric::from_label(pairs(labels));
    metric.set_gauge(gauge);
    metric
}

pub(super) fn count(labels: &[Label<'_>], value: f64) -> Metric {
    let mut counter = Counter::default();
    counter.set_value(value);
    let mut metric = Metric::from_label(pairs(labels));
    metric.set_counter(counter);
    metric
}

pub(super) fn gauge(name: &str, help: &str, metrics: Vec<Metric>) -> MetricFamily {
    family(name, help, MetricType::GAUGE, metrics)
}

pub(super) fn counter(name: &str, help: &str, metrics: Vec<Metric>) -> MetricFamily {
    family(name, help, MetricType::COUNTER, metrics)
}

pub(super) fn single_gauge(name: &str, help: &str, value: u64) -> MetricFamily {
    gauge(name, help, vec![level(&[], float(value))])
}

pub(super) fn single(name: &str, help: &str, value: u64) -> MetricFamily {
    counter(name, help, vec![count(&[], float(value))])
}

pub(super) fn gauges(name: &str, help: &str, label: &str, values: &[(&str, u64)]) -> MetricFamily {
    gauge(name, help, values.iter().map(|&(of, value)| level(&[(label, of)], float(value))).collect())
}

pub(super) fn counters(name: &str, help: &str, label: &str, values: &[(&str, u64)]) -> MetricFamily {
    counter(name, help, values.iter().map(|&(of, value)| count(&[(label, of)], float(value))).collect())
}

#[expect(clippy::cast_precision_loss, reason = "a sample is a float")]
pub(super) const fn float(value: u64) -> f64 {
    value as f64
}
