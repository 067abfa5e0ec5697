//! A cluster with many kinds of nodes and pods.

use k8s_openapi::api::core::v1 as api;

use super::{Random, ZONE, ZONES, amounts, make_node, make_pod, name, texts};

const CLASSES: usize = 40;

/// CPU, memory and pods of the node sizes.
const SIZES: [(&str, &str, &str); 5] =
    [("4", "16Gi", "58"), ("8", "32Gi", "110"), ("16", "64Gi", "110"), ("32", "128Gi", "250"), ("64", "256Gi", "250")];

const GPU: &str = "example.com/gpu";

/// A class of pods, and its relative frequency.
pub(super) struct Class {
    template: api::Pod,
    weight: usize,
}

/// All classes: four of each of ten kinds, with random sizes.
pub(super) fn classes(random: &mut Random) -> Vec<Class> {
    (0..CLASSES).map(|index| class(index, random)).collect()
}

fn class(index: usize, random: &mut Random) -> Class {
    let cpu = random.pick(&["50m", "100m", "250m", "500m", "1"]);
    let memory = random.pick(&["64Mi", "128Mi", "512Mi", "1Gi", "2Gi"]);
    let usual = [("cpu", cpu), ("memory", memory)];
    let (kind, variant) = (index % 10, index / 10);
    let mut pod = match kind {
        4 => make_pod("", &[usual[0], usual[1], (GPU, "1")]),
        7 => make_pod("", &[("cpu", "6"), ("memory", "24Gi")]),
        8 => make_pod("", &[]),
        9 if variant == 0 => make_pod("", &[("cpu", "500")]),
        9 if variant == 1 => make_pod("", &[usual[0], (GPU, "1000")]),
        _ => make_pod("", &usual),
    };
    pod.metadata.labels = Some(texts(&[("app", &format!("app-{index:02}"))]));
    let mut spec = pod.spec.take().unwrap_or_default();
    let zone = random.pick(&ZONES);
    let weight = match kind {
        1 => {
            spec.node_selector = Some(texts(&[("disk", random.pick(&["ssd", "hdd"]))]));
            5
        }
        2 => {
            spec.affinity = Some(prefer(&[(80, term(ZONE, "In", &[zone])), (20, term("disk", "In", &["ssd"]))]));
            8
        }
        3 => {
            spec.tolerations = Some(vec![tolerate("dedicated", "batch")]);
            spec.priority = Some(-10);
            6
        }
        4 => 2,
        5 => {
            let away = term(ZONE, "NotIn", &[zone]);
            spec.affinity = Some(require(vec![away, term("disk", "In", &["ssd"])]));
            6
        }
        6 => {
            let port = 8_000 + i32::try_from(variant).unwrap_or(0);
            let port =
                api::ContainerPort { container_port: port, host_port: Some(port), ..api::ContainerPort::default() };
            spec.containers.iter_mut().for_each(|container| container.ports = Some(vec![port.clone()]));
            1
        }
        7 => {
            spec.priority = Some(1_000);
            2
        }
        9 => {
            match variant {
                2 => spec.node_selector = Some(texts(&[("disk", "tape")])),
                3 => spec.affinity = Some(require(vec![term(ZONE, "In", &["zone-z"])])),
                _ => {}
            }
            1
        }
        _ => 12,
    };
    pod.spec = Some(spec);
    Class { template: pod, weight }
}

/// A node of random size: a tenth is tainted, a fiftieth cordoned, an eighth has GPUs.
pub(super) fn node(index: usize, count: usize, random: &mut Random) -> api::Node {
    let (cpu, memory, pods) = random.pick(&SIZES);
    let labels = [
        (ZONE, ZONES[index % ZONES.len()]),
        ("disk", random.pick(&["ssd", "ssd", "hdd"])),
        ("kubernetes.io/arch", random.pick(&["amd64", "amd64", "amd64", "arm64"])),
    ];
    let mut node = make_node(&name("node", index, count), &labels, &[("cpu", cpu), ("memory", memory), ("pods", pods)]);
    if random.below(8) == 0
        && let Some(allocatable) = node.status.as_mut().and_then(|status| status.allocatable.as_mut())
    {
        allocatable.extend(amounts(&[(GPU, random.pick(&["2", "4", "8"]))]));
    }
    let taint = api::Taint {
        key: "dedicated".to_owned(),
        value: Some("batch".to_owned()),
        effect: "NoSchedule".to_owned(),
        ..api::Taint::default()
    };
    let taints = (index % 10 == 3).then(|| vec![taint]);
    let unschedulable = (index % 50 == 7).then_some(true);
    node.spec = Some(api::NodeSpec { taints, unschedulable, ..api::NodeSpec::default() });
    node
}

/// A pod of a random class.
pub(super) fn pod(index: usize, count: usize, classes: &[Class], random: &mut Random) -> api::Pod {
    let mut left = random.below(classes.iter().map(|class| class.weight).sum());
    let chosen = classes.iter().find(|class| {
        let is_it = left < class.weight;
        left = left.saturating_sub(class.weight);
        is_it
    });
    let mut pod = chosen.map(|class| class.template.clone()).unwrap_or_default();
    pod.metadata.name = Some(name("pod", index, count));
    pod
}

fn term(key: &str, operator: &str, values: &[&str]) -> api::NodeSelectorRequirement {
    let values = values.iter().map(|&value| value.to_owned()).collect();
    api::NodeSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values: Some(values) }
}

fn node_affinity(affinity: api::NodeAffinity) -> api::Affinity {
    api::Affinity { node_affinity: Some(affinity), ..api::Affinity::default() }
}

fn require(all_of: Vec<api::NodeSelectorRequirement>) -> api::Affinity {
    let term = api::NodeSelectorTerm { match_expressions: Some(all_of), match_fields: None };
    node_affinity(api::NodeAffinity {
        required_during_scheduling_ignored_during_execution: Some(api::NodeSelector {
            node_selector_terms: vec![term],
        }),
        ..api::NodeAffinity::default()
    })
}

fn prefer(terms: &[(i32, api::NodeSelectorRequirement)]) -> api::Affinity {
    let preferred = terms.iter().map(|(weight, requirement)| api::PreferredSchedulingTerm {
        weight: *weight,
        preference: api::NodeSelectorTerm { match_expressions: Some(vec![requirement.clone()]), match_fields: None },
    });
    node_affinity(api::NodeAffinity {
        preferred_during_scheduling_ignored_during_execution: Some(preferred.collect()),
        ..api::NodeAffinity::default()
    })
}

fn tolerate(key: &str, value: &str) -> api::Toleration {
    api::Toleration {
        key: Some(key.to_owned()),
        operator: Some("Equal".to_owned()),
        value: Some(value.to_owned()),
        effect: Some("NoSchedule".to_owned()),
        ..api::Toleration::default()
    }
}
