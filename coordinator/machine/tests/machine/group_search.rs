//! podGroupSearch: a gang that fits in another order of its pods.

use std::sync::Arc;

use flotilla_framework::{
    pod_group::{GroupApi, PodGroup, Topology},
    profile::PodGroupSearch,
    testing::{PodBuilder, node, pod, pod_group},
};
use flotilla_machine::event::{Configuration, Event};

use crate::{groups_in_domains, simulation::Seed, world::World};

const PRIORITY: i32 = 10;

fn configuration(max_steps: Option<u32>) -> Configuration {
    let mut configuration = groups_in_domains::configuration();
    let mut profile = configuration.profiles[0].clone();
    profile.args.gang_scheduling.pod_group_search = max_steps.map(|max_steps| PodGroupSearch { max_steps });
    configuration.profiles = Arc::new([profile]);
    configuration
}

/// Nodes with their rack and CPUs, in a world with this limit of steps.
fn world(max_steps: Option<u32>, nodes: &[(&str, u32)]) -> World {
    let mut world = World::new(1);
    world.tell(Event::Configured(Arc::new(configuration(max_steps))));
    for (index, (rack, cpus)) in nodes.iter().enumerate() {
        let node = node(&format!("n{index}")).label("rack", rack).capacity("cpu", &cpus.to_string());
        world.node(node.build());
    }
    world
}

fn member(name: &str, cpus: u32) -> PodBuilder {
    pod(name).request("cpu", &cpus.to_string()).request("memory", "1Mi").priority(PRIORITY).group("g")
}

fn group(topology: Topology, min_count: usize) -> PodGroup {
    let min_count = u32::try_from(min_count).expect("a small group");
    PodGroup { topology, priority: PRIORITY, ..pod_group("g", Some(min_count)) }
}

/// Adds the group with members of these CPUs, in this order, and runs until nothing happens.
fn settle(world: &mut World, topology: Topology, members: &[(&str, u32)]) {
    members.iter().for_each(|(name, cpus)| world.pod(member(name, *cpus).build()));
    world.tell(Event::PodGroupApplied(Arc::new(group(topology, members.len()))));
    world.settle();
}

fn message(world: &World) -> &str {
    world.group_reports.last().map_or("", |report| &report.message)
}

/// LeastAllocated puts the small pod on the large node, where the large pod has to go.
const SMALL_FIRST: [(&str, u32); 2] = [("small", 2), ("large", 8)];
const TWO_NODES: [(&str, u32); 2] = [("a", 8), ("a", 2)];

#[test]
fn a_gang_that_fits_only_if_the_large_pod_is_placed_first_is_placed_with_the_search() {
    for topology in [Topology::Off, Topology::Unconstrained, Topology::Key("rack".into())] {
        let mut greedy = world(None, &TWO_NODES);
        settle(&mut greedy, topology.clone(), &SMALL_FIRST);
        assert_eq!(greedy.bound, [], "{topology:?}");
        let mut searched = world(Some(100), &TWO_NODES);
        settle(&mut searched, topology.clone(), &SMALL_FIRST);
        assert_eq!(searched.place_of("large"), Some("n0"), "{topology:?}: {}", message(&searched));
        assert_eq!(searched.place_of("small"), Some("n1"));
        let place = if matches!(topology, Topology::Key(_)) { "in rack=a " } else { "" };
        let expected = format!("podGroupSearch: fits {place}in this order: 1 like large, then 1 like small");
        assert_eq!(message(&searched), expected);
    }
}

#[test]
fn a_gang_that_fits_in_its_order_is_not_searched() {
    let mut world = world(Some(100), &[("a", 8), ("a", 8)]);
    settle(&mut world, Topology::Off, &SMALL_FIRST);
    assert_eq!((world.bound.len(), message(&world)), (2, ""));
}

#[test]
fn a_search_without_success_says_whether_it_tried_all_orders() {
    for (max_steps, expected) in [
        (100, ", podGroupSearch tried all orders, steps: 4"),
        (1, ", podGroupSearch ended before it had tried all orders, steps: 1"),
    ] {
        let mut world = world(Some(max_steps), &[("a", 8), ("a", 1)]);
        settle(&mut world, Topology::Off, &SMALL_FIRST);
        assert_eq!(world.bound, []);
        assert!(message(&world).contains(expected), "{}", message(&world));
    }
}

#[test]
fn the_search_continues_in_further_domains() {
    let mut world = world(Some(100), &[("a", 8), ("a", 1), ("b", 8), ("b", 2)]);
    settle(&mut world, Topology::Key("rack".into()), &SMALL_FIRST);
    assert_eq!((world.place_of("large"), world.place_of("small")), (Some("n2"), Some("n3")), "{}", message(&world));
}

#[test]
fn pods_of_lower_priority_are_evicted_for_an_order_that_the_search_finds() {
    let mut world = world(Some(100), &TWO_NODES);
    for (name, cpus, node) in [("victim-0", "8", "n0"), ("victim-1", "2", "n1")] {
        world.pod(pod(name).request("cpu", cpus).priority(1).on(node).build());
    }
    settle(&mut world, Topology::Off, &SMALL_FIRST);
    world.finish_deletions();
    world.settle();
    world.advance(20_000);
    world.settle();
    assert_eq!((world.place_of("large"), world.place_of("small")), (Some("n0"), Some("n1")), "{}", message(&world));
}

