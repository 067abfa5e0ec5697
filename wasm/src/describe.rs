//! The description of a batch module.

use flotilla_framework::extension::MAX_NODE_SCORE;
use serde::Deserialize;

use crate::{
    args::{NodeField, PodFields},
    error::LoadError,
};

/// ABI version for batches.
pub(crate) const ABI: i32 = 1;

/// Maximum number of reasons: the answer for a node is a byte, and 0 is none.
const MOST_REASONS: usize = 255;

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Written {
    pod_fields: Vec<String>,
    node_fields: Vec<String>,
    reasons: Vec<Reason>,
    events: Vec<String>,
    normalize: Normalization,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reason {
    /// The message in kube-scheduler's form: `node(s) ...`.
    pub(crate) text: String,
    /// Whether preemption cannot help.
    #[serde(default)]
    pub(crate) unresolvable: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Normalization {
    #[default]
    None,
    /// The maximum becomes 100, as in `DefaultNormalizeScore`.
    Default,
    /// The maximum becomes 0, as in the reverse `DefaultNormalizeScore`.
    Reverse,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Description {
    pub(crate) pod_fields: PodFields,
    pub(crate) node_fields: Vec<NodeField>,
    pub(crate) reasons: Vec<Reason>,
    /// Labels of events; none for any.
    pub(crate) events: Vec<String>,
    pub(crate) normalization: Normalization,
}

impl Description {
    pub(crate) fn read(json: &[u8]) -> Result<Self, LoadError> {
        let wrong = |text: String| LoadError::Describe(text);
        let written: Written = serde_json::from_slice(json).map_err(|error| wrong(error.to_string()))?;
        let Written { pod_fields, node_fields, reasons, events, normalize } = written;
        if reasons.len() > MOST_REASONS {
            return Err(wrong(format!("found {} reasons, expected at most {MOST_REASONS}", reasons.len())));
        }
        let pod_fields = PodFields::read(&pod_fields);
        let pod_fields = pod_fields.map_err(|(place, text)| wrong(format!("podFields[{place}]: {text}")))?;
        let node_fields = NodeField::read(&node_fields);
        let node_fields = node_fields.map_err(|(place, text)| wrong(format!("nodeFields[{place}]: {text}")))?;
        Ok(Self { pod_fields, node_fields, reasons, events, normalization: normalize })
    }
}

impl Normalization {
    /// The score of a raw score, with the maximum of all raw scores.
    ///
    /// Source: `DefaultNormalizeScore` in `pkg/scheduler/framework/plugins/helper/normalize_score.go`.
    pub(crate) const fn scaled(self, raw: i64, max: i64) -> i64 {
        let share = if max > 0 { raw.saturating_mul(MAX_NODE_SCORE) / max } else { 0 };
        match self {
            Self::None => raw,
            Self::Default => share,
            Self::Reverse => MAX_NODE_SCORE - share,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_read_strictly() {
        let json = br#"{"podFields":["metadata.labels['app']"],"nodeFields":["metadata.labels['zone']","status.allocatable['cpu']"],
            "reasons":[{"text":"node(s) were small","unresolvable":true}],"normalize":"reverse"}"#;
        let read = Description::read(json).expect("sound");
        assert_eq!(read.node_fields, [NodeField::Label("zone".to_owned()), NodeField::Resource("cpu".to_owned())]);
        assert!(read.reasons[0].unresolvable && read.normalization == Normalization::Reverse);
        for (json, error) in [
            ("{", "wasm: flotilla_describe: EOF while parsing an object at line 1 column 1"),
            (
                r#"{"podFields":["spec.volumes"]}"#,
                "wasm: flotilla_describe: podFields[0]: found \"spec.volumes\", expected metadata.name, metadata.namespace, \
                 metadata.labels, metadata.labels['KEY'], spec.nodeSelector, spec.affinity.nodeAffinity, spec.tolerations or \
                 spec.containers",
            ),
        ] {
            assert_eq!(Description::read(json.as_bytes()).expect_err("wrong").to_string(), error);
        }
    }

    #[test]
    fn scores_are_scaled_as_by_kube_scheduler() {
        let all = |how: Normalization| [0, 5, 20].map(|raw| how.scaled(raw, 20));
        assert_eq!(all(Normalization::Default), [0, 25, 100]);
        assert_eq!(all(Normalization::Reverse), [100, 75, 0]);
        assert_eq!(all(Normalization::None), [0, 5, 20]);
        assert_eq!((Normalization::Default.scaled(0, 0), Normalization::Reverse.scaled(0, 0)), (0, 100));
    }
}
