//! Pods of DaemonSets: one for each eligible node.
//!
//! Source: `NodeShouldRunDaemonPod` in `pkg/controller/daemon/daemon_controller.go`, and `pkg/controller/daemon/util`.

use std::collections::{BTreeMap, BTreeSet};

use flotilla_framework::{class::Taint, ingest, node::NodeInfo, plugins::node_affinity};
use k8s_openapi::{
    Resource,
    api::{
        apps::v1::DaemonSet,
        core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Toleration},
    },
};

use crate::{
    made::{Made, Surroundings},
    names,
    owned::OwnedPod,
    replicas::owned,
    rollout::{Rollout, RolloutPod, Strategy},
    template,
};

const GENERATION: &str = "pod-template-generation";
const REVISION: &str = "controller-revision-hash";
const DEPRECATED_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Taints that all DaemonSet pods tolerate, with their effects.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// The additional toleration of pods in the host network.
const TOLERATED_ON_HOST: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

pub(crate) fn make(set: &DaemonSet, around: Surroundings<'_>, taken: &mut BTreeSet<String>) -> Made {
    let spec = &set.spec;
    let pods = owned(DaemonSet::KIND, &set.metadata, around);
    let active = pods.iter().copied().filter(|pod| pod.is_active());
    let covered: BTreeMap<&str, &OwnedPod> = active.filter_map(|pod| Some((pod.node.as_deref()?, pod))).collect();
    let model = model(set);
    // A pod with an error runs nowhere; the error is reported when the pod is gathered.
    let mut read = model.clone();
    read.metadata.uid = Some(String::new());
    let class = ingest::pod(&read, ingest::Features::default()).map(|info| info.class);
    let only = model.spec.as_ref().and_then(|spec| spec.node_name.clone()).filter(|name| !name.is_empty());
    let suits = |node: &NodeInfo| {
        let is_meant = only.as_deref().is_none_or(|only| *only == *node.name);
        let tolerates = |taint: &Taint| {
            let tolerations = class.iter().flat_map(|class| &class.tolerations);
            taint.effect.as_ref() == "PreferNoSchedule"
                || tolerations.into_iter().any(|toleration| toleration.tolerates(taint))
        };
        is_meant
            && class.as_ref().map_or(true, |class| node_affinity::is_met(class, node))
            && node.taints.iter().all(tolerates)
    };
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    let base = format!("{}-", set.metadata.name.as_deref().unwrap_or_default());
    let mut draw = |node: &NodeInfo, number| {
        let mut pod: Pod = model.clone();
        pod.metadata.name = Some(names::drawn(namespace, &base, number, taken));
        pod.spec.iter_mut().for_each(|spec| tie(spec, &node.name));
        pod
    };
    let (mut made, mut new, mut current) = (Made::default(), Vec::new(), Vec::new());
    let suited: Vec<&NodeInfo> = around.nodes.iter().map(|node| &**node).filter(|node| suits(node)).collect();
    for node in &suited {
        match covered.get(&*node.name) {
            None => {
                let pod = draw(node, made.pods.len() + new.len());
                current.push(RolloutPod::made(&pod));
                made.pods.push(pod);
            }
            Some(present) => {
                let successor = present.is_outdated().then_some(new.len());
                new.extend(present.is_outdated().then(|| draw(node, made.pods.len() + new.len())));
                current.push(RolloutPod { successor, ..RolloutPod::of(present) });
            }
        }
    }
    if !new.is_empty() {
        let strategy = Strategy::of_daemon_set(spec, current.len());
        made.rollout = Some(Rollout { strategy, pods: current, new });
    }
    // The new template may exclude nodes.
    let suited: BTreeSet<&str> = suited.iter().map(|node| &*node.name).collect();
    let is_replaced = |pod: &&OwnedPod| suited.contains(pod.node.as_deref().unwrap_or_default());
    let outdated = pods.iter().copied().filter(|pod| pod.is_active() && pod.is_outdated());
    made.surplus = outdated.filter(|pod| !is_replaced(pod)).map(OwnedPod::key).collect();
    made
}

/// The common fields of all pods.
fn model(set: &DaemonSet) -> Pod {
    let spec = &set.spec;
    let mut model = template::pod::<DaemonSet>(&spec.template, &set.metadata, String::new());
    let annotations = set.metadata.annotations.as_ref();
    let generation = annotations.and_then(|annotations| annotations.get(DEPRECATED_GENERATION));
    template::label(&mut model.metadata, GENERATION, generation.map_or("1", String::as_str));
    template::label(&mut model.metadata, REVISION, names::hash(&spec.template));
    tolerate(model.spec.get_or_insert_default());
    model
}

fn tolerate(spec: &mut PodSpec) {
    let on_host = spec.host_network.unwrap_or(false).then_some(TOLERATED_ON_HOST);
    let tolerations = spec.tolerations.get_or_insert_default();
    for (key, effect) in TOLERATED.into_iter().chain(on_host) {
        let added = Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        let is_same = |known: &Toleration| {
            let text = |field: &Option<String>| field.clone().unwrap_or_default();
            (text(&known.key), text(&known.effect), text(&known.operator), text(&known.value))
                == (key.to_owned(), effect.to_owned(), "Exists".to_owned(), String::new())
        };
        match tolerations.iter_mut().find(|known| is_same(known)) {
            Some(known) => *known = added,
            None => tolerations.push(added),
        }
    }
}

/// Restricts the pod to the node. The pod's other node requirements have been checked.
fn tie(spec: &mut PodSpec, node: &str) {
    let requirement = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let term = NodeSelectorTerm { match_fields: Some(vec![requirement]), match_expressions: None };
    let affinity = spec.affinity.get_or_insert_default().node_affinity.get_or_insert_default();
    affinity.required_during_scheduling_ignored_during_execution =
        Some(NodeSelector { node_selector_terms: vec![term] });
}