/// Groups of one pod each below a composite group that needs two of them. The group `second` fits in rack a only, on a node of 8 CPUs. The
/// group before it also fits in rack b, with 12 CPUs, but the plugins prefer the fuller rack.
fn composite(max_steps: Option<u32>, groups: &[(&str, u32)]) -> World {
    let mut world = world(max_steps, &[("a", 8), ("b", 12)]);
    let root = PodGroup {
        api: GroupApi::Composite,
        topology: Topology::Unconstrained,
        priority: PRIORITY,
        ..pod_group("c", Some(2))
    };
    world.tell(Event::PodGroupApplied(Arc::new(root)));
    for (name, cpus) in groups {
        let pod = member(name, *cpus).group(name);
        world.pod(if *name == "second" { pod.node_selector("rack", "a") } else { pod }.build());
        let topology = Topology::Key("rack".into());
        let leaf = PodGroup { parent: Some("c".into()), topology, priority: PRIORITY, ..pod_group(name, Some(1)) };
        world.tell(Event::PodGroupApplied(Arc::new(leaf)));
    }
    world.settle();
    world
}

#[test]
fn the_groups_of_a_composite_group_are_tried_in_all_their_placements() {
    let groups = [("first", 4), ("second", 6)];
    assert_eq!(composite(None, &groups).bound, []);
    let world = composite(Some(100), &groups);
    assert_eq!((world.place_of("first"), world.place_of("second")), (Some("n1"), Some("n0")), "{}", message(&world));
}

#[test]
fn a_group_that_does_not_fit_next_to_the_found_placements_has_its_reason() {
    let world = composite(Some(100), &[("first", 4), ("second", 6), ("third", 16)]);
    assert_eq!((world.place_of("first"), world.place_of("second")), (Some("n1"), Some("n0")));
    let third = world.group_reports.iter().find(|report| &*report.name == "third").expect("a report");
    let reason = "pod group is unschedulable, 0/2 placements are available, first placement status: minCount (1) cannot be \
                  satisfied: 0 scheduled, 0 remaining";
    assert!(third.message.starts_with(reason), "{}", third.message);
}

/// A generated gang: racks of nodes, and the CPUs of its pods in their order.
#[derive(Debug)]
struct Gang {
    nodes: Vec<(&'static str, u32)>,
    members: Vec<(String, u32)>,
    topology: Topology,
}

impl Gang {
    /// Nodes of 4 to 16 CPUs in up to three racks, and three to eight pods of up to three shapes, which need most of one rack.
    fn generated(seed: u64) -> Self {
        let mut random = Seed(seed);
        let mut below = |most: u64| random.below(most) as u32;
        let in_racks = below(2) == 0;
        let racks = if in_racks { 2 + below(2) } else { 1 };
        let mut nodes = Vec::new();
        for rack in ["a", "b", "c"].into_iter().take(racks as usize) {
            nodes.extend((0..2 + below(2)).map(|_| (rack, 4 + 2 * below(7))));
        }
        let shapes = [1 + below(4), 3 + below(5), 6 + below(7)];
        let most: u32 = nodes.iter().filter(|(rack, _)| *rack == nodes[0].0).map(|(_, cpus)| cpus).sum();
        let (mut members, mut sum) = (Vec::new(), 0);
        while members.len() < 8 {
            let cpus = shapes[below(3) as usize];
            if sum + cpus > most {
                break;
            }
            sum += cpus;
            members.push((format!("m{}", members.len()), cpus));
        }
        let topology = if in_racks { Topology::Key("rack".into()) } else { Topology::Off };
        Self { nodes, members, topology }
    }

    /// Whether kube-scheduler's plugins place it, with this limit of steps.
    fn is_placed(&self, max_steps: Option<u32>) -> bool {
        let mut world = world(max_steps, &self.nodes);
        let members: Vec<(&str, u32)> = self.members.iter().map(|(name, cpus)| (name.as_str(), *cpus)).collect();
        settle(&mut world, self.topology.clone(), &members);
        assert!(world.bound.is_empty() || world.bound.len() == members.len());
        !world.bound.is_empty()
    }

    /// Whether any assignment of the pods to the nodes of one rack fits: an exact search, by pods of decreasing size.
    fn fits(&self) -> bool {
        fn assign(free: &mut [u32], pods: &[u32]) -> bool {
            let Some((pod, others)) = pods.split_first() else { return true };
            (0..free.len()).any(|node| {
                if free[node] < *pod {
                    return false;
                }
                free[node] -= pod;
                let fits = assign(free, others);
                free[node] += pod;
                fits
            })
        }
        let mut pods: Vec<u32> = self.members.iter().map(|(_, cpus)| *cpus).collect();
        pods.sort_unstable_by_key(|cpus| std::cmp::Reverse(*cpus));
        let in_racks = matches!(self.topology, Topology::Key(_));
        ["a", "b", "c"].into_iter().any(|rack| {
            let own = self.nodes.iter().filter(|(name, _)| !in_racks || *name == rack);
            let mut free: Vec<u32> = own.map(|(_, cpus)| *cpus).collect();
            assign(&mut free, &pods)
        })
    }
}

/// The table in docs/tasks/gangs.md.
#[test]
fn of_a_thousand_generated_gangs_the_search_places_most_that_fit() {
    let limits = [None, Some(20), Some(100), Some(1_000)];
    let (mut placed, mut exact) = ([0; 4], 0);
    for seed in 0..1_000 {
        let gang = Gang::generated(seed);
        let with_each = limits.map(|max_steps| gang.is_placed(max_steps));
        let fits = gang.fits();
        assert!(with_each.is_sorted() && (fits || !with_each[3]), "{seed}: {gang:?}: {with_each:?}");
        placed.iter_mut().zip(with_each).for_each(|(count, placed)| *count += u32::from(placed));
        exact += u32::from(fits);
    }
    assert_eq!((placed, exact), ([545, 780, 807, 808], 811));
}
