//! Per node, with the ABI of kube-scheduler-wasm-extension, without its SDK.

use std::{cell::RefCell, collections::BTreeMap};

use prost::Message;

use crate::{
    REASON,
    terms::{Labels, Requirement, Term, Wanted},
};

#[link(wasm_import_module = "k8s.io/api")]
unsafe extern "C" {
    safe fn node(name: i32, len: i32, buffer: i32, limit: i32) -> i32;
}

#[link(wasm_import_module = "k8s.io/scheduler")]
unsafe extern "C" {
    #[link_name = "currentPod"]
    safe fn current_pod(buffer: i32, limit: i32) -> i32;
    #[link_name = "currentNodeName"]
    safe fn current_node_name(buffer: i32, limit: i32) -> i32;
    #[link_name = "nodeScoreList"]
    safe fn node_score_list(buffer: i32, limit: i32) -> i32;
    #[link_name = "result.status_reason"]
    safe fn status_reason(text: i32, len: i32);
    #[link_name = "result.normalized_score_list"]
    safe fn normalized_score_list(json: i32, len: i32);
}

#[derive(Message)]
struct Pod {
    #[prost(message, optional, tag = "2")]
    spec: Option<PodSpec>,
}

#[derive(Message)]
struct PodSpec {
    #[prost(btree_map = "string, string", tag = "7")]
    node_selector: BTreeMap<String, String>,
    #[prost(message, optional, tag = "18")]
    affinity: Option<Affinity>,
}

#[derive(Message)]
struct Affinity {
    #[prost(message, optional, tag = "1")]
    node_affinity: Option<NodeAffinity>,
}

#[derive(Message)]
struct NodeAffinity {
    #[prost(message, optional, tag = "1")]
    required: Option<NodeSelector>,
    #[prost(message, repeated, tag = "2")]
    preferred: Vec<PreferredTerm>,
}

#[derive(Message)]
struct NodeSelector {
    #[prost(message, repeated, tag = "1")]
    terms: Vec<NodeTerm>,
}

#[derive(Message)]
struct PreferredTerm {
    #[prost(int32, tag = "1")]
    weight: i32,
    #[prost(message, optional, tag = "2")]
    preference: Option<NodeTerm>,
}

#[derive(Message)]
struct NodeTerm {
    #[prost(message, repeated, tag = "1")]
    expressions: Vec<NodeRequirement>,
    #[prost(message, repeated, tag = "2")]
    fields: Vec<NodeRequirement>,
}

#[derive(Message)]
struct NodeRequirement {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    operator: String,
    #[prost(string, repeated, tag = "3")]
    values: Vec<String>,
}

#[derive(Message)]
struct Node {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Metadata>,
}

#[derive(Message)]
struct Metadata {
    #[prost(string, tag = "1")]
    name: String,
    /// The entries of a map.
    #[prost(message, repeated, tag = "11")]
    labels: Vec<Label>,
}

#[derive(Message)]
struct Label {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

thread_local! {
    /// The state of the cycle.
    static WANTED: RefCell<Wanted> = RefCell::default();
}

/// Reads with a buffer of 2 KiB, and again with the size that the host returns.
fn read(ask: impl Fn(i32, i32) -> i32) -> Vec<u8> {
    let mut buffer = vec![0_u8; 2048];
    loop {
        let limit = buffer.len();
        let len = ask(buffer.as_mut_ptr().addr() as i32, limit as i32) as usize;
        if len <= limit {
            let mut read = std::hint::black_box(buffer);
            read.truncate(len);
            return read;
        }
        buffer = vec![0; len];
    }
}

fn term(written: NodeTerm) -> Term {
    let list = |list: Vec<NodeRequirement>| {
        let read = |NodeRequirement { key, operator, values }| Requirement { key, operator, values };
        list.into_iter().map(read).collect()
    };
    Term { expressions: list(written.expressions), fields: list(written.fields) }
}

fn current() -> (String, Labels) {
    let name = read(|buffer, limit| current_node_name(buffer, limit));
    let at = name.as_ptr().addr() as i32;
    let node = read(|buffer, limit| node(at, name.len() as i32, buffer, limit));
    let metadata = Node::decode(&*node).ok().and_then(|node| node.metadata).unwrap_or_default();
    (metadata.name, metadata.labels.into_iter().map(|Label { key, value }| (key, value)).collect())
}

#[unsafe(no_mangle)]
extern "C" fn prefilter() -> i32 {
    let Ok(pod) = Pod::decode(&*read(|buffer, limit| current_pod(buffer, limit))) else { return 1 };
    let spec = pod.spec.unwrap_or_default();
    let affinity = spec.affinity.and_then(|affinity| affinity.node_affinity).unwrap_or_default();
    let preferred = |of: PreferredTerm| (i64::from(of.weight), term(of.preference.unwrap_or_default()));
    let wanted = Wanted {
        selector: spec.node_selector.into_iter().collect(),
        required: affinity.required.map(|required| required.terms.into_iter().map(term).collect()),
        preferred: affinity.preferred.into_iter().map(preferred).collect(),
    };
    WANTED.set(wanted);
    0
}

#[unsafe(no_mangle)]
extern "C" fn filter() -> i32 {
    let (name, labels) = current();
    if WANTED.with_borrow(|wanted| wanted.suits(&name, &labels)) {
        return 0;
    }
    status_reason(REASON.as_ptr().addr() as i32, REASON.len() as i32);
    3
}

#[unsafe(no_mangle)]
extern "C" fn score() -> i64 {
    let (name, labels) = current();
    WANTED.with_borrow(|wanted| wanted.score(&name, &labels)) << 32
}

#[unsafe(no_mangle)]
extern "C" fn normalizescore() -> i32 {
    let scores = read(|buffer, limit| node_score_list(buffer, limit));
    let Ok(mut scores) = serde_json::from_slice::<BTreeMap<String, i64>>(&scores) else { return 1 };
    let max = scores.values().copied().max().unwrap_or(0);
    scores.values_mut().for_each(|score| *score = if max == 0 { 0 } else { *score * 100 / max });
    let scores = serde_json::to_vec(&scores).unwrap_or_default();
    normalized_score_list(scores.as_ptr().addr() as i32, scores.len() as i32);
    0
}
