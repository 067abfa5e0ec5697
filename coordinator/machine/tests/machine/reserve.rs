//! Reserve, PreBind and Unreserve of plugins with objects that the machine does not know.

use std::sync::Arc;

use flotilla_framework::{
    class::PodInfo,
    extension::{Plugin, objects::Patch},
    profile::Profile,
    registry::Registry,
    testing::{
        self,
        licences::{Licences, Log},
        node, pod,
    },
    volumes::{
        mounts::Mount,
        objects::{Claim, StorageKey, StorageKind, StorageObject},
    },
};
use flotilla_machine::{
    action::Reason,
    event::{BindFailure, Event},
};

use crate::world::World;

/// PreBind timeouts of the two plugins.
const TIMEOUTS_MS: [(&str, u64); 2] = [("First", 5_000), ("Second", 10_000)];

fn profile() -> Profile {
    let mut profile = testing::profile();
    profile.plugins.reserve = TIMEOUTS_MS.iter().map(|(name, _)| (*name).to_owned()).collect();
    profile.plugins.pre_bind.clone_from(&profile.plugins.reserve);
    profile
}

/// A node, and this many licences of each plugin.
fn world_with(profile: Profile, licences: usize) -> (World, Log) {
    let log = Log::default();
    let plugins = TIMEOUTS_MS
        .map(|(name, timeout_ms)| Box::new(Licences { name, timeout_ms, log: log.clone() }) as Box<dyn Plugin>);
    let registry = Registry::built_in().with(plugins).expect("two names of their own");
    let mut world = World::with_plugins(registry, profile);
    world.node(node("n1").build());
    for (plugin, _) in TIMEOUTS_MS {
        (0..licences).for_each(|number| world.give_out(plugin, &format!("l{number}"), false));
    }
    world.settle();
    (world, log)
}

fn world(licences: usize) -> (World, Log) {
    world_with(profile(), licences)
}

fn licensed(name: &str) -> PodInfo {
    pod(name).mount(Mount::Csi("example.com".into())).build()
}

fn key(plugin: &str, name: &str) -> StorageKey {
    StorageKey { kind: StorageKind::Claim, namespace: plugin.to_lowercase().into(), name: name.into() }
}

impl World {
    /// Adds a licence to the API server, which may be valid for a node already.
    fn give_out(&mut self, plugin: &str, name: &str, good: bool) {
        let StorageKey { namespace, name, .. } = key(plugin, name);
        let selected_node = good.then(|| "n1".into());
        let licence =
            Claim { namespace, uid: name.clone(), name, selected_node, bind_completed: good, ..Claim::default() };
        self.store(StorageObject::Claim(licence));
    }

    /// The API server performs the first `count` writes of the oldest PreBind, and fails the next with this error.
    fn answer(&mut self, count: usize, failure: Option<&str>) {
        let pre_bind = self.pre_binds.pop_front().expect("writes under way");
        let versions: Vec<Arc<str>> = (0..count).map(|place| format!("10{place}").into()).collect();
        self.tell(Event::Written { uid: pre_bind.uid, id: pre_bind.id, versions, failure: failure.map(str::to_owned) });
    }

    fn written(&mut self, pod: &str) {
        self.pod(licensed(pod));
        self.run_workers();
        self.run_workers();
        self.answer(2, None);
    }

    fn error(&self) -> Option<&str> {
        let report = self.reports.last().filter(|report| report.reason == Reason::SchedulerError)?;
        Some(&report.message)
    }
}

#[test]
fn plugins_reserve_in_order_write_in_order_and_the_pod_is_bound_when_none_waits_any_more() {
    let (mut world, log) = world(1);
    world.pod(licensed("p"));
    world.run_workers();
    world.run_workers();
    assert_eq!(log.take(), ["First plans for p", "Second plans for p", "First reserves l0", "Second reserves l0"]);
    let writes = &world.pre_binds[0].writes;
    let objects: Vec<_> = writes.iter().map(|write| (&**write.object.namespace(), &write.patch)).collect();
    let node = Patch::SelectNode("n1".into());
    assert_eq!(objects, [("first", &node), ("second", &node)]);
    world.answer(2, None);
    assert_eq!((world.machine.status().preparations, world.binds.len()), (1, 0));
    world.now_ms += 300;
    world.give_out("Second", "l0", true);
    assert_eq!(world.binds.len(), 0, "the first plugin waits still");
    world.now_ms += 200;
    world.give_out("First", "l0", true);
    let binding = world.binds.front().expect("both have what they waited for");
    assert_eq!((binding.prepared_ms, &*binding.pre_bound), (Some(500), &[("Second", 300), ("First", 500)][..]));
    world.settle();
    assert_eq!((world.place_of("p"), log.take()), (Some("n1"), Vec::new()), "nothing is taken back");
}

