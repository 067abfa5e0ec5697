//! Assumed pods of an attempt count for every plugin: members of a group before the next one, and nominated pods.

use std::sync::Arc;

use flotilla_framework::{
    class::PodInfo,
    pod_group::PodGroup,
    testing::{
        PodBuilder, node, pod, pod_group,
        storage::{csi_node, storage_class},
    },
    volumes::mounts::{Disk, Inline, Mount},
    volumes::objects::{AccessModes, Claim, ClaimReference, InTree, StorageObject, Volume, VolumeSource},
};
use flotilla_machine::event::Event;

use crate::{groups, storage, world::World};

const DRIVER: &str = "csi.example.com";
const MIGRATED: &str = "pd.csi.storage.gke.io";
const LIMIT: &str = "node(s) exceed max volume count";
const IN_USE: &str = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already \
                      in-use by another pod";

/// Nodes `n0`, `n1`..., with groups and volumes. Each node attaches one volume of each of two drivers.
fn world(workers: usize, nodes: usize) -> World {
    let mut configuration = groups::configuration(2);
    let stock = configuration.profiles[0].plugins.clone();
    let mut profile = storage::profile();
    profile.plugins.pre_enqueue = stock.pre_enqueue;
    profile.plugins.permit = stock.permit;
    profile.plugins.pod_group_post_filter = stock.pod_group_post_filter;
    configuration.profiles = vec![profile].into();
    let mut world = World::with_volumes(workers);
    world.tell(Event::Configured(Arc::new(configuration)));
    world.store(StorageObject::StorageClass(storage_class("", "kubernetes.io/no-provisioner")));
    for index in 0..nodes {
        let name = format!("n{index}");
        let mut csi = csi_node(&name, &[(DRIVER, Some(1)), (MIGRATED, Some(1))]);
        csi.migrated_plugins.push("kubernetes.io/gce-pd".into());
        world.store(StorageObject::CsiNode(csi));
        world.node(node(&name).build());
    }
    world.settle();
    // Without workers the coordinator waits for the grace period.
    world.advance(2_000);
    world
}

fn of_driver(handle: &str) -> VolumeSource {
    VolumeSource::Csi { driver: DRIVER.into(), handle: handle.into() }
}

fn migrated(handle: &str) -> VolumeSource {
    VolumeSource::InTree(InTree {
        plugin: "kubernetes.io/gce-pd".into(),
        driver: MIGRATED.into(),
        handle: Ok(handle.into()),
        node_affinity: None,
    })
}

impl World {
    fn bound_claim(&mut self, name: &str, modes: AccessModes, source: VolumeSource) {
        let volume_name: Arc<str> = format!("volume-of-{name}").into();
        let claim = Claim {
            volume_name: Arc::clone(&volume_name),
            bind_completed: true,
            access_modes: modes,
            ..storage::claim(name, "")
        };
        let reference = ClaimReference {
            namespace: Arc::clone(&claim.namespace),
            name: Arc::clone(&claim.name),
            uid: Arc::clone(&claim.uid),
        };
        self.store_volume(Volume {
            name: volume_name,
            access_modes: modes,
            claim: Some(reference),
            is_available: false,
            source,
            ..Volume::default()
        });
        self.store_claim(claim);
    }

    fn last_message_of(&self, pod: &str) -> Option<&str> {
        self.reports.iter().rev().find(|report| &*report.name == pod).map(|report| &*report.message)
    }

    fn gang(&mut self, group: PodGroup, members: impl IntoIterator<Item = PodInfo>) {
        self.tell(Event::PodGroupApplied(Arc::new(group)));
        self.settle();
        members.into_iter().for_each(|member| self.pod(member));
        self.settle();
    }
}

fn member(name: &str, claim: &str) -> PodBuilder {
    storage::with_claims(pod(name).group("g"), &[claim])
}

#[test]
fn the_volumes_and_claims_of_members_count_against_the_members_after_them() {
    let once = AccessModes::READ_WRITE_ONCE;
    let one_pod = AccessModes::READ_WRITE_ONCE_POD;
    let many = AccessModes::READ_WRITE_MANY;
    let two = [("c0", "v0"), ("c1", "v1")];
    let one = [("c0", "v0"), ("c0", "v0")];
    let source: [fn(&str) -> VolumeSource; 3] = [of_driver, migrated, |_| VolumeSource::Other];
    let [csi, in_tree, other] = source;
    // Case, the claims of the two members with their volumes, the claims' modes, the volumes' sources, the number of nodes, and the second
    // member's refusal, if any.
    for (about, claims, modes, source, nodes, refused) in [
        ("one claim for one pod", one, one_pod, other, 1, Some(IN_USE)),
        ("one claim for one pod, two nodes", one, one_pod, other, 2, Some(IN_USE)),
        ("two claims for one pod each", two, one_pod, other, 1, None),
        ("two volumes of a driver", two, once, csi, 1, Some(LIMIT)),
        ("two volumes of a driver, two nodes", two, once, csi, 2, None),
        ("one volume of a driver", one, many, csi, 1, None),
        ("two volumes of a migrated plugin", two, once, in_tree, 1, Some(LIMIT)),
    ] {
        for workers in [0, 1, 3] {
            let mut world = world(workers, nodes);
            for (claim, handle) in claims.iter().collect::<std::collections::BTreeSet<_>>() {
                world.bound_claim(claim, modes, source(handle));
            }
            let [a, b] = claims;
            world.gang(pod_group("g", Some(2)), [member("a", a.0).build(), member("b", b.0).build()]);
            let context = format!("{about}, {workers} workers");
            match refused {
                None => assert!(world.place_of("a").is_some() && world.place_of("b").is_some(), "{context}"),
                Some(reason) => {
                    assert!(world.bound.is_empty(), "{context}: {:?}", world.bound);
                    let expected = format!("0/{nodes} nodes are available: {nodes} {reason}.");
                    assert_eq!(world.last_message_of("b"), Some(&*expected), "{context}");
                }
            }
        }
    }
}

