//! Pods with unbound volumes, and pods next to them.

use std::sync::Arc;

use flotilla_framework::{
    extension::objects::{Patch, Write},
    testing::{node, pod},
    volumes::objects::{AccessModes, BindingMode, Claim, StorageKey, StorageKind, StorageObject, Volume},
};
use flotilla_machine::{
    action::{Nomination, PreBind, Reason},
    event::{Configuration, Event},
};

use crate::{
    storage::{claim, claim_key, class, ephemeral_pod, local_volume, pod_with, profile, with_claims},
    world::World,
};

const BIND_TIMEOUT_MS: u64 = 600_000;
const PREFIX: &str = "running PreBind plugin \"VolumeBinding\": ";

/// Two nodes, and a volume on each of these.
fn world(volumes: &[(&str, &str)]) -> World {
    let mut world = World::with_volumes(2);
    world.node(node("n1").build());
    world.node(node("n2").build());
    for (name, node) in volumes {
        world.store_volume(local_volume(name, node));
    }
    world.settle();
    world
}

/// The claim that a write reserves a volume for, its UID, and whether a controller is marked as the author.
fn set_aside_for(patch: &Patch) -> (&str, &str, bool) {
    let Patch::SetAside { claim, bound_by_controller, .. } = patch else { panic!("{patch:?} is for a claim") };
    (&claim.name, &claim.uid, *bound_by_controller)
}

impl World {
    /// Settles everything except binds and the writes before them.
    fn settle_without_writes(&mut self) {
        loop {
            let ids: Vec<_> = self.workers.keys().copied().collect();
            let mut busy = false;
            for id in ids {
                busy |= self.run_worker(id);
            }
            while self.run_watch() || self.run_storage_watch() {
                busy = true;
            }
            if !busy {
                return;
            }
        }
    }

    fn waits_for_volumes(&self) -> u64 {
        self.machine.status().preparations
    }

    fn failed(&self, pod: &str, error: &str) -> bool {
        let report = self.reports.iter().rev().find(|report| &*report.name == pod);
        report.is_some_and(|report| {
            report.reason == Reason::SchedulerError && report.message == format!("{PREFIX}{error}")
        })
    }
}

#[test]
fn a_volume_is_set_aside_then_waited_for_and_only_then_the_pod_is_bound() {
    let mut world = world(&[("disk", "n2")]);
    world.store_claim(claim("data", "local"));
    world.pod(pod_with("web", &["data"]));
    world.settle_without_writes();
    let [PreBind { writes, node, .. }] = world.pre_binds.make_contiguous() else {
        panic!("one pod's writes, not {:?}", world.pre_binds);
    };
    let [Write { object, uid, patch, .. }] = &**writes else { panic!("one write, not {writes:?}") };
    assert_eq!((&**node, &**object.name(), &**uid), ("n2", "disk", "volume-disk"));
    assert_eq!(set_aside_for(patch), ("data", "claim-data", true));
    world.settle();
    assert_eq!(world.claim_of("disk"), Some("data"));
    assert!(world.bound.is_empty() && world.waits_for_volumes() == 1, "the claim is not bound yet");
    world.run_volume_controller();
    world.settle();
    assert_eq!((world.place_of("web"), world.waits_for_volumes()), (Some("n2"), 0));
}

#[test]
fn the_machine_waits_for_writes_once_it_has_tried_every_pod() {
    let mut world = world(&[("disk", "n2")]);
    world.store_claim(claim("data", "local"));
    world.pod(pod_with("web", &["data"]));
    assert!(!world.machine.waits_for_writes(), "the pod is to be tried");
    world.settle_without_writes();
    assert!(world.machine.waits_for_writes() && world.bound.is_empty(), "only the answer to the write can help");
    world.settle();
    assert!(world.machine.waits_for_writes() && world.bound.is_empty(), "only a controller can help");
    world.run_volume_controller();
    world.settle();
    assert!(world.machine.waits_for_writes() && world.place_of("web").is_some());
}

#[test]
fn a_volume_that_was_reserved_by_hand_is_not_marked_as_chosen_by_a_controller() {
    let mut world = world(&[]);
    let reference = flotilla_framework::volumes::objects::ClaimReference {
        namespace: "default".into(),
        name: "data".into(),
        uid: Arc::default(),
    };
    world.store_volume(Volume { claim: Some(reference), ..local_volume("disk", "n1") });
    world.store_claim(claim("data", "local"));
    world.pod(pod_with("web", &["data"]));
    world.settle_without_writes();
    assert_eq!(set_aside_for(&world.pre_binds[0].writes[0].patch), ("data", "claim-data", false));
}

