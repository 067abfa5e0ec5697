//! Parser of Prometheus' text format.

use std::collections::{BTreeMap, BTreeSet};

/// Labels of a sample.
pub type Labels = BTreeMap<String, String>;

/// Metric family.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Family {
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    /// Help text.
    pub help: String,
    /// Label names of its samples, except `le`.
    pub labels: BTreeSet<String>,
    /// Bucket bounds as bits, in order; empty for other types.
    pub bounds: BTreeSet<u64>,
    /// Samples by full name.
    pub samples: Vec<(String, Labels, f64)>,
}

/// Parses a page into families.
#[must_use]
pub fn parse(page: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for line in page.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            families.entry(name.to_owned()).or_default().help = help.to_owned();
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            families.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else if let Some((series, value)) = line.rsplit_once(' ')
            && !line.starts_with('#')
        {
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let parts = ["_bucket", "_sum", "_count"].iter().filter_map(|part| name.strip_suffix(part));
            let histogram =
                parts.into_iter().find(|base| families.get(*base).is_some_and(|known| known.kind == "histogram"));
            let family = families.entry(histogram.unwrap_or(name).to_owned()).or_default();
            family.add(name, labels.strip_suffix('}').unwrap_or(labels), value);
        }
    }
    families
}

impl Family {
    fn add(&mut self, name: &str, labels: &str, value: &str) {
        let labels = split(labels);
        if let Some(bound) = labels.get("le").and_then(|bound| bound.parse::<f64>().ok()) {
            self.bounds.insert(bound.to_bits());
        }
        self.labels.extend(labels.keys().filter(|label| *label != "le").cloned());
        self.samples.push((name.to_owned(), labels, value.parse().unwrap_or(f64::NAN)));
    }

    /// Sum of the samples with this full name and these labels; `None` without samples.
    #[must_use]
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let has_all =
            |sample: &Labels| labels.iter().all(|(name, value)| sample.get(*name).is_some_and(|is| is == value));
        let of = self.samples.iter().filter(|(full, sample, _)| full == name && has_all(sample));
        of.map(|(_, _, value)| *value).reduce(|sum, value| sum + value)
    }
}

/// Parses `a="1",b="2"`; values must not contain quotes.
fn split(labels: &str) -> Labels {
    let pairs = labels.split("\",").filter_map(|pair| pair.split_once("=\""));
    pairs.map(|(name, value)| (name.to_owned(), value.trim_end_matches('"').to_owned())).collect()
}
