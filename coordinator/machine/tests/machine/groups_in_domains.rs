//! Pod groups with a topology constraint: placed in one domain.

use std::sync::Arc;

use flotilla_framework::{
    class::PodInfo,
    pod_group::{PodGroup, Topology},
    profile::WeightedPlugin,
    testing::{PodBuilder, node, pod, pod_group},
};
use flotilla_machine::{
    event::{Configuration, Event},
    outlook::PodName,
};

use crate::{groups, world::World};

pub(crate) fn configuration() -> Configuration {
    let mut configuration = groups::configuration(2);
    let mut profile = configuration.profiles[0].clone();
    profile.plugins.placement_generate = vec!["TopologyPlacementGenerator".to_owned()];
    profile.plugins.placement_score = ["NodeResourcesFit", "PodGroupPodsCount"]
        .map(|name| WeightedPlugin { name: name.to_owned(), weight: 1 })
        .to_vec();
    configuration.profiles = Arc::new([profile]);
    configuration
}

/// A gang `g` of pods that need 3 CPUs each, on nodes with 4 CPUs. `racks`: the rack of each node.
struct Gang<'a> {
    workers: usize,
    racks: &'a [&'a str],
    standing: Vec<PodInfo>,
    group: PodGroup,
    members: &'a [&'a str],
}

impl Default for Gang<'_> {
    fn default() -> Self {
        let topology = Topology::Key("rack".into());
        let group = PodGroup { topology, priority: 10, ..pod_group("g", Some(2)) };
        Self { workers: 1, racks: &["a", "a", "b", "b"], standing: Vec::new(), group, members: &["m0", "m1"] }
    }
}

impl Gang<'_> {
    fn world(self) -> World {
        let mut world = World::new(self.workers);
        world.tell(Event::Configured(Arc::new(configuration())));
        for (index, rack) in self.racks.iter().enumerate() {
            let node = node(&format!("n{index}"));
            world.node(if rack.is_empty() { node } else { node.label("rack", rack) }.build());
        }
        self.standing.into_iter().for_each(|pod| world.pod(pod));
        for name in self.members {
            world.pod(member(name).build());
        }
        world.tell(Event::PodGroupApplied(Arc::new(self.group)));
        world.settle();
        world
    }
}

fn member(name: &str) -> PodBuilder {
    pod(name).request("cpu", "3").request("memory", "1Mi").priority(10).group("g")
}

fn standing(name: &str, cpus: &str, node: &str) -> PodBuilder {
    pod(name).request("cpu", cpus).request("memory", "1Mi").on(node)
}

fn bound(world: &World) -> Vec<(&str, &str)> {
    let mut bound: Vec<(&str, &str)> = world.bound.iter().map(|(pod, node)| (pod.as_str(), node.as_str())).collect();
    bound.sort_unstable();
    bound
}

fn nodes(world: &World) -> Vec<&str> {
    let mut nodes: Vec<&str> = bound(world).into_iter().map(|(_, node)| node).collect();
    nodes.sort_unstable();
    nodes
}

fn message(world: &World) -> &str {
    world.group_reports.last().map_or("", |report| &report.message)
}

#[test]
fn a_gang_is_placed_in_the_only_domain_that_has_room_for_all() {
    for workers in [0, 1, 3] {
        let taken = standing("taken", "2", "n0").priority(10).build();
        let world = Gang { workers, standing: vec![taken], ..Gang::default() }.world();
        assert_eq!(nodes(&world), ["n2", "n3"], "{workers} workers");
    }
}

#[test]
fn of_several_domains_with_room_the_one_with_less_free_room_is_chosen() {
    let world = Gang { standing: vec![standing("small", "1", "n3").priority(10).build()], ..Gang::default() }.world();
    assert_eq!(nodes(&world), ["n2", "n3"]);
}

#[test]
fn a_domain_for_more_pods_is_better() {
    let racks = &["a", "a", "b", "b", "b"];
    let world = Gang { racks, members: &["m0", "m1", "m2"], ..Gang::default() }.world();
    assert_eq!(nodes(&world), ["n2", "n3", "n4"]);
}