#[test]
fn a_pod_whose_claims_are_all_bound_is_bound_at_once() {
    let mut world = world(&[("disk", "n2")]);
    world.store_claim(claim("data", "local"));
    world.controlled = true;
    world.pod(pod_with("first", &["data"]));
    world.settle();
    assert_eq!(world.place_of("first"), Some("n2"));
    world.controlled = false;
    world.pod(pod_with("second", &["data"]));
    world.settle();
    assert_eq!(world.place_of("second"), Some("n2"), "where the volume is");
}

#[test]
fn a_provisioner_is_told_the_node_and_the_pod_follows_its_volume() {
    let mut world = world(&[]);
    world.store_claim(claim("data", "made"));
    world.pod(pod_with("web", &["data"]));
    world.settle();
    let node = world.selected_node("data").expect("a node was selected").to_owned();
    assert!(world.bound.is_empty());
    world.run_volume_controller();
    world.settle();
    assert_eq!(world.place_of("web"), Some(&*node));
}

#[test]
fn a_write_that_fails_is_told_in_the_servers_words_and_the_pod_is_tried_again() {
    let mut world = world(&[("disk", "n2")]);
    world.store_claim(claim("data", "local"));
    world.pod(pod_with("web", &["data"]));
    world.settle_without_writes();
    world.refuse_pre_bind("etcd is away");
    assert!(world.failed("web", "etcd is away"), "{:?}", world.message_of("web"));
    assert_eq!((world.waits_for_volumes(), world.machine.status().pods_backoff), (0, 1));
    let report = world.reports.last().expect("it was told");
    assert!(report.nomination == Nomination::Clear, "its node was announced: {report:?}");
    world.controlled = true;
    world.advance(2_000);
    assert_eq!(world.place_of("web"), Some("n2"));
}

#[test]
fn without_the_announcement_of_its_node_a_failed_pod_has_no_nomination_to_clear() {
    let mut world = world(&[("disk", "n2")]);
    let quiet = Configuration { announces_nodes: false, ..Configuration::new(2, vec![profile()]) };
    world.tell(Event::Configured(Arc::new(quiet)));
    world.store_claim(claim("data", "local"));
    world.pod(pod_with("web", &["data"]));
    world.settle_without_writes();
    assert!(world.pre_binds.iter().all(|pre_bind| !pre_bind.is_announced));
    world.refuse_pre_bind("etcd is away");
    assert!(world.failed("web", "etcd is away"), "{:?}", world.message_of("web"));
    let report = world.reports.last().expect("it was reported");
    assert_eq!(report.nomination, Nomination::Keep);
}

#[test]
fn a_volume_that_changed_since_the_decision_is_not_written_and_the_next_attempt_sees_it_as_it_is() {
    let mut world = world(&[("disk", "n1"), ("other", "n2")]);
    world.store_claim(claim("data", "local"));
    world.pod(pod_with("web", &["data"]));
    world.settle_without_writes();
    let taken = world.pre_binds[0].writes[0].object.name().to_string();
    let theirs = flotilla_framework::volumes::objects::ClaimReference {
        namespace: "default".into(),
        name: "theirs".into(),
        uid: "claim-theirs".into(),
    };
    let volume = world.volume(&taken).cloned().expect("it is there");
    world.store_volume(Volume { claim: Some(theirs), is_available: false, ..volume });
    world.run_pre_bind();
    assert!(world.failed("web", &format!("conflict on volume {taken}")));
    world.controlled = true;
    world.store_claim(Claim { uid: "claim-theirs".into(), ..claim("theirs", "local") });
    world.advance(2_000);
    assert_eq!(world.claim_of(if taken == "disk" { "other" } else { "disk" }), Some("data"));
    assert!(world.place_of("web").is_some());
}

#[test]
fn a_pod_that_waits_too_long_for_the_controller_is_told_so_and_tried_again() {
    let mut world = world(&[("disk", "n2")]);
    world.store_claim(claim("data", "local"));
    world.pod(pod_with("web", &["data"]));
    world.settle();
    world.advance(BIND_TIMEOUT_MS - 1);
    assert_eq!((world.waits_for_volumes(), world.reports.len()), (1, 0));
    world.advance(1);
    assert!(world.failed("web", "binding volumes: context deadline exceeded"), "{:?}", world.message_of("web"));
    // Writes persist: the next attempt has nothing to write and waits at once.
    let before = world.last_version;
    world.advance(2_000);
    assert_eq!((world.waits_for_volumes(), world.last_version), (1, before));
    world.run_volume_controller();
    world.settle();
    assert_eq!(world.place_of("web"), Some("n2"));
}

