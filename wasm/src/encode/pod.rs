//! Encodes a pod.

use std::sync::Arc;

use flotilla_framework::{
    class::{Class, HostPort, NodeTerm, Requirement, Toleration},
    extension::PodField,
    resources::Resources,
};
use serde_json::{Map, Value, json};

use super::wire;
use crate::args::PodFields;

/// The visible fields of a pod: pods with equal ones get the same results.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShownPod {
    pub(crate) name: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) node_selector: Vec<(Arc<str>, Arc<str>)>,
    pub(crate) required_terms: Option<Vec<NodeTerm>>,
    pub(crate) preferred_terms: Vec<(i32, NodeTerm)>,
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) requests: Resources,
    pub(crate) images: Vec<Arc<str>>,
    pub(crate) host_ports: Vec<HostPort>,
}

/// `Pod`.
const METADATA: u32 = 1;
const SPEC: u32 = 2;
/// `ObjectMeta`.
const NAME: u32 = 1;
const NAMESPACE: u32 = 3;
const LABELS: u32 = 11;
/// `PodSpec`.
const CONTAINERS: u32 = 2;
const NODE_SELECTOR: u32 = 7;
const AFFINITY: u32 = 18;
const TOLERATIONS: u32 = 22;
/// `Container`.
const IMAGE: u32 = 2;
const PORTS: u32 = 6;
const RESOURCES: u32 = 8;

impl ShownPod {
    pub(crate) fn new(class: &Class, fields: &PodFields) -> Self {
        let mut shown = Self::default();
        for field in &fields.metadata {
            let value = class.field(field).map(str::to_owned);
            match field {
                PodField::Name => shown.name = value,
                PodField::Namespace => shown.namespace = value,
                PodField::Label(key) => shown.labels.extend(value.map(|value| (key.to_string(), value))),
                PodField::Labels => {
                    let labels = value.and_then(|labels| serde_json::from_str(&labels).ok());
                    let Some(Value::Object(labels)) = labels else { continue };
                    let text = |value: Value| value.as_str().unwrap_or_default().to_owned();
                    shown.labels.extend(labels.into_iter().map(|(key, value)| (key, text(value))));
                }
            }
        }
        shown.labels.sort_unstable();
        shown.labels.dedup();
        if fields.node_selector {
            shown.node_selector.clone_from(&class.node_selector);
        }
        if fields.node_affinity {
            shown.required_terms.clone_from(&class.required_terms);
            shown.preferred_terms.clone_from(&class.preferred_terms);
        }
        if fields.tolerations {
            shown.tolerations.clone_from(&class.tolerations);
        }
        if fields.containers {
            shown.requests.clone_from(&class.requests);
            shown.images.clone_from(&class.images);
            shown.host_ports.clone_from(&class.host_ports);
        }
        shown
    }

    fn has_affinity(&self) -> bool {
        self.required_terms.is_some() || !self.preferred_terms.is_empty()
    }
}

pub(crate) fn pod(shown: &ShownPod) -> Vec<u8> {
    let mut out = Vec::new();
    wire::message(METADATA, &mut out, |out| {
        for (field, value) in [(NAME, &shown.name), (NAMESPACE, &shown.namespace)] {
            if let Some(value) = value {
                wire::text(field, value, out);
            }
        }
        shown.labels.iter().for_each(|(key, value)| wire::entry(LABELS, key, value, out));
    });
    wire::message(SPEC, &mut out, |out| {
        write_containers(shown, out);
        shown.node_selector.iter().for_each(|(key, value)| wire::entry(NODE_SELECTOR, key, value, out));
        if shown.has_affinity() {
            wire::message(AFFINITY, out, |out| wire::message(1, out, |out| write_affinity(shown, out)));
        }
        for toleration in &shown.tolerations {
            wire::message(TOLERATIONS, out, |out| {
                let Toleration { key, operator, value, effect } = toleration;
                for (field, value) in [(1, key), (2, operator), (3, value), (4, effect)] {
                    wire::text(field, value, out);
                }
            });
        }
    });
    out
}

/// One container per image; the first has the pod's requests and host ports.
fn write_containers(shown: &ShownPod, out: &mut Vec<u8>) {
    let has_more = shown.requests != Resources::default() || !shown.host_ports.is_empty();
    let count = shown.images.len().max(usize::from(has_more));
    for place in 0..count {
        wire::message(CONTAINERS, out, |out| {
            if let Some(image) = shown.images.get(place) {
                wire::text(IMAGE, image, out);
            }
            if place > 0 {
                return;
            }
            for HostPort { ip, protocol, port } in &shown.host_ports {
                wire::message(PORTS, out, |out| {
                    wire::number(2, i64::from(*port), out);
                    wire::text(4, protocol, out);
                    wire::text(5, ip, out);
                });
            }
            wire::message(RESOURCES, out, |out| write_requests(&shown.requests, out));
        });
    }
}

fn write_requests(requests: &Resources, out: &mut Vec<u8>) {
    const REQUESTS: u32 = 2;
    let Resources { milli_cpu, memory, ephemeral_storage, scalars } = requests;
    if *milli_cpu != 0 {
        wire::quantity(REQUESTS, "cpu", &wire::cpu(*milli_cpu), out);
    }
    for (name, amount) in [("ephemeral-storage", ephemeral_storage), ("memory", memory)] {
        if *amount != 0 {
            wire::quantity(REQUESTS, name, &amount.to_string(), out);
        }
    }
    scalars.iter().for_each(|(name, amount)| wire::quantity(REQUESTS, name, &amount.to_string(), out));
}

