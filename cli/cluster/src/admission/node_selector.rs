//! Node selectors that a namespace annotates.
//!
//! Source: `plugin/pkg/admission/podnodeselector/admission.go`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as api;
use serde::{Deserialize, Serialize};

/// The annotation of a namespace.
pub(crate) const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";

/// The labels that all nodes of the namespace's pods must have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Selector {
    pub(crate) text: String,
    /// `None`: the text is invalid.
    labels: Option<BTreeMap<String, String>>,
}

impl Selector {
    /// Source: `ConvertSelectorToLabelsMap`.
    pub(super) fn parse(text: &str) -> Self {
        let pair = |part: &str| {
            let (key, value) = part.split_once('=')?;
            (!value.contains('=')).then(|| (key.trim().to_owned(), value.trim().to_owned()))
        };
        let labels = if text.is_empty() { Some(BTreeMap::new()) } else { text.split(',').map(pair).collect() };
        Self { text: text.to_owned(), labels }
    }

    /// Adds the labels to the pod's node selector.
    pub(super) fn merge(&self, spec: &mut api::PodSpec) -> Result<(), String> {
        let Some(labels) = &self.labels else { return Err(format!("invalid selector: {:?}", self.text)) };
        if labels.is_empty() {
            return Ok(());
        }
        let own = spec.node_selector.get_or_insert_default();
        if labels.iter().any(|(key, value)| own.get(key).is_some_and(|known| known != value)) {
            return Err("pod node label selector conflicts with its namespace node label selector".to_owned());
        }
        own.extend(labels.clone());
        Ok(())
    }
}