#[test]
fn a_provisioner_that_gives_up_has_the_pod_tried_elsewhere() {
    let mut world = world(&[]);
    world.store_claim(claim("data", "made"));
    world.pod(pod_with("web", &["data"]));
    world.settle();
    let first = world.selected_node("data").expect("a node was selected").to_owned();
    // The provisioner reports that the node has no capacity; then some is freed.
    world.node(node(&first).cordon().build());
    let refused = Claim { selected_node: None, ..world.claim("data").cloned().expect("it is there") };
    world.store_claim(refused);
    world.settle();
    let expected = "binding volumes: selectedNode annotation reset for PVC \"data\"";
    assert!(world.failed("web", expected), "{:?}", world.message_of("web"));
    world.controlled = true;
    world.advance(2_000);
    assert!(world.place_of("web").is_some_and(|second| second != first), "{:?}", world.bound);
}

#[test]
fn a_claim_a_volume_or_a_node_that_goes_ends_the_wait() {
    type Loss = fn(&mut World);
    let losses: [(Loss, &str); 4] = [
        (
            |world| world.unstore(&claim_key("data")),
            "failed to check binding: persistentvolumeclaims \"default/data\" not found",
        ),
        (
            |world| {
                let kind = StorageKind::Volume;
                world.unstore(&StorageKey { kind, namespace: Arc::default(), name: "disk".into() });
            },
            "failed to check binding: persistentvolumes \"disk\" not found",
        ),
        (
            |world| {
                let volume = world.volume("disk").cloned().expect("it is there");
                world.store_volume(Volume { claim: None, ..volume });
            },
            "ClaimRef got reset for pv \"disk\"",
        ),
        (
            |world| world.tell(Event::NodeDeleted { name: "n2".into() }),
            "failed to get node \"n2\": node \"n2\" not found",
        ),
    ];
    for (lose, error) in losses {
        let mut world = world(&[("disk", "n2")]);
        world.store_claim(claim("data", "local"));
        world.pod(pod_with("web", &["data"]));
        world.settle();
        assert_eq!(world.waits_for_volumes(), 1);
        lose(&mut world);
        world.settle();
        assert!(world.failed("web", &format!("binding volumes: {error}")), "{:?}", world.message_of("web"));
        assert_eq!((world.waits_for_volumes(), world.machine.status().pods_backoff), (0, 1), "{error}");
    }
}

#[test]
fn a_node_whose_labels_leave_the_reach_of_the_volume_ends_the_wait() {
    let mut world = world(&[("disk", "n2")]);
    world.store_claim(claim("data", "local"));
    world.pod(pod_with("web", &["data"]));
    world.settle();
    let mut moved = node("n2").build();
    moved.labels = vec![("kubernetes.io/hostname".into(), "elsewhere".into())];
    world.node(moved);
    let error = "binding volumes: pv \"disk\" node affinity doesn't match node \"n2\": no matching NodeSelectorTerms";
    assert!(world.failed("web", error), "{:?}", world.message_of("web"));
}

#[test]
fn a_pod_that_goes_before_anything_is_written_gives_its_volume_to_the_next() {
    let mut world = world(&[("disk", "n2")]);
    world.store_claim(claim("data", "local"));
    world.store_claim(claim("other", "local"));
    world.pod(pod_with("first", &["data"]));
    world.settle_without_writes();
    world.pod(pod_with("second", &["other"]));
    world.settle_without_writes();
    let refusal = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind.";
    assert_eq!(world.message_of("second"), Some(refusal));
    world.delete_pod("uid-first");
    let late = world.pre_binds.pop_front().expect("the writes of the first");
    world.controlled = true;
    world.settle();
    world.advance(2_000);
    assert_eq!(world.place_of("second"), None, "the volume may be the first claim's by now");
    let (uid, id) = (late.uid, late.id);
    world.tell(Event::Written { uid, id, versions: Vec::new(), failure: Some("conflict".to_owned()) });
    world.settle();
    world.advance(2_000);
    assert_eq!((world.claim_of("disk"), world.place_of("second")), (Some("other"), Some("n2")));
    assert_eq!(world.waits_for_volumes(), 0, "no pod waits for an answer that comes too late");
}

