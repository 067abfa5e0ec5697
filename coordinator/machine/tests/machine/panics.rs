//! A plugin panics for one pod: that pod is held and reported, the others are placed, and the state stays consistent.

use std::sync::Arc;

use flotilla_framework::{
    class::Class,
    extension::{ClusterEvent, Filter, NodeFilter, NodeScore, Plugin, PodField, PreFilter, Preparation, Score},
    profile::{Args, Profile, WeightedPlugin},
    registry::Registry,
    snapshot::{Slot, Snapshot},
    status::{FilterResult, Refusal},
    testing::{self, node, pod, pod_group},
};
use flotilla_machine::{
    action::Reason,
    event::{Configuration, Event},
    outlook::{PodName, PodState},
};

use crate::world::World;

/// The call in which the plugin panics for pods named `bad*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    PreFilter,
    Filter,
    Score,
    /// On a node without pods; it refuses other nodes, so that a dry run of preemption panics.
    DryRun,
    /// In the hint, after it refused all nodes.
    Hint,
}

struct Faulty(At);

struct Prepared {
    at: At,
    is_bad: bool,
}

fn is_bad(class: &Class) -> bool {
    class.field(&PodField::Name).is_some_and(|name| name.starts_with("bad"))
}

impl Plugin for Faulty {
    fn name(&self) -> &'static str {
        "Faulty"
    }

    fn pod_fields(&self, _: &Args) -> Vec<PodField> {
        vec![PodField::Name]
    }

    fn pre_filter(&self, preparation: &mut Preparation<'_>) -> PreFilter {
        assert!(self.0 != At::PreFilter || !is_bad(preparation.class), "PreFilter of a bad pod");
        PreFilter::Continue
    }

    fn filter(&self, preparation: &mut Preparation<'_>) -> Option<Filter> {
        Some(Filter::Node(Box::new(Prepared { at: self.0, is_bad: is_bad(preparation.class) })))
    }

    fn score(&self, preparation: &mut Preparation<'_>) -> Option<Score> {
        Some(Score::Node(Box::new(Prepared { at: self.0, is_bad: is_bad(preparation.class) })))
    }

    fn events(&self) -> &'static [&'static str] {
        &["AssignedPodDelete"]
    }

    fn wakes(&self, _: ClusterEvent<'_>, class: &Class, _: &Args) -> bool {
        assert!(self.0 != At::Hint || !is_bad(class), "the hint for a bad pod");
        true
    }
}

impl NodeFilter for Prepared {
    fn filter(&self, nodes: &Snapshot, slot: Slot) -> FilterResult {
        match self.at {
            At::Filter => assert!(!self.is_bad, "Filter of a bad pod"),
            At::DryRun if self.is_bad => {
                assert!(!nodes.tenants(slot).is_empty(), "Filter of a bad pod on a node without pods");
                return Err(Refusal::unschedulable(0));
            }
            At::Hint if self.is_bad => return Err(Refusal::unschedulable(0)),
            _ => {}
        }
        Ok(())
    }

    fn reasons(&self, _: u64) -> Vec<String> {
        vec!["node(s) were refused".to_owned()]
    }
}

impl NodeScore for Prepared {
    fn score(&self, _: &Snapshot, _: Slot) -> i64 {
        assert!(self.at != At::Score || !self.is_bad, "Score of a bad pod");
        0
    }
}

fn registry(at: At) -> Registry {
    Registry::built_in().with([Box::new(Faulty(at)) as Box<dyn Plugin>]).expect("a name of its own")
}

fn profile() -> Profile {
    let mut profile = testing::profile();
    profile.plugins.pre_filter.push("Faulty".to_owned());
    profile.plugins.filter.push("Faulty".to_owned());
    profile.plugins.score.push(WeightedPlugin { name: "Faulty".to_owned(), weight: 1 });
    profile.plugins.post_filter = vec!["DefaultPreemption".to_owned()];
    profile
}

