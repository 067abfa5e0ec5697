//! Explanations agree with the decision and the diagnosis, however the nodes are sharded.

use std::collections::BTreeSet;

use flotilla_framework::{
    class::Class,
    declared::DeclaredFeatures,
    diagnosis::{self, NO_NODES},
    explain::{
        Explanation, NodeExplanation, PluginScore,
        lack::{Lack, NodeContext, Shortfall, shortfalls},
    },
    extension::Facts,
    node::{NodeId, NodeInfo},
    prepared::{NodeResult, Prepared},
    registry::Registry,
    select::View,
    snapshot::Snapshot,
    status::Code,
    testing::{NodeBuilder, PodBuilder, node, pod, profile},
};
use proptest::{collection::vec, prelude::*};

#[path = "support/cluster.rs"]
mod cluster;

use cluster::{any_world, pages, placed};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn an_account_does_not_hang_on_how_nodes_are_split(
        world in any_world(24),
        owners in vec(0..7_usize, 24),
        shards in 1..=7_usize,
        limit in 1..=9_usize,
    ) {
        let mut nodes = world.whole();
        let prepared = world.prepare(Registry::built_in(), &mut nodes);
        let whole = Explanation::new(&prepared, &world.profile, &pages(&prepared, &nodes, usize::MAX));
        prop_assert_eq!(whole.nodes.len(), world.nodes.len());
        let split = Explanation::new(&prepared, &world.profile, &world.pages(Registry::built_in(), &owners, shards, limit));
        prop_assert_eq!(split, whole);
    }

    #[test]
    fn an_account_agrees_with_the_decision(world in any_world(24), owners in vec(0..3_usize, 24)) {
        let mut nodes = world.whole();
        let prepared = world.prepare(Registry::built_in(), &mut nodes);
        let explanation = Explanation::new(&prepared, &world.profile, &pages(&prepared, &nodes, usize::MAX));
        let mut view = View::new(&prepared, world.answers(Registry::built_in(), &owners, 3, 1));
        if prepared.refusal().is_some() {
            let diagnosis = diagnosis::of_class(&prepared, world.nodes.len());
            prop_assert_eq!(Some(explanation.message), diagnosis.map(|diagnosis| diagnosis.message));
            return Ok(());
        }
        match placed(view.best(&prepared, None)) {
            Ok(Some((node, total))) => {
                prop_assert!(explanation.best().contains(&node));
                prop_assert_eq!(explanation.nodes[&node].total(), Some(total));
                prop_assert_eq!(explanation.message, "");
            }
            Ok(None) => {
                prop_assert_eq!(explanation.best(), []);
                let diagnosis = diagnosis::of_nodes(&prepared, view.refused(), world.nodes.len());
                prop_assert_eq!(explanation.message, diagnosis.message);
            }
            Err(dry) => prop_assert!(false, "{}", dry),
        }
    }

    #[test]
    fn every_node_is_told_of_as_it_is_judged(world in any_world(24)) {
        let mut nodes = world.whole();
        let prepared = world.prepare(Registry::built_in(), &mut nodes);
        // A single node cannot decide filters over domains.
        prop_assume!(prepared.refusal().is_none() && !prepared.is_wide());
        let explanation = Explanation::new(&prepared, &world.profile, &pages(&prepared, &nodes, 5));
        for (id, outcome) in &explanation.nodes {
            let slot = nodes.slot(*id).expect("a known node");
            match (prepared.judge(&nodes, slot), outcome) {
                (NodeResult::Refused(order, refusal), NodeExplanation::Refused { code, plugin, reasons, domain: None }) => {
                    prop_assert_eq!((*code, *plugin), (refusal.code, prepared.plugin(order)));
                    prop_assert_eq!(reasons.to_vec(), prepared.reasons(order, refusal.detail));
                }
                (NodeResult::Feasible(feasible), NodeExplanation::Feasible { scores, total }) => {
                    prop_assert_eq!(Some(scores.iter().map(|score| score.weighted).sum::<i64>()), *total);
                    let normalized: BTreeSet<&str> = ["TaintToleration", "NodeAffinity"].into();
                    let (normalized, plain): (Vec<PluginScore>, Vec<PluginScore>) =
                        scores.iter().copied().partition(|score| normalized.contains(score.plugin));
                    prop_assert_eq!(plain.iter().map(|score| score.weighted).sum::<i64>(), feasible.base);
                    let raws: Vec<i64> = normalized.iter().map(|score| score.raw).collect();
                    prop_assert_eq!(raws.as_slice(), feasible.raws.as_slice());
                }
                (judged, told) => prop_assert!(false, "judged {:?}, told {:?}", judged, told),
            }
        }
    }

    #[test]
    fn a_node_that_gets_all_it_lacks_will_do(world in any_world(16)) {
        let mut nodes = world.whole();
        let prepared = world.prepare(Registry::built_in(), &mut nodes);
        prop_assume!(prepared.refusal().is_none());
        for (place, info) in world.nodes.iter().enumerate() {
            let id = NodeId(u32::try_from(place).expect("a small cluster"));
            let slot = nodes.slot(id).expect("a known node");
            let place = NodeContext { node: info, nodes: &nodes, slot, facts: &world.facts() };
            let found = shortfalls(Registry::built_in(), &prepared, &world.profile, &world.class, place);
            let feasible = matches!(prepared.judge(&nodes, slot), NodeResult::Feasible(_));
            prop_assert_eq!(found.is_empty(), feasible);
            let Some(cured) = cure(info, &found) else { continue };
            let mut after = world.whole();
            after.upsert_node(id, &cured);
            let prepared = world.prepare(Registry::built_in(), &mut after);
            let slot = after.slot(id).expect("a known node");
            let judged = prepared.judge(&after, slot);
            prop_assert!(matches!(judged, NodeResult::Feasible(_)), "{:?} after {:?}", judged, found);
        }
    }
}