#[test]
fn of_two_pods_that_race_for_one_volume_one_gets_it_and_the_other_waits_for_another() {
    let mut world = world(&[("disk", "n2")]);
    world.controlled = true;
    world.store_claim(claim("one", "local"));
    world.store_claim(claim("two", "local"));
    world.pod(pod_with("first", &["one"]));
    world.pod(pod_with("second", &["two"]));
    world.settle();
    assert_eq!((world.place_of("first"), world.place_of("second")), (Some("n2"), None));
    world.store_volume(local_volume("late", "n1"));
    world.settle();
    world.advance(2_000);
    assert_eq!(world.place_of("second"), Some("n1"), "{:?}", world.message_of("second"));
}

#[test]
fn what_was_written_before_a_failure_stays_promised_and_the_rest_does_not() {
    let mut world = world(&[("a", "n1"), ("b", "n1")]);
    world.store_claim(claim("one", "local"));
    world.store_claim(claim("two", "local"));
    world.pod(pod_with("web", &["one", "two"]));
    world.settle_without_writes();
    let binding = world.pre_binds.pop_front().expect("writes");
    let half = PreBind { writes: binding.writes[..1].to_vec(), ..binding.clone() };
    world.store_claim(claim("three", "local"));
    world.storage_lags = true;
    let (versions, _) = world.write(&half);
    let (kept, freed) =
        (set_aside_for(&binding.writes[0].patch).0.to_owned(), binding.writes[1].object.name().to_string());
    // The watch has not shown it when the answer arrives.
    let failure = Some("etcd is away".to_owned());
    world.tell(Event::Written { uid: binding.uid, id: binding.id, versions, failure });
    world.pod(pod_with("other", &["three"]));
    world.run_workers();
    world.run_workers();
    let next = world.pre_binds.front().expect("the other pod's writes");
    assert_eq!(**next.writes[0].object.name(), *freed, "{next:?}");
    world.storage_lags = false;
    world.controlled = true;
    world.settle();
    world.store_volume(local_volume("c", "n1"));
    world.advance(10_000);
    assert!(world.claim(&kept).is_some_and(|claim| claim.bind_completed));
    assert!(world.place_of("web").is_some() && world.place_of("other").is_some(), "{:?}", world.reports);
}

/// The backup was made before the pod's writes; then after them.
#[test]
fn a_pod_that_waits_for_its_volume_is_tried_anew_when_the_cluster_has_gone_back() {
    for is_written in [false, true] {
        let mut world = world(&[("disk", "n2")]);
        world.store_claim(claim("data", "local"));
        let mut backup = (world.storage.clone(), world.last_version);
        world.pod(pod_with("web", &["data"]));
        world.settle();
        if is_written {
            backup = (world.storage.clone(), world.last_version);
        }
        // Missing in the backup.
        world.store_volume(local_volume("lost", "n1"));
        assert_eq!(world.waits_for_volumes(), 1);
        (world.storage, world.last_version) = backup;
        world.tell(Event::ObjectsWentBack);
        let told: Vec<StorageObject> = world.storage.values().cloned().collect();
        told.into_iter().for_each(|object| world.tell(Event::ObjectApplied(object.into())));
        let lost = StorageKey { kind: StorageKind::Volume, namespace: "".into(), name: "lost".into() };
        world.tell(Event::ObjectDeleted(lost.into()));
        assert_eq!(world.waits_for_volumes(), 0, "what it waits for may never come");
        world.controlled = true;
        world.advance(10_000);
        assert_eq!((world.claim_of("disk"), world.place_of("web")), (Some("data"), Some("n2")), "{is_written}");
    }
}