/// No workers, and two nodes with a pod of low priority each.
fn world(at: At) -> World {
    let mut world = World::with_plugins(registry(at), profile());
    let stock: Vec<_> = world.workers.keys().copied().collect();
    stock.into_iter().for_each(|id| world.kill(id));
    with_nodes(world)
}

fn with_nodes(mut world: World) -> World {
    for index in 0..2 {
        world.node(node(&format!("node-{index}")).build());
        world.pod(pod(&format!("low-{index}")).priority(-10).on(&format!("node-{index}")).build());
    }
    world.settle();
    world
}

fn assert_sound(world: &World) {
    assert_eq!(world.machine.audit(), [], "nothing half done is left");
}

fn uid_of(world: &World, name: &str) -> Arc<str> {
    world.api.values().find(|pod| &*pod.name == name).map(|pod| Arc::clone(&pod.uid)).expect("it is there")
}

#[test]
fn a_pod_for_which_a_plugin_panics_is_held_and_the_others_are_placed() {
    for at in [At::PreFilter, At::Filter, At::Score, At::DryRun] {
        let mut world = world(at);
        world.pod(pod("bad-1").build());
        world.pod(pod("good-1").build());
        world.advance(60_000);
        assert_sound(&world);
        assert!(world.place_of("good-1").is_some(), "{at:?}");
        assert_eq!(world.place_of("bad-1"), None, "{at:?}");
        let reports: Vec<_> = world.reports.iter().filter(|report| &*report.name == "bad-1").collect();
        let last = reports.last().expect("its owner is informed");
        assert_eq!(last.reason, Reason::SchedulerError, "{at:?}");
        assert!(last.message.contains("a plugin panicked: "), "{at:?}: {}", last.message);
        let name = PodName { namespace: "default".into(), name: "bad-1".into() };
        let standing = world.machine.outlook(world.now_ms, &name).expect("the pod is known").standing;
        assert_eq!(standing, PodState::Gated { plugin: None, message: last.message.clone() }, "{at:?}");
        let panics = world.machine.status().plugin_panics;
        assert!(panics > 0, "{at:?}");
        // Time alone does not release it.
        world.advance(120_000);
        assert_eq!(world.machine.status().plugin_panics, panics, "{at:?}");
        world.pod(pod("good-2").build());
        world.settle();
        assert!(world.place_of("good-2").is_some(), "{at:?}");
        assert_eq!(world.evicted, [], "{at:?}");
        assert_sound(&world);
    }
}

#[test]
fn a_pod_that_is_held_is_tried_again_when_it_changes_and_when_the_configuration_does() {
    let mut world = world(At::Filter);
    world.pod(pod("bad-1").build());
    world.settle();
    let panics = |world: &World| world.machine.status().plugin_panics;
    let first = panics(&world);
    world.pod(pod("bad-1").label("changed", "yes").tolerate("gpu", "Exists", "", "NoSchedule").build());
    world.settle();
    assert_eq!(panics(&world), first + 1, "it is another class");
    let mut without = profile();
    without.plugins.filter.retain(|name| name != "Faulty");
    world.tell(Event::Configured(Arc::new(Configuration::new(3, vec![without]))));
    world.settle();
    assert!(world.place_of("bad-1").is_some(), "the plugin is not asked any more");
    assert_sound(&world);
}

#[test]
fn a_hint_that_panics_has_the_pod_tried_again() {
    let mut world = world(At::Hint);
    world.pod(pod("bad-1").build());
    world.settle();
    let tried = |world: &World| world.machine.status().unschedulable;
    let before = tried(&world);
    let uid = uid_of(&world, "low-0");
    world.tell(Event::PodDeleted { uid });
    world.advance(20_000);
    assert!(tried(&world) > before);
    assert_sound(&world);
}

fn gangs(generation: u64, has_plugin: bool) -> Event {
    let mut gangs = profile();
    gangs.plugins.pre_enqueue.push("GangScheduling".to_owned());
    gangs.plugins.permit.push("GangScheduling".to_owned());
    gangs.plugins.filter.retain(|name| has_plugin || name != "Faulty");
    Event::Configured(Arc::new(Configuration { generic_workload: true, ..Configuration::new(generation, vec![gangs]) }))
}