#[test]
fn a_reserve_that_fails_is_told_in_upstreams_words_and_leaves_nothing_reserved() {
    let (mut world, log) = world(1);
    world.unstore(&key("Second", "l0"));
    world.pod(licensed("p"));
    world.settle();
    assert_eq!(world.error(), Some("running Reserve plugin \"Second\": no licence is left"));
    assert_eq!(log.take(), ["First plans for p", "Second plans for p"]);
    assert_eq!((world.pre_binds.len(), world.machine.status().pods_backoff), (0, 1));
}

#[test]
fn a_write_that_fails_is_its_plugins_and_all_is_taken_back_in_reverse_order() {
    for (taken, plugin) in [(0, "First"), (1, "Second")] {
        let (mut world, log) = world(1);
        world.pod(licensed("p"));
        world.run_workers();
        world.run_workers();
        drop(log.take());
        world.answer(taken, Some("etcd is away"));
        assert_eq!(world.error(), Some(&*format!("running PreBind plugin \"{plugin}\": etcd is away")));
        assert_eq!(log.take()[..2], ["Second unreserves l0", "First unreserves l0"]);
        let told: Vec<_> =
            world.unreserves.iter().map(|one| (one.plugin, &*one.pod.name, &*one.writes[0].resource_version)).collect();
        let expected = [("First", "p", "100")];
        assert_eq!(told, expected[..taken], "what was written is taken back by a write");
        assert_eq!(world.machine.census().pre_bind_failures.get(plugin), Some(&1));
    }
}

#[test]
fn each_plugin_has_its_own_deadline_and_its_own_words() {
    let (mut world, log) = world(1);
    world.written("p");
    drop(log.take());
    world.advance(4_999);
    assert_eq!(world.error(), None);
    world.advance(1);
    assert_eq!(world.error(), Some("running PreBind plugin \"First\": licence l0 is not good yet"));
    assert_eq!(log.take()[..2], ["Second unreserves l0", "First unreserves l0"]);

    let (mut world, _) = self::world(1);
    world.written("p");
    world.advance(1_000);
    world.give_out("First", "l0", true);
    world.advance(8_999);
    assert_eq!((world.error(), world.machine.status().preparations), (None, 1));
    world.advance(1);
    assert_eq!(world.error(), Some("running PreBind plugin \"Second\": licence l0 is not good yet"));
}

#[test]
fn what_ends_the_wait_of_one_plugin_ends_that_of_all() {
    let (mut world, log) = world(1);
    world.written("p");
    drop(log.take());
    world.unstore(&key("Second", "l0"));
    assert_eq!(world.error(), Some("running PreBind plugin \"Second\": the licence is gone"));
    assert_eq!(log.take()[..2], ["Second unreserves l0", "First unreserves l0"]);
}

#[test]
fn a_bind_that_fails_takes_back_what_was_reserved() {
    let (mut world, log) = world(1);
    world.written("p");
    world.give_out("First", "l0", true);
    world.give_out("Second", "l0", true);
    drop(log.take());
    let binding = world.binds.pop_front().expect("it is to be bound");
    let failure = BindFailure::Error("etcd is away".to_owned());
    world.tell(Event::BindFailed { uid: binding.uid, failure });
    assert_eq!(log.take()[..2], ["Second unreserves l0", "First unreserves l0"]);
    assert_eq!(world.unreserves.len(), 2);
}

#[test]
fn a_pod_that_goes_gives_back_what_was_reserved_at_any_time() {
    for is_good in [false, true] {
        let (mut world, log) = world(1);
        world.written("p");
        if is_good {
            world.give_out("First", "l0", true);
            world.give_out("Second", "l0", true);
        }
        drop(log.take());
        world.delete_pod("uid-p");
        assert_eq!(log.take(), ["Second unreserves l0", "First unreserves l0"], "good: {is_good}");
        world.settle();
        assert_eq!(log.take(), Vec::<String>::new(), "and once only");
    }
}

#[test]
fn without_pre_bind_the_pod_is_bound_at_once() {
    let mut profile = profile();
    profile.plugins.pre_bind.clear();
    let (mut world, log) = world_with(profile, 1);
    world.pod(licensed("p"));
    world.run_workers();
    world.run_workers();
    assert_eq!((world.pre_binds.len(), world.binds.len()), (0, 1));
    drop(log.take());
    world.settle();
    assert_eq!((world.place_of("p"), log.take()), (Some("n1"), Vec::new()));
}

#[test]
fn for_a_pod_that_uses_no_objects_no_plugin_is_asked() {
    let (mut world, log) = world(0);
    world.pod(pod("p").build());
    world.settle();
    assert_eq!((world.place_of("p"), log.take()), (Some("n1"), Vec::new()));
}

#[test]
fn a_leader_that_has_lost_the_lead_keeps_nothing_reserved_and_writes_nothing() {
    let (mut world, log) = world(1);
    world.written("p");
    drop(log.take());
    world.tell(Event::Following);
    assert_eq!(log.take(), ["Second unreserves l0", "First unreserves l0"]);
    assert!(world.unreserves.is_empty());
}