/// The node with all unmet requirements fixed; `None` if they are not properties of the node.
fn cure(info: &NodeInfo, shortfalls: &[Shortfall]) -> Option<NodeInfo> {
    let mut cured = info.clone();
    for Shortfall { lacks, .. } in shortfalls {
        if lacks.is_empty() {
            return None;
        }
        for lack in lacks {
            match lack {
                Lack::Resource { name, short, .. } => match &**name {
                    "pods" => cured.allowed_pods += short,
                    "cpu" => cured.allocatable.milli_cpu += short,
                    "memory" => cured.allocatable.memory += short,
                    "ephemeral-storage" => cured.allocatable.ephemeral_storage += short,
                    _ => match cured.allocatable.scalars.iter_mut().find(|(known, _)| known == name) {
                        Some((_, amount)) => *amount += short,
                        None => cured.allocatable.scalars.push((name.clone(), *short)),
                    },
                },
                Lack::Toleration(taint) => cured.taints.retain(|known| known != taint),
                Lack::Cordoned => cured.unschedulable = false,
                Lack::Feature(name) => {
                    cured.declared_features = cured.declared_features.with(DeclaredFeatures::named([*name]));
                }
                Lack::Label { requirement, .. } if &*requirement.operator == "In" => {
                    cured.labels.retain(|(key, _)| *key != requirement.key);
                    cured.labels.push((requirement.key.clone(), requirement.values[0].clone()));
                    cured.labels.sort();
                }
                Lack::Label { .. } | Lack::Name(_) | Lack::Port(_) => return None,
                // CSI drivers and devices are not properties of the Node.
                Lack::Volumes { .. } | Lack::Driver(_) | Lack::Devices(_) => return None,
                // Only filters over domains return these.
                Lack::Key(_) | Lack::Skew { .. } | Lack::Near(_) | Lack::Away(_) | Lack::Welcome(_) => return None,
            }
        }
    }
    Some(cured)
}

fn explain(nodes: &[NodeBuilder], pod: &PodBuilder) -> Explanation {
    let class = pod.clone().build().class;
    let mut snapshot = Snapshot::new(0);
    for (number, node) in (0..).zip(nodes) {
        snapshot.upsert_node(NodeId(number), &node.clone().build());
    }
    let prepared = Prepared::new(Registry::built_in(), &profile(), &class, &Facts::default(), &snapshot);
    Explanation::new(&prepared, &profile(), &pages(&prepared, &snapshot, 2))
}

#[test]
fn a_feasible_node_is_told_with_every_plugin_that_did_not_skip() {
    let pod = pod("p").request("cpu", "1").prefer(3, "disk", "In", &["ssd"]);
    let fast = node("fast").capacity("cpu", "4").capacity("memory", "8Gi").label("disk", "ssd");
    let explanation = explain(&[fast, node("slow").capacity("cpu", "4").capacity("memory", "8Gi")], &pod);
    let NodeExplanation::Feasible { scores, total } = &explanation.nodes[&NodeId(0)] else { panic!("{explanation:?}") };
    let score = |plugin, raw, weighted| PluginScore { plugin, raw, weighted };
    let expected = [
        score("TaintToleration", 0, 300),
        score("NodeAffinity", 3, 200),
        score("NodeResourcesFit", 86, 86),
        score("VolumeBinding", 0, 0),
        score("NodeResourcesBalancedAllocation", 68, 68),
        score("ImageLocality", 0, 0),
    ];
    assert_eq!((scores.as_slice(), *total), (expected.as_slice(), Some(654)));
    assert_eq!((explanation.best(), explanation.feasible()), (vec![NodeId(0)], 2));
}

