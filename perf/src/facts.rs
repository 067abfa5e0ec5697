//! What the client noted of each pod.
//!
//! Knows: the lines that perf/load writes. Must not know: what is computed of them.

use std::{fs, path::Path};

use anyhow::Context as _;
use serde::Deserialize;

/// What became of one pod. Times are in microseconds since the measurement began, by the client's monotonic clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Fact {
    /// When the client sent the creation; absent where a controller created the pod.
    pub(crate) sent_us: Option<u64>,
    /// When the API server had answered the creation.
    pub(crate) answered_us: Option<u64>,
    /// When the client's watch told of the pod for the first time.
    pub(crate) seen_us: Option<u64>,
    /// When the client's watch told of the pod with a node for the first time.
    pub(crate) bound_us: Option<u64>,
    /// The node.
    #[serde(default)]
    pub(crate) node: String,
}

/// All that the client says about a measurement.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Facts {
    /// What the client itself took, in CPU seconds.
    pub(crate) client_cpu_s: f64,
    pub(crate) pods: Vec<Fact>,
}

#[derive(Deserialize)]
struct Head {
    client_cpu_s: f64,
}

impl Fact {
    /// When the client first knew that the pod exists: by the answer, or by the watch where that was earlier.
    pub(crate) fn created_us(&self) -> Option<u64> {
        [self.answered_us, self.seen_us].into_iter().flatten().min()
    }

    /// From creation to binding, in milliseconds; `None` where it is not bound.
    pub(crate) fn latency_ms(&self) -> Option<f64> {
        Some(self.bound_us?.saturating_sub(self.created_us()?) as f64 / 1000.0)
    }
}

impl Facts {
    /// Reads the client's file: a line about itself, and a line for each pod.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read the facts in {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} is not what the client writes", path.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut lines = text.lines();
        let head: Head = serde_json::from_str(lines.next().context("it is empty")?).context("line 1")?;
        let pods = lines
            .enumerate()
            .map(|(index, line)| serde_json::from_str(line).with_context(|| format!("line {}", index + 2)))
            .collect::<anyhow::Result<_>>()?;
        Ok(Self { client_cpu_s: head.client_cpu_s, pods })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_created_when_the_client_first_knows_of_it() {
        let text = "{\"client_cpu_s\":1.5}\n\
            {\"pod\":\"a/b\",\"sent_us\":1000,\"answered_us\":3000,\"seen_us\":2500,\"bound_us\":6000,\"node\":\"n\"}\n\
            {\"pod\":\"a/c\",\"seen_us\":7000}\n";
        let facts = Facts::parse(text).expect("it is valid");
        assert_eq!(facts.client_cpu_s, 1.5);
        assert_eq!(facts.pods[0].created_us(), Some(2500));
        assert_eq!(facts.pods[0].latency_ms(), Some(3.5));
        assert_eq!((facts.pods[1].created_us(), facts.pods[1].latency_ms()), (Some(7000), None));
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        let error = format!("{:#}", Facts::parse("{\"client_cpu_s\":1}\n{\n").expect_err("it is broken"));
        assert!(error.contains("line 2"), "{error}");
    }
}
