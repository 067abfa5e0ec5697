//! Plugins in addition to the built-in ones: the fields that they read are in each class, on every worker.

use std::sync::Arc;

use flotilla_framework::{
    extension::{NodeScore, Plugin, PodField, Point, Preparation, Score},
    profile::{Args, Profile, WeightedPlugin},
    registry::Registry,
    snapshot::{Slot, Snapshot},
    testing::{self, node, pod},
};
use flotilla_machine::event::{Configuration, Event};

use crate::world::World;

/// Scores the node whose name has the same last character as the pod's.
struct SameEnd;

struct End(Option<char>);

impl Plugin for SameEnd {
    fn name(&self) -> &'static str {
        "SameEnd"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::Score]
    }

    fn pod_fields(&self, _: &Args) -> Vec<PodField> {
        vec![PodField::Name]
    }

    fn score(&self, preparation: &mut Preparation<'_>) -> Option<Score> {
        let name = preparation.class.field(&PodField::Name)?;
        Some(Score::Node(Box::new(End(name.chars().last()))))
    }
}

impl NodeScore for End {
    fn score(&self, nodes: &Snapshot, slot: Slot) -> i64 {
        if nodes.symbols.text(nodes.name(slot)).chars().last() == self.0 { 100 } else { 0 }
    }
}

fn registry() -> Registry {
    Registry::built_in().with([Box::new(SameEnd) as Box<dyn Plugin>]).expect("a name of its own")
}

fn profile() -> Profile {
    let mut profile = testing::profile();
    profile.plugins.score.push(WeightedPlugin { name: "SameEnd".to_owned(), weight: 100 });
    profile
}

fn world(workers: usize, profile: Profile) -> World {
    let mut world = World::with_plugins(registry(), profile);
    let stock: Vec<_> = world.workers.keys().copied().collect();
    stock.into_iter().for_each(|id| world.kill(id));
    (0..workers).for_each(|index| _ = world.join_with(&format!("own-{index}"), registry()));
    for index in 0..3 {
        world.node(node(&format!("node-{index}")).build());
    }
    world.settle();
    world
}

fn assert_at_home(world: &World, pods: usize) {
    for index in 0..pods {
        let (name, home) = (format!("pod-{index}"), format!("node-{index}"));
        assert_eq!(world.place_of(&name), Some(&*home), "{name}");
    }
}

#[test]
fn pods_that_differ_in_name_alone_go_where_their_names_say_with_any_number_of_workers() {
    for workers in [0, 1, 3] {
        let mut world = world(workers, profile());
        (0..3).for_each(|index| world.pod(pod(&format!("pod-{index}")).build()));
        world.settle();
        world.advance(60_000);
        assert_at_home(&world, 3);
    }
}

#[test]
fn pods_that_wait_are_told_apart_once_a_configuration_names_the_plugin_and_are_alike_without_it() {
    let mut world = world(2, testing::profile());
    (0..3).for_each(|index| world.pod(pod(&format!("pod-{index}")).gate("wait").build()));
    let placed = |name: &str| pod(name).on("node-0").request("cpu", "1m").build();
    (0..3).for_each(|index| world.pod(placed(&format!("placed-{index}"))));
    world.settle();
    let classes = |world: &World| world.machine.status().classes;
    let alike = classes(&world);

    world.tell(Event::Configured(Arc::new(Configuration::new(2, vec![profile()]))));
    world.settle();
    assert!(classes(&world) >= alike + 4, "each of six pods is of a class of its own, and two were enough");
    (0..3).for_each(|index| world.pod(pod(&format!("pod-{index}")).build()));
    world.settle();
    world.advance(60_000);
    assert_at_home(&world, 3);

    world.tell(Event::Configured(Arc::new(Configuration::new(3, vec![testing::profile()]))));
    world.settle();
    let known = classes(&world);
    (3..6).for_each(|index| world.pod(pod(&format!("pod-{index}")).build()));
    world.settle();
    assert!(classes(&world) <= known, "pods that differ in name alone are of one class again");
}
