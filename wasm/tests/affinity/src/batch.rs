//! In batches, with the SDK.

use std::collections::BTreeMap;

use flotilla_plugin::{Description, Nodes, Normalize, Plugin, Pod, Reason};
use serde::Deserialize;

use crate::{
    REASON,
    terms::{Labels, Requirement, Term, Wanted},
};

struct Affinity;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Written {
    node_affinity: NodeAffinity,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<Required>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    preferred: Vec<Preferred>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Required {
    node_selector_terms: Vec<WrittenTerm>,
}

#[derive(Deserialize)]
struct Preferred {
    weight: i64,
    preference: WrittenTerm,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct WrittenTerm {
    match_expressions: Vec<WrittenRequirement>,
    match_fields: Vec<WrittenRequirement>,
}

#[derive(Deserialize)]
struct WrittenRequirement {
    key: String,
    operator: String,
    values: Vec<String>,
}

fn term(written: WrittenTerm) -> Term {
    let list = |list: Vec<WrittenRequirement>| {
        let read = |WrittenRequirement { key, operator, values }| Requirement { key, operator, values };
        list.into_iter().map(read).collect()
    };
    Term { expressions: list(written.match_expressions), fields: list(written.match_fields) }
}

fn wanted(pod: &Pod) -> Result<Wanted, String> {
    let affinity = match &pod.spec.affinity {
        serde_json::Value::Null => Written::default(),
        affinity => Written::deserialize(affinity).map_err(|error| error.to_string())?,
    };
    let NodeAffinity { required, preferred } = affinity.node_affinity;
    Ok(Wanted {
        selector: pod.spec.node_selector.clone().into_iter().collect(),
        required: required.map(|required| required.node_selector_terms.into_iter().map(term).collect()),
        preferred: preferred.into_iter().map(|of| (of.weight, term(of.preference))).collect(),
    })
}

fn each(nodes: &Nodes<'_>, mut told: impl FnMut(usize, &str, &Labels)) {
    let (names, labels) = (nodes.texts(0), nodes.texts(1));
    for node in 0..nodes.len() {
        let labels: BTreeMap<String, String> =
            serde_json::from_str(labels.get(node).unwrap_or("{}")).unwrap_or_default();
        told(node, names.get(node).unwrap_or_default(), &labels.into_iter().collect());
    }
}

impl Plugin for Affinity {
    fn describe() -> Description {
        Description {
            pod_fields: vec!["spec.nodeSelector".into(), "spec.affinity.nodeAffinity".into()],
            node_fields: vec!["metadata.name".into(), "metadata.labels".into()],
            reasons: vec![Reason::unresolvable(REASON)],
            normalize: Normalize::Default,
            ..Description::default()
        }
    }

    fn filter(pod: &Pod, _: &str, nodes: &Nodes<'_>, out: &mut [u8]) -> Result<(), String> {
        let wanted = wanted(pod)?;
        each(nodes, |node, name, labels| out[node] = u8::from(!wanted.suits(name, labels)));
        Ok(())
    }

    fn score(pod: &Pod, _: &str, nodes: &Nodes<'_>, out: &mut [i64]) -> Result<(), String> {
        let wanted = wanted(pod)?;
        each(nodes, |node, name, labels| out[node] = wanted.score(name, labels));
        Ok(())
    }
}

flotilla_plugin::export!(Affinity);
