//! Placements of a group, and their scores.

use super::*;
use crate::testing::{
    PodBuilder,
    checks::{NodeWithPods, snapshot},
    node, pod, profile,
};

fn rack(name: &str, rack: &str, pods: Vec<PodBuilder>) -> NodeWithPods {
    (node(name).label("rack", rack), pods)
}

fn plugins() -> Plugins {
    let weigh = |(name, weight): (&str, i64)| WeightedPlugin { name: name.to_owned(), weight };
    Plugins {
        placement_generate: vec![GENERATOR.to_owned()],
        placement_score: [(FIT, 1), (PODS_COUNT, 1)].map(weigh).to_vec(),
        ..Plugins::default()
    }
}

fn domain(value: &str) -> Option<Arc<TopologyDomain>> {
    Some(Arc::new(TopologyDomain { key: "rack".into(), value: value.into(), outer: None }))
}

#[test]
fn each_value_of_the_key_is_a_placement() {
    let nodes =
        snapshot(&[rack("n0", "b", vec![]), rack("n1", "a", vec![]), rack("n2", "b", vec![]), (node("n3"), vec![])]);
    let by = |key: &str| Topology::Key(key.into());
    let all = placements(&by("rack"), &plugins(), &nodes, &[], None);
    assert_eq!(all, Ok(vec![domain("a"), domain("b")]));
    assert_eq!(placements(&Topology::Unconstrained, &plugins(), &nodes, &[], None), Ok(vec![None]));
    assert_eq!(placements(&by("rack"), &Plugins::default(), &nodes, &[], None), Ok(vec![None]));
    let none = NoPlacements::Unschedulable("no feasible placements found".to_owned());
    assert_eq!(placements(&by("block"), &plugins(), &nodes, &[], None), Err(none));
}

#[test]
fn the_placements_of_a_group_are_within_that_of_the_composite_group_above() {
    let labelled = |name: &str, block: &str, value: &str| {
        let (node, pods) = rack(name, value, vec![]);
        (node.label("block", block), pods)
    };
    let nodes = snapshot(&[labelled("n0", "x", "a"), labelled("n1", "x", "b"), labelled("n2", "y", "c")]);
    let outer = Arc::new(TopologyDomain { key: "block".into(), value: "x".into(), outer: None });
    let within = |value: &str| {
        Some(Arc::new(TopologyDomain { key: "rack".into(), value: value.into(), outer: Some(Arc::clone(&outer)) }))
    };
    let racks = placements(&Topology::Key("rack".into()), &plugins(), &nodes, &[], Some(&outer));
    assert_eq!(racks, Ok(vec![within("a"), within("b")]));
    let unconstrained = placements(&Topology::Unconstrained, &plugins(), &nodes, &[], Some(&outer));
    assert_eq!(unconstrained, Ok(vec![Some(outer)]));
}

#[test]
fn pods_that_have_a_node_determine_the_domain() {
    let nodes = snapshot(&[rack("n0", "b", vec![]), rack("n1", "a", vec![]), (node("n2"), vec![])]);
    let on = |nodes_of: &[Option<u32>]| {
        let scheduled: Vec<_> =
            nodes_of.iter().enumerate().map(|(at, node)| (format!("ns/p{at}"), node.map(NodeId))).collect();
        placements(&Topology::Key("rack".into()), &plugins(), &nodes, &scheduled, None)
    };
    let failed =
        |error: &str| Err(NoPlacements::Failed(format!("cannot determine domain for already scheduled pods: {error}")));
    assert_eq!(on(&[Some(0), Some(0)]), Ok(vec![domain("b")]));
    assert_eq!(on(&[Some(0), Some(1)]), failed("more than 1 domain found for pod group: b, a"));
    assert_eq!(on(&[Some(2)]), failed("no topology domain found for pod ns/p0"));
    assert_eq!(on(&[None]), failed("getting node for pod ns/p0"));
}

fn assigned<'a>(domain: &'a Option<Arc<TopologyDomain>>, member: &'a Class, pods: usize) -> Assigned<'a> {
    Assigned { domain: domain.as_deref(), pods: vec![member; pods] }
}

#[test]
fn a_placement_with_more_pods_and_less_free_room_scores_higher() {
    let full = |name: &str| pod(name).request("cpu", "2").request("memory", "8Gi");
    let nodes = snapshot(&[
        rack("n0", "a", vec![full("x")]),
        rack("n1", "a", vec![]),
        rack("n2", "b", vec![]),
        rack("n3", "b", vec![]),
    ]);
    let member = pod("m").request("cpu", "2").request("memory", "8Gi").into_class();
    let (a, b) = (domain("a"), domain("b"));
    let assigned = |domain, pods| assigned(domain, &member, pods);
    let args = profile().args;
    let all = |placements: &[Assigned<'_>], scheduled| {
        scores(&plugins().placement_score, &args, &nodes, scheduled, placements)
    };
    // Of the 8 CPUs and 32 GiB of each rack, `a` has half in use with one pod more, and `b` a quarter.
    assert_eq!(all(&[assigned(&a, 1), assigned(&b, 1)], 0), Ok(vec![50 + 100, 25 + 100]));
    assert_eq!(all(&[assigned(&a, 1), assigned(&b, 3)], 0), Ok(vec![50 + 33, 75 + 100]));
    assert_eq!(all(&[assigned(&a, 1), assigned(&b, 3)], 1), Ok(vec![50 + 50, 75 + 100]));
    let error = all(&[assigned(&a, 0), assigned(&b, 0)], 0).expect_err("no pods");
    assert!(error.ends_with("no pods from pod group are assigned to any of the candidate placements"), "{error}");
}
