//! The client's records of pods.

use std::{fs, path::Path};

use anyhow::Context as _;
use serde::Deserialize;

/// Record of a pod. Times are in microseconds since the start of the measurement, by the client's monotonic clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Fact {
    /// Time of the create request; absent for pods of a controller.
    pub(crate) sent_us: Option<u64>,
    /// Time of the response.
    pub(crate) answered_us: Option<u64>,
    /// Time of the pod's first watch event.
    pub(crate) seen_us: Option<u64>,
    /// Time of the first watch event with a node.
    pub(crate) bound_us: Option<u64>,
    #[serde(default)]
    pub(crate) node: String,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Facts {
    pub(crate) client_cpu_s: f64,
    pub(crate) pods: Vec<Fact>,
}

#[derive(Deserialize)]
struct Head {
    client_cpu_s: f64,
}

impl Fact {
    /// The earlier of response and first watch event.
    pub(crate) fn created_us(&self) -> Option<u64> {
        [self.answered_us, self.seen_us].into_iter().flatten().min()
    }

    /// Milliseconds from creation to binding; `None` if unbound.
    pub(crate) fn latency_ms(&self) -> Option<f64> {
        Some(self.bound_us?.saturating_sub(self.created_us()?) as f64 / 1000.0)
    }
}

impl Facts {
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read the facts in {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} has an unexpected format", path.display()))
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