/// The watch has not shown the writes, so only a relist can show that they were reverted.
#[test]
fn a_pod_that_waits_for_its_volume_is_tried_anew_when_a_list_has_not_what_was_written() {
    for is_written in [false, true] {
        let mut world = world(&[("disk", "n2")]);
        world.store_claim(claim("data", "local"));
        let mut backup = (world.storage.clone(), world.last_version);
        world.pod(pod_with("web", &["data"]));
        world.settle();
        if is_written {
            backup = (world.storage.clone(), world.last_version);
        }
        assert_eq!(world.waits_for_volumes(), 1);
        (world.storage, world.last_version) = backup;
        let told: Vec<StorageObject> = world.storage.values().cloned().collect();
        let tell_all = |world: &mut World| {
            told.iter().for_each(|object| world.tell(Event::ObjectApplied(object.clone().into())));
        };
        tell_all(&mut world);
        assert_eq!(world.waits_for_volumes(), 1, "a watch that lags behind");
        for kind in [StorageKind::Claim, StorageKind::Volume] {
            world.tell(Event::StorageRelisted(kind));
        }
        tell_all(&mut world);
        assert_eq!(world.waits_for_volumes(), u64::from(is_written), "{is_written}");
        world.controlled = true;
        world.advance(10_000);
        assert_eq!((world.claim_of("disk"), world.place_of("web")), (Some("data"), Some("n2")), "{is_written}");
    }
}

#[test]
fn a_new_leader_goes_on_where_the_one_before_ended() {
    // The end of the history: after the writes, or after the controller bound the claim.
    for is_bound in [false, true] {
        let mut before = world(&[("disk", "n2")]);
        before.store_claim(claim("data", "local"));
        before.store_claim(claim("made", "made"));
        before.pod(pod_with("web", &["data", "made"]));
        before.settle();
        assert_eq!(before.waits_for_volumes(), 1);
        if is_bound {
            before.run_volume_controller();
        }
        let mut after = World::with_volumes(2);
        after.node(node("n1").build());
        after.node(node("n2").build());
        after.last_version = before.last_version;
        for object in before.storage.values() {
            after.storage.insert(object.key(), object.clone());
            after.storage_watch.push_back(Event::ObjectApplied(object.clone().into()));
        }
        after.settle();
        after.pod(pod_with("web", &["data", "made"]));
        after.settle_without_writes();
        let written = |pre_bind: &PreBind| pre_bind.writes.is_empty();
        assert!(after.pre_binds.iter().all(written), "everything is written: {:?}", after.pre_binds);
        assert_eq!(after.waits_for_volumes(), u64::from(!is_bound));
        after.controlled = true;
        after.settle();
        assert_eq!(after.place_of("web"), Some("n2"));
    }
}

#[test]
fn a_former_leader_waits_for_no_volumes_and_keeps_nothing_reserved() {
    let mut world = world(&[("disk", "n2")]);
    world.store_claim(claim("data", "local"));
    world.pod(pod_with("web", &["data"]));
    world.settle_without_writes();
    world.tell(Event::Following);
    assert_eq!((world.waits_for_volumes(), world.machine.next_wakeup().is_some()), (0, true));
    world.controlled = true;
    world.settle();
    assert!(world.bound.is_empty(), "{:?}", world.bound);
    world.tell(Event::Leading { epoch: 2 });
    world.join("worker-of-the-second");
    world.settle();
    assert_eq!(world.place_of("web"), Some("n2"));
}

#[test]
fn pods_that_wait_for_their_volumes_keep_no_pod_from_being_bound() {
    let mut world = World::dormant(Vec::new());
    let configuration = Configuration { max_binds_in_flight: 1, ..Configuration::new(2, vec![profile()]) };
    world.tell(Event::Configured(Arc::new(configuration)));
    world.tell(Event::Synced);
    world.tell(Event::Leading { epoch: 1 });
    world.join("worker-0");
    world.node(node("n1").build());
    world.store(class("made", BindingMode::WaitForFirstConsumer));
    for index in 0..5 {
        world.store_claim(claim(&format!("data-{index}"), "made"));
        world.pod(pod_with(&format!("slow-{index}"), &[&format!("data-{index}")]));
    }
    world.pod(pod("quick").build());
    world.settle();
    assert_eq!(world.waits_for_volumes(), 5);
    assert_eq!(world.place_of("quick"), Some("n1"));
    world.controlled = true;
    world.settle();
    assert_eq!(world.bound.len(), 6, "{:?}", world.bound);
}

#[test]
fn a_pod_holds_its_node_while_its_volumes_are_bound() {
    let mut world = World::with_volumes(1);
    world.node(node("n1").capacity("cpu", "1").build());
    world.store_claim(claim("data", "made"));
    world.pod(with_claims(pod("slow").request("cpu", "1"), &["data"]).build());
    world.settle();
    world.pod(pod("quick").request("cpu", "1").build());
    world.settle();
    assert_eq!(world.message_of("quick"), Some("0/1 nodes are available: 1 Insufficient cpu."));
    // Its provisioner fails; when it is retried, the other volume exists.
    let refused = Claim { selected_node: None, ..world.claim("data").cloned().expect("it is there") };
    world.store_claim(refused);
    world.advance(2_000);
    assert_eq!(world.place_of("quick"), Some("n1"), "the room that was given up wakes who waits for it");
}