/// A gang of two pods; the filter panics for one of them.
fn bad_gang() -> World {
    let mut world = world(At::Filter);
    world.tell(gangs(2, true));
    world.tell(Event::PodGroupApplied(Arc::new(pod_group("g", Some(2)))));
    world.pod(pod("good-a").request("cpu", "3").group("g").build());
    world.pod(pod("bad-b").request("cpu", "3").group("g").build());
    world
}

#[test]
fn a_pod_group_that_fails_in_a_way_that_the_next_attempt_would_repeat_is_held_as_a_pod_is() {
    let mut world = bad_gang();
    world.settle();
    let attempts = |world: &World| world.machine.status().decisions;
    let first = attempts(&world);
    world.advance(100_000);
    assert_eq!(attempts(&world), first, "it is held");
    world.pod(
        pod("bad-b")
            .request("cpu", "3")
            .label("changed", "yes")
            .tolerate("gpu", "Exists", "", "NoSchedule")
            .group("g")
            .build(),
    );
    world.advance(100_000);
    let second = attempts(&world);
    assert_eq!(second, first + 2, "it is tried once more with the changed pod");
    let panics = world.machine.status().plugin_panics;
    world.advance(320_000);
    assert!(attempts(&world) > second, "it is tried again after five minutes");
    assert!(world.machine.status().plugin_panics > panics, "the plugin is asked again");
    world.tell(gangs(3, false));
    world.advance(60_000);
    assert!(
        world.place_of("good-a").is_some() && world.place_of("bad-b").is_some(),
        "the plugin is not asked any more"
    );
    assert_sound(&world);
}

#[test]
fn a_pod_group_fails_for_a_member_for_which_a_plugin_panics_and_gives_back_what_it_assumed() {
    let mut world = bad_gang();
    world.advance(30_000);
    assert_sound(&world);
    assert_eq!((world.place_of("good-a"), world.place_of("bad-b")), (None, None));
    world.pod(pod("good-c").request("cpu", "3").build());
    world.pod(pod("good-d").request("cpu", "3").build());
    world.settle();
    assert!(world.place_of("good-c").is_some() && world.place_of("good-d").is_some(), "both nodes are free");
    assert_sound(&world);
}

#[test]
fn a_plugin_that_panics_on_a_worker_fails_its_pod_and_the_worker_stays() {
    for at in [At::PreFilter, At::Filter, At::Score] {
        let mut world = with_nodes(World::with_plugins(registry(at), profile()));
        let workers = world.workers.len();
        assert!(workers > 0, "there are workers to ask");
        world.pod(pod("bad-1").build());
        world.pod(pod("good-1").build());
        world.advance(60_000);
        assert_sound(&world);
        assert!(world.place_of("good-1").is_some(), "{at:?}");
        assert_eq!(world.place_of("bad-1"), None, "{at:?}");
        assert_eq!(world.machine.status().plugin_panics, 1, "{at:?}: the pod is held");
        assert_eq!((world.workers.len(), &world.dropped[..]), (workers, &[][..]), "{at:?}");
    }
}

#[test]
fn a_pod_takes_a_node_although_a_plugin_panics_for_a_pod_in_backoff_that_may_go_first() {
    let mut world = world(At::DryRun);
    world.pod(pod("bad-1").priority(1_000).never_preempts().build());
    world.settle();
    let uid = uid_of(&world, "low-0");
    let now_ms = world.now_ms;
    world.machine.apply(now_ms, Event::PodDeleted { uid });
    world.pod(pod("good-1").build());
    assert!(world.machine.status().ahead_asked > 0, "the pod in backoff is asked about the node");
    assert_eq!(world.machine.status().plugin_panics, 1);
    world.settle();
    assert!(world.place_of("good-1").is_some());
    assert_sound(&world);
}