#[test]
fn a_group_that_was_refused_leaves_nothing_behind_that_counts() {
    for modes in [AccessModes::READ_WRITE_ONCE, AccessModes::READ_WRITE_ONCE_POD] {
        let mut world = world(2, 1);
        world.bound_claim("c0", modes, of_driver("v0"));
        world.bound_claim("c1", modes, of_driver("v1"));
        world.gang(pod_group("g", Some(2)), [member("a", "c0").build(), member("b", "c1").build()]);
        assert!(world.bound.is_empty());
        world.pod(storage::pod_with("single", &["c0"]));
        world.settle();
        assert_eq!(world.place_of("single"), Some("n0"));
    }
}

#[test]
fn a_group_gets_the_claims_and_volumes_of_the_pods_that_it_preempts() {
    for modes in [AccessModes::READ_WRITE_ONCE, AccessModes::READ_WRITE_ONCE_POD] {
        let mut world = world(1, 2);
        for (claim, handle) in [("c0", "v0"), ("c1", "v1"), ("c2", "v2"), ("c3", "v3")] {
            world.bound_claim(claim, modes, of_driver(handle));
        }
        for (name, claim, at) in [("low", "c2", "n0"), ("also", "c3", "n1")] {
            world.pod(storage::with_claims(pod(name).on(at), &[claim]).build());
        }
        world.settle();
        let members = [("a", "c0"), ("b", "c1")].map(|(name, claim)| member(name, claim).priority(10).build());
        world.gang(PodGroup { priority: 10, ..pod_group("g", Some(2)) }, members);
        world.advance(2_000);
        assert!(world.place_of("a").is_some() && world.place_of("b").is_some(), "{:?}", world.bound);
        assert_ne!(world.place_of("a"), world.place_of("b"));
    }
}

#[test]
fn the_volumes_of_a_nominated_pod_count_on_its_node() {
    for workers in [0, 2] {
        let mut world = world(workers, 1);
        world.bound_claim("c0", AccessModes::READ_WRITE_ONCE, of_driver("v0"));
        world.bound_claim("c1", AccessModes::READ_WRITE_ONCE, of_driver("v1"));
        world.bound_claim("c2", AccessModes::READ_WRITE_ONCE, VolumeSource::Other);
        let waiting = pod("first").priority(10).nominated("n0").gate("example.com/wait");
        world.pod(storage::with_claims(waiting, &["c0"]).build());
        world.settle();
        world.pod(storage::pod_with("second", &["c1"]));
        world.pod(storage::pod_with("other", &["c2"]));
        world.settle();
        let expected = format!("0/1 nodes are available: 1 {LIMIT}.");
        assert_eq!(world.last_message_of("second"), Some(&*expected), "{workers} workers");
        assert_eq!(world.place_of("other"), Some("n0"));
        let gone = pod("first").build().uid;
        world.delete_pod(&gone);
        world.settle();
        world.advance(2_000);
        assert_eq!(world.place_of("second"), Some("n0"), "{workers} workers");
    }
}

#[test]
fn a_group_preempts_the_pod_that_uses_its_claim() {
    let mut world = world(1, 2);
    world.bound_claim("c0", AccessModes::READ_WRITE_ONCE_POD, VolumeSource::Other);
    world.pod(storage::with_claims(pod("user").on("n0"), &["c0"]).build());
    world.pod(pod("bystander").on("n1").build());
    world.settle();
    let member = member("a", "c0").priority(10).build();
    world.gang(PodGroup { priority: 10, ..pod_group("g", Some(1)) }, [member]);
    world.advance(2_000);
    assert!(world.place_of("a").is_some(), "{:?}", world.reports);
    let gone: Vec<&str> =
        world.preemptions.iter().flat_map(|preemption| &preemption.victims).map(|victim| &*victim.pod.name).collect();
    assert!(!gone.contains(&"bystander"), "{gone:?}");
}

#[test]
fn a_group_preempts_the_user_of_an_exclusive_claim_on_another_node() {
    // VolumeRestrictions is skipped without an in-tree disk as long as no pod uses the claim.
    let disk = || {
        Mount::Inline(Inline {
            disk: Some(Disk::GcePersistentDisk { name: "d".into(), read_only: false }),
            in_tree: None,
        })
    };
    for has_disk in [true, false] {
        let mut world = world(1, 2);
        world.bound_claim("c0", AccessModes::READ_WRITE_ONCE_POD, VolumeSource::Other);
        // Without the user of the claim, its node is still too full for the member.
        world.pod(storage::with_claims(pod("user").request("cpu", "1").on("n1"), &["c0"]).build());
        world.pod(pod("spared").request("cpu", "1").on("n1").build());
        world.pod(pod("important").request("cpu", "2").priority(100).on("n1").build());
        world.settle();
        let member = storage::with_claims(pod("a").request("cpu", "3").priority(10).group("g"), &["c0"]);
        let member = if has_disk { member.mount(disk()) } else { member };
        world.gang(PodGroup { priority: 10, ..pod_group("g", Some(1)) }, [member.build()]);
        world.advance(2_000);
        let names: Vec<&str> = world.evicted.iter().flat_map(|(_, _, gone)| gone).map(String::as_str).collect();
        assert_eq!(names, ["user"], "{has_disk}");
        assert_eq!(world.place_of("a"), Some("n0"));
    }
}