#[test]
fn a_gang_that_fits_in_no_domain_stays_pending_although_the_cluster_has_room() {
    let world = Gang { racks: &["a", "b", "", "c"], ..Gang::default() }.world();
    assert_eq!(bound(&world), []);
    assert_eq!(
        message(&world),
        "pod group is unschedulable, 0/3 placements are available, first placement status: minCount (2) cannot be \
         satisfied: 1 scheduled, 0 remaining, pod group preemption: No preemption victims found for incoming preemptor"
    );
    let pod = world.reports.iter().find(|report| &*report.name == "m1").expect("a report");
    assert_eq!(pod.message, "0/1 nodes are available: 1 Insufficient cpu.");
    let lack = |rack: &str| format!("rack={rack} lacks 1 of 2 pods: 0/1 nodes are available: 1 Insufficient cpu.");
    assert_eq!(lacks(&world, "m0"), ["a", "b", "c"].map(lack));
}

/// What each placement lacks, for the report about a pod.
fn lacks(world: &World, name: &str) -> Vec<String> {
    let name = PodName { namespace: "default".into(), name: name.into() };
    world.machine.outlook(0, &name).expect("a known pod").placements
}

#[test]
fn a_report_names_sixteen_placements_and_counts_the_others() {
    let racks: Vec<String> = (0..20).map(|rack| format!("r{rack:02}")).collect();
    let racks: Vec<&str> = racks.iter().map(String::as_str).collect();
    let world = Gang { racks: &racks, ..Gang::default() }.world();
    let lacks = lacks(&world, "m1");
    assert_eq!((lacks.len(), &*lacks[16]), (17, "and 4 more"));
}

#[test]
fn without_a_node_of_a_domain_there_is_no_placement() {
    let world = Gang { racks: &["", ""], ..Gang::default() }.world();
    assert_eq!(bound(&world), []);
    assert!(message(&world).starts_with("no feasible placements found"), "{}", message(&world));
}

#[test]
fn a_later_member_joins_the_domain_of_the_others() {
    let racks = &["a", "a", "b", "b", "b", "b"];
    let first = standing("m0", "3", "n0").priority(10).group("g").build();
    let second = standing("m1", "3", "n1").priority(10).group("g").build();
    let taken = Gang { racks, standing: vec![first.clone(), second], members: &["m2"], ..Gang::default() }.world();
    assert_eq!(bound(&taken), [], "the domain is full");
    let world = Gang { racks, standing: vec![first], members: &["m2"], ..Gang::default() }.world();
    assert_eq!(nodes(&world), ["n1"]);
}

#[test]
fn members_in_two_domains_are_an_error() {
    let standing = ["n0", "n2"].map(|node| standing(node, "1", node).priority(10).group("g").build()).to_vec();
    let world = Gang { standing, members: &["m2"], ..Gang::default() }.world();
    assert!(message(&world).starts_with("cannot determine domain for already scheduled pods: more than 1 domain"));
    assert_eq!(bound(&world), []);
}

#[test]
fn preemption_makes_room_in_one_domain_only() {
    let standing = ["n0", "n1", "n2", "n3"].map(|node| standing(node, "4", node).build()).to_vec();
    let mut world = Gang { standing, ..Gang::default() }.world();
    world.advance(2_000);
    world.settle();
    assert_eq!(nodes(&world), ["n0", "n1"]);
    assert!(world.api.contains_key("uid-n2") && world.api.contains_key("uid-n3"), "the other domain keeps its pods");
}

#[test]
fn a_gang_may_leave_preemption_to_no_pod() {
    let standing = ["n0", "n1", "n2", "n3"].map(|node| standing(node, "4", node).build()).to_vec();
    let group = PodGroup { never_preempts: Some(true), ..Gang::default().group };
    let world = Gang { standing, group, ..Gang::default() }.world();
    assert_eq!(bound(&world), []);
    let expected = "all pods in a single pod group should have the same preemption policy as the pod group's preemption \
                    policy, got PreemptLowerPriority and Never";
    assert_eq!(message(&world), expected);
}

#[test]
fn a_search_for_victims_costs_about_the_same_with_and_without_domains() {
    let work = |topology: Topology| {
        let racks: Vec<&str> = ["a", "b"].repeat(10);
        let names: Vec<(String, String)> =
            (0..80).map(|at| (format!("low{at}"), format!("n{}", at % racks.len()))).collect();
        let standing = names.iter().map(|(name, node)| standing(name, "1", node).build()).collect();
        let group = PodGroup { topology, ..Gang::default().group };
        let mut world = Gang { racks: &racks, standing, group, ..Gang::default() }.world();
        world.advance(2_000);
        world.settle();
        assert_eq!(bound(&world).len(), 2, "it makes room");
        world.machine.status().event_work_largest
    };
    let (within, without) = (work(Topology::Key("rack".into())), work(Topology::Off));
    assert!(within < 2 * without, "{within} units of work in domains, {without} without");
}