#[test]
fn claims_that_are_bound_at_once_wake_the_pod_when_they_are() {
    let mut world = world(&[]);
    world.store_claim(claim("data", "at-once"));
    world.pod(pod_with("web", &["data"]));
    world.settle();
    let refusal = "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.";
    assert!(world.message_of("web").is_some_and(|message| message.starts_with(refusal)), "{:?}", world.reports);
    world.store_volume(Volume { storage_class: "at-once".into(), ..local_volume("disk", "n1") });
    world.run_volume_controller();
    world.settle();
    world.advance(2_000);
    assert_eq!(world.place_of("web"), Some("n1"));
}

#[test]
fn a_claim_for_one_pod_alone_is_passed_on_when_that_pod_ends() {
    let mut world = world(&[("disk", "n2")]);
    world.controlled = true;
    world.store_claim(Claim { access_modes: AccessModes::READ_WRITE_ONCE_POD, ..claim("data", "local") });
    world.store_volume(Volume { access_modes: AccessModes::READ_WRITE_ONCE_POD, ..local_volume("exclusive", "n1") });
    world.settle();
    world.pod(pod_with("first", &["data"]));
    world.settle();
    assert_eq!(world.place_of("first"), Some("n1"));
    world.pod(pod_with("second", &["data"]));
    world.settle();
    assert!(world.message_of("second").is_some_and(|message| message.contains("ReadWriteOncePod")));
    world.delete_pod("uid-first");
    world.settle();
    world.advance(2_000);
    assert_eq!(world.place_of("second"), Some("n1"));
}

#[test]
fn an_ephemeral_volume_is_waited_for_from_its_claim_on() {
    let mut world = world(&[]);
    world.controlled = true;
    world.pod(ephemeral_pod("web", "scratch"));
    world.settle();
    let expected = "waiting for ephemeral volume controller to create the persistentvolumeclaim \"web-scratch\"";
    assert!(world.message_of("web").is_some_and(|message| message.contains(expected)), "{:?}", world.message_of("web"));
    world.store_claim(Claim { owner_pod: Some("uid-web".into()), ..claim("web-scratch", "made") });
    world.settle();
    world.advance(2_000);
    assert!(world.place_of("web").is_some());
}

#[test]
fn however_many_workers_there_are_the_pods_and_their_volumes_go_to_the_same_places() {
    let places = |workers: usize| {
        let mut world = World::with_volumes(workers);
        world.advance(2_000);
        for index in 0..12 {
            let zone = ["a", "b", "c"][index % 3];
            world.node(node(&format!("n{index}")).label("zone", zone).build());
            let attached = flotilla_framework::volumes::objects::CsiNode {
                name: format!("n{index}").into(),
                drivers: vec![("example.com/disk".into(), Some(2))],
                migrated_plugins: Vec::new(),
            };
            world.store(StorageObject::CsiNode(attached));
            if index % 2 == 0 {
                world.store_volume(local_volume(&format!("disk-{index}"), &format!("n{index}")));
            }
        }
        for index in 0..40 {
            let class = ["local", "made", "made"][index % 3];
            let name = format!("data-{index}");
            world.store_claim(claim(&name, class));
            world.pod(with_claims(pod(&format!("p{index}")).request("cpu", "300m"), &[&name]).build());
        }
        world.settle_without_writes();
        // Decisions from here on depend on the order of events.
        let decided: Vec<_> = world
            .pre_binds
            .iter()
            .map(|binding| {
                let volume = binding.writes.first().map(|write| write.object.name().to_string());
                (binding.name.to_string(), binding.node.to_string(), volume)
            })
            .collect();
        world.controlled = true;
        world.settle();
        for (pod, node, _) in &decided {
            assert_eq!(world.place_of(pod), Some(&**node));
        }
        decided
    };
    let alone = places(0);
    assert_eq!(alone.len(), 6 + 2 * 12, "a volume on every other node, and two that each driver can attach: {alone:?}");
    for workers in [1, 2, 7] {
        assert_eq!(places(workers), alone, "{workers} workers");
    }
}