fn write_affinity(shown: &ShownPod, out: &mut Vec<u8>) {
    if let Some(terms) = &shown.required_terms {
        wire::message(1, out, |out| {
            terms.iter().for_each(|term| wire::message(1, out, |out| write_term(term, out)));
        });
    }
    for (weight, term) in &shown.preferred_terms {
        wire::message(2, out, |out| {
            wire::number(1, i64::from(*weight), out);
            wire::message(2, out, |out| write_term(term, out));
        });
    }
}

fn write_term(term: &NodeTerm, out: &mut Vec<u8>) {
    for (field, requirements) in [(1, &term.expressions), (2, &term.fields)] {
        for Requirement { key, operator, values } in requirements {
            wire::message(field, out, |out| {
                wire::text(1, key, out);
                wire::text(2, operator, out);
                values.iter().for_each(|value| wire::text(3, value, out));
            });
        }
    }
}

/// The pod as JSON in the API's form, without invisible fields.
pub(crate) fn pod_json(shown: &ShownPod) -> String {
    let object = |pairs: &mut dyn Iterator<Item = (String, Value)>| Value::Object(pairs.collect());
    let mut metadata = Map::new();
    for (key, value) in [("name", &shown.name), ("namespace", &shown.namespace)] {
        metadata.extend(value.as_ref().map(|value| (key.to_owned(), json!(value))));
    }
    if !shown.labels.is_empty() {
        let mut labels = shown.labels.iter().map(|(key, value)| (key.clone(), json!(value)));
        metadata.insert("labels".to_owned(), object(&mut labels));
    }
    let mut spec = Map::new();
    if !shown.node_selector.is_empty() {
        let mut labels = shown.node_selector.iter().map(|(key, value)| (key.to_string(), json!(value)));
        spec.insert("nodeSelector".to_owned(), object(&mut labels));
    }
    if shown.has_affinity() {
        spec.insert("affinity".to_owned(), json!({ "nodeAffinity": affinity_json(shown) }));
    }
    if !shown.tolerations.is_empty() {
        let toleration = |Toleration { key, operator, value, effect }: &Toleration| json!({ "key": key, "operator": operator, "value": value, "effect": effect });
        spec.insert("tolerations".to_owned(), shown.tolerations.iter().map(toleration).collect());
    }
    let containers = containers_json(shown);
    if !containers.is_empty() {
        spec.insert("containers".to_owned(), Value::Array(containers));
    }
    json!({ "metadata": metadata, "spec": spec }).to_string()
}

fn affinity_json(shown: &ShownPod) -> Value {
    let requirement = |Requirement { key, operator, values }: &Requirement| json!({ "key": key, "operator": operator, "values": values });
    let list = |requirements: &[Requirement]| requirements.iter().map(requirement).collect::<Vec<_>>();
    let term =
        |term: &NodeTerm| json!({ "matchExpressions": list(&term.expressions), "matchFields": list(&term.fields) });
    let mut affinity = Map::new();
    if let Some(terms) = &shown.required_terms {
        let terms: Vec<Value> = terms.iter().map(term).collect();
        let required = json!({ "nodeSelectorTerms": terms });
        affinity.insert("requiredDuringSchedulingIgnoredDuringExecution".to_owned(), required);
    }
    if !shown.preferred_terms.is_empty() {
        let preferred = |(weight, of): &(i32, NodeTerm)| json!({ "weight": weight, "preference": term(of) });
        let preferred = shown.preferred_terms.iter().map(preferred).collect();
        affinity.insert("preferredDuringSchedulingIgnoredDuringExecution".to_owned(), preferred);
    }
    Value::Object(affinity)
}

fn containers_json(shown: &ShownPod) -> Vec<Value> {
    let has_more = shown.requests != Resources::default() || !shown.host_ports.is_empty();
    let count = shown.images.len().max(usize::from(has_more));
    let container = |place: usize| {
        let mut container = Map::new();
        if let Some(image) = shown.images.get(place) {
            container.insert("image".to_owned(), json!(image));
        }
        if place == 0 && has_more {
            let Resources { milli_cpu, memory, ephemeral_storage, scalars } = &shown.requests;
            let fixed = [
                ("cpu", *milli_cpu, wire::cpu(*milli_cpu)),
                ("memory", *memory, memory.to_string()),
                ("ephemeral-storage", *ephemeral_storage, ephemeral_storage.to_string()),
            ];
            let fixed = fixed.into_iter().filter(|(_, amount, _)| *amount != 0);
            let fixed = fixed.map(|(name, _, text)| (name.to_owned(), json!(text)));
            let scalars = scalars.iter().map(|(name, amount)| (name.to_string(), json!(amount.to_string())));
            let requests: Map<String, Value> = fixed.chain(scalars).collect();
            let port = |HostPort { ip, protocol, port }: &HostPort| json!({ "hostPort": port, "protocol": protocol, "hostIP": ip });
            let ports: Vec<Value> = shown.host_ports.iter().map(port).collect();
            container.insert("resources".to_owned(), json!({ "requests": requests }));
            container.insert("ports".to_owned(), json!(ports));
        }
        Value::Object(container)
    };
    (0..count).map(container).collect()
}