#[test]
fn a_class_that_a_pre_filter_refuses_is_refused_by_every_node() {
    let conflict = pod("p").require_node("n0").require_node("n1");
    let two = [node("n0"), node("n1"), node("n2")];
    let explanation = explain(&two, &conflict);
    // Terms are alternatives, so both names remain and the third node is excluded.
    assert_eq!(explanation.feasible(), 2);
    let named = pod("p").require_node("absent");
    let explanation = explain(&two, &named);
    let refused = |code, plugin, reason: &str| {
        let reasons = [reason.to_owned()].into();
        NodeExplanation::Refused { code, plugin, reasons, domain: None }
    };
    let outcome = refused(Code::UnschedulableAndUnresolvable, None, "node(s) didn't satisfy plugin(s) [NodeAffinity]");
    assert_eq!(explanation.nodes.values().collect::<Vec<_>>(), [&outcome; 3]);
    assert_eq!(explanation.message, "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity].");
}

#[test]
fn a_single_node_is_taken_even_where_scores_cannot_be_made() {
    let pod = pod("p").prefer(3, "disk", "Gt", &["fast"]);
    let one = explain(&[node("n0")], &pod);
    assert_eq!((one.error.as_deref(), one.best()), (None, vec![NodeId(0)]));
    let two = explain(&[node("n0"), node("n1")], &pod);
    let error = two.error.clone().expect("an error");
    assert!(error.starts_with("running PreScore plugin \"NodeAffinity\": "), "{error}");
    assert_eq!((two.best(), two.feasible(), two.message.as_str()), (vec![], 2, ""));
    assert_eq!(two.nodes[&NodeId(1)], NodeExplanation::Feasible { scores: Vec::new(), total: None });
}

#[test]
fn a_cluster_without_nodes_has_nothing_to_tell_of() {
    let explanation = explain(&[], &pod("p"));
    assert_eq!((explanation.nodes.len(), explanation.message.as_str()), (0, NO_NODES));
}

#[test]
fn a_profile_that_scores_nothing_gives_every_node_the_same() {
    let mut profile = profile();
    profile.plugins.score.clear();
    let mut nodes = Snapshot::new(0);
    nodes.upsert_node(NodeId(0), &node("n").build());
    let class: Class = Class::default();
    let prepared = Prepared::new(Registry::built_in(), &profile, &class, &Facts::default(), &nodes);
    let explanation = Explanation::new(&prepared, &profile, &pages(&prepared, &nodes, 1));
    assert_eq!(explanation.nodes[&NodeId(0)], NodeExplanation::Feasible { scores: Vec::new(), total: Some(1) });
}

#[test]
fn lacks_are_told_in_amounts_labels_taints_and_ports() {
    let class = pod("p")
        .request("cpu", "2")
        .request("memory", "1Gi")
        .request("example.com/gpu", "2")
        .node_selector("disk", "ssd")
        .host_port(80)
        .build()
        .class;
    let info = node("n").capacity("cpu", "1500m").capacity("memory", "8Gi").capacity("example.com/gpu", "1");
    let info = info.capacity("pods", "0").label("disk", "hdd").taint("dedicated", "db", "NoSchedule").cordon().build();
    let mut nodes = Snapshot::new(0);
    let slot = nodes.upsert_node(NodeId(0), &info);
    let prepared = Prepared::new(Registry::built_in(), &profile(), &class, &Facts::default(), &nodes);
    let place = NodeContext { node: &info, nodes: &nodes, slot, facts: &Facts::default() };
    let found = shortfalls(Registry::built_in(), &prepared, &profile(), &class, place);
    let plugins: Vec<&str> = found.iter().map(|shortfall| shortfall.plugin).collect();
    assert_eq!(plugins, ["NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodeResourcesFit"]);
    assert_eq!(found[0].lacks, [Lack::Cordoned]);
    assert!(matches!(&found[1].lacks[..], [Lack::Toleration(taint)] if &*taint.key == "dedicated"));
    let [Lack::Label { requirement, found: Some(value) }] = &found[2].lacks[..] else { panic!("{found:?}") };
    assert_eq!((&*requirement.key, &*requirement.values[0], &**value), ("disk", "ssd", "hdd"));
    let lack =
        |name: &str, short, request, allocatable| Lack::Resource { name: name.into(), short, request, allocatable };
    let expected = [lack("pods", 1, 1, 0), lack("cpu", 500, 2000, 1500), lack("example.com/gpu", 1, 2, 1)];
    assert_eq!(found[3].lacks, expected);
}
