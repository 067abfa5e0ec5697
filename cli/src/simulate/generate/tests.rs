//! Generated clusters match their specification.

use std::collections::BTreeSet;

use super::*;
use crate::simulate::args::Kind;

fn words(nodes: usize, pods: usize, shape: Shape, seed: u64) -> Generate {
    Generate { nodes, pods, shape, seed, ..Generate::EMPTY }
}

fn make(words: &Generate) -> (Vec<api::Node>, Vec<api::Pod>) {
    let (mut made_nodes, mut made_pods) = (Vec::new(), Vec::new());
    nodes(words, |node| made_nodes.push(node));
    pods(words, |pod| made_pods.push(pod));
    (made_nodes, made_pods)
}

#[test]
fn the_same_words_make_the_same_cluster_and_another_seed_another_one() {
    for shape in [Shape::Basic, Shape::Mixed, Shape::Spread, Shape::Affinity] {
        assert_eq!(make(&words(30, 200, shape, 1)), make(&words(30, 200, shape, 1)));
    }
    assert_ne!(make(&words(30, 200, Shape::Mixed, 1)), make(&words(30, 200, Shape::Mixed, 2)));
}

#[test]
fn more_nodes_do_not_make_other_pods() {
    assert_eq!(make(&words(30, 200, Shape::Mixed, 1)).1, make(&words(3, 200, Shape::Mixed, 1)).1);
}

#[test]
fn names_count_up_and_sort_as_they_count() {
    let (nodes, pods) = make(&words(11, 101, Shape::Basic, 0));
    let name = |metadata: &ObjectMeta| metadata.name.clone().unwrap_or_default();
    let nodes: Vec<String> = nodes.iter().map(|node| name(&node.metadata)).collect();
    let pods: Vec<String> = pods.iter().map(|pod| name(&pod.metadata)).collect();
    assert_eq!((nodes[0].as_str(), nodes[10].as_str(), pods[7].as_str()), ("node-00", "node-10", "pod-007"));
    assert!(nodes.is_sorted() && pods.is_sorted());
}

#[test]
fn mixed_clusters_have_something_of_everything() {
    let (nodes, pods) = make(&words(500, 5_000, Shape::Mixed, 3));
    let specs = || nodes.iter().filter_map(|node| node.spec.as_ref());
    assert_eq!(specs().filter(|spec| spec.taints.is_some()).count(), 50);
    assert_eq!(specs().filter(|spec| spec.unschedulable == Some(true)).count(), 10);
    let apps: BTreeSet<_> = pods.iter().filter_map(|pod| pod.metadata.labels.as_ref()?.get("app").cloned()).collect();
    assert_eq!(apps.len(), 40);
    let specs = || pods.iter().filter_map(|pod| pod.spec.as_ref());
    assert!(specs().any(|spec| spec.node_selector.is_some()));
    assert!(specs().any(|spec| spec.affinity.is_some()));
    assert!(specs().any(|spec| spec.tolerations.is_some()));
    assert!(specs().any(|spec| spec.priority == Some(1_000)));
    assert!(specs().any(|spec| spec.containers.iter().any(|container| container.ports.is_some())));
}

#[test]
fn applications_take_turns_in_what_they_want() {
    let (_, pods) = make(&words(3, 400, Shape::Affinity, 0));
    let affinities = || pods.iter().filter_map(|pod| pod.spec.as_ref()?.affinity.as_ref());
    assert_eq!(affinities().count(), 400);
    assert_eq!(affinities().filter(|affinity| affinity.pod_affinity.is_some()).count(), 160);
    let (_, pods) = make(&words(3, 400, Shape::Spread, 0));
    let constrained =
        pods.iter().filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.topology_spread_constraints.is_some()));
    assert_eq!(constrained.count(), 200);
    assert_eq!(pods.iter().filter(|pod| pod.metadata.owner_references.is_some()).count(), 100);
    let (mut services, mut controllers) = (0, 0);
    super::services(&words(3, 400, Shape::Spread, 0), |_| services += 1);
    replica_sets(&words(3, 400, Shape::Spread, 0), |_| controllers += 1);
    assert_eq!((services, controllers), (10, 10));
}

#[test]
fn no_more_pods_want_to_be_apart_by_zone_than_there_are_zones() {
    let asked = Generate { kind: Some(Kind::ApartZone), ..words(3, 100, Shape::Affinity, 0) };
    let mut pods: BTreeMap<String, usize> = BTreeMap::new();
    for pod in make(&asked).1 {
        *pods.entry(pod.metadata.labels.unwrap_or_default()["app"].clone()).or_default() += 1;
    }
    assert!(pods.values().all(|&count| count <= ZONES.len()) && pods.len() > 33, "{pods:?}");
}

#[test]
fn numbers_are_those_of_splitmix64() {
    let mut random = Random::new(1_234_567);
    let first: Vec<u64> = (0..3).map(|_| random.next()).collect();
    assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
}

#[test]
fn labels_namespaces_and_standing_pods_are_as_many_as_the_words_say() {
    let of = |shape| Generate { labels: Labels::Unique, namespaces: 4, standing: 30, ..words(5, 80, shape, 0) };
    for shape in [Shape::Basic, Shape::Mixed, Shape::Spread, Shape::Affinity] {
        let (_, pods) = make(&of(shape));
        let (standing, pending): (Vec<_>, Vec<_>) =
            pods.iter().partition(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()));
        assert_eq!((standing.len(), pending.len()), (30, 80), "{shape:?}");
        let own: BTreeSet<_> = pods.iter().filter_map(|pod| pod.metadata.labels.as_ref()?.get(OWN_LABEL)).collect();
        assert_eq!(own.len(), 110, "{shape:?}");
        let namespaces: BTreeSet<_> = pending.iter().map(|pod| pod.metadata.namespace.as_ref()).collect();
        assert_eq!(namespaces.len(), 4, "{shape:?}");
        let plain = make(&words(5, 80, shape, 0)).1;
        let specs = |pods: Vec<&api::Pod>| pods.into_iter().map(|pod| pod.spec.clone()).collect::<Vec<_>>();
        assert_eq!(specs(pending), specs(plain.iter().collect()), "what pods want stays the same: {shape:?}");
    }
}
