//! Cases of upstream's volume_restrictions_test.go.

use crate::{
    class::ClassId,
    extension::{ClusterEvent, Facts},
    node::NodeId,
    prepared::{NodeResult, Prepared},
    registry::Registry,
    status::Code,
    testing::{
        PodBuilder,
        checks::{Said, alone, snapshot, unschedulable},
        node, pod, profile,
        storage::{bound, claim, standing, stored},
    },
    volumes::{
        mounts::{Disk, Inline, Mount},
        objects::{AccessModes, Claim, StorageObject},
    },
};

const NAME: &str = "VolumeRestrictions";

fn with(disk: Disk) -> PodBuilder {
    pod("p").mount(Mount::Inline(Inline { disk: Some(disk), in_tree: None }))
}

fn gce(name: &str, read_only: bool) -> PodBuilder {
    with(Disk::GcePersistentDisk { name: name.into(), read_only })
}

fn rbd(monitors: &[&str], image: &str, read_only: bool) -> PodBuilder {
    let monitors = monitors.iter().map(|&monitor| monitor.into()).collect();
    with(Disk::Rbd { monitors, pool: "rbd".into(), image: image.into(), read_only })
}

fn ebs(volume: &str) -> PodBuilder {
    with(Disk::AwsElasticBlockStore { volume: volume.into() })
}

fn iscsi(iqn: &str, read_only: bool) -> PodBuilder {
    with(Disk::Iscsi { iqn: iqn.into(), read_only })
}

fn exclusive(name: &str) -> Claim {
    Claim { access_modes: AccessModes::READ_WRITE_ONCE_POD, ..claim(name) }
}

#[test]
fn two_pods_that_write_to_a_disk_cannot_share_a_node() {
    let table = [
        ("the same GCE disk", gce("a", false), gce("a", false), false),
        ("the same GCE disk, one reads", gce("a", true), gce("a", false), false),
        ("the same GCE disk, both read", gce("a", true), gce("a", true), true),
        ("another GCE disk", gce("a", false), gce("b", false), true),
        ("the same EBS disk", ebs("a"), ebs("a"), false),
        ("another EBS disk", ebs("a"), ebs("b"), true),
        ("the same iSCSI disk", iscsi("a", false), iscsi("a", true), false),
        ("the same iSCSI disk, both read", iscsi("a", true), iscsi("a", true), true),
        ("the same RBD image by one monitor of two", rbd(&["m", "n"], "a", false), rbd(&["n", "o"], "a", true), false),
        ("the same RBD image, both read", rbd(&["m"], "a", true), rbd(&["m"], "a", true), true),
        ("an RBD image of the name elsewhere", rbd(&["m"], "a", false), rbd(&["o"], "a", false), true),
        ("disks of different kinds", gce("a", false), ebs("a"), true),
        ("no disk there", gce("a", false), pod("q"), true),
    ];
    for (case, wanting, standing, suits) in table {
        let expected: Said = if suits { Ok(()) } else { unschedulable(&["node(s) had no available disk"]) };
        assert_eq!(alone(NAME).filter(&wanting, &node("n"), &[standing]), expected, "{case}");
    }
}

#[test]
fn a_claim_of_one_pod_keeps_others_from_every_node() {
    let storage = stored([StorageObject::Claim(exclusive("data")), StorageObject::Claim(claim("shared"))]);
    for (case, claim, in_use) in [("exclusive", "data", true), ("shared", "shared", false)] {
        let (wanting, user) = (pod("p").claim(claim).into_class(), pod("q").claim(claim).into_class());
        let nodes = [(node("a"), vec![pod("q").claim(claim)]), (node("b"), vec![])];
        let nodes = snapshot(&nodes);
        let volumes = storage.facts(&wanting, &standing(&storage, [(ClassId(1), &user)]));
        let facts = Facts { volumes, ..Facts::default() };
        let mut profile = profile();
        profile.plugins.pre_filter.retain(|name| name == NAME);
        profile.plugins.filter.retain(|name| name == NAME);
        let prepared = Prepared::new(Registry::built_in(), &profile, &wanting, &facts, &nodes);
        for id in [NodeId(0), NodeId(1)] {
            let slot = nodes.slot(id).expect("a node");
            let refused = match prepared.judge(&nodes, slot) {
                NodeResult::Refused(order, refusal) => Some((refusal.code, prepared.reasons(order, refusal.detail))),
                NodeResult::Feasible(_) => None,
            };
            let words = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already \
                         in-use by another pod";
            assert_eq!(refused, in_use.then(|| (Code::Unschedulable, vec![words.to_owned()])), "{case}");
        }
    }
}

#[test]
fn a_pod_without_disks_and_contested_claims_is_passed_over() {
    let claims = || [StorageObject::Claim(exclusive("data")), StorageObject::Claim(claim("shared"))];
    let table = [
        (pod("p"), "skip"),
        (pod("p").claim("shared"), "skip"),
        (pod("p").claim("data"), "skip"),
        (gce("a", true), "continue"),
        (pod("p").claim("missing"), "refuse persistentvolumeclaim \"missing\" not found"),
        (pod("p").ephemeral("own"), "skip"),
    ];
    for (pod, expected) in table {
        assert_eq!(alone(NAME).storage(claims()).pre_filter(&pod), expected);
    }
}

#[test]
fn the_attempt_fails_where_pre_filter_does_not_run() {
    let words = "running \"VolumeRestrictions\" filter plugin: cannot read \"PreFilterVolumeRestrictions\" from \
                 cycleState";
    let alone = alone(NAME).without_pre_filter();
    assert_eq!(alone.filter(&pod("p"), &node("n"), &[]), Err((Code::Error, vec![words.to_owned()])));
    let conflict = unschedulable(&["node(s) had no available disk"]);
    assert_eq!(alone.filter(&gce("a", false), &node("n"), &[gce("a", false)]), conflict);
}

#[test]
fn a_pod_that_leaves_and_a_claim_that_comes_wake() {
    let wanting = gce("a", false).claim("data");
    let table = [
        ("the disk is free", gce("a", false), true),
        ("another disk is free", gce("b", false), false),
        ("the claim is free", pod("q").claim("data"), true),
        ("another claim is free", pod("q").claim("other"), false),
        ("the disk is free in another namespace", gce("a", false).namespace("other"), false),
        ("no volume", pod("q"), false),
    ];
    for (case, gone, expected) in table {
        assert_eq!(alone(NAME).wakes(ClusterEvent::PodRemoved(&gone.build().class), &wanting), expected, "{case}");
    }
    let elsewhere = Claim { namespace: "other".into(), ..claim("data") };
    let table = [
        ("its claim comes", None, claim("data"), true),
        ("its claim changes", Some(claim("data")), bound("data", "v"), false),
        ("another claim comes", None, claim("other"), false),
        ("a claim of its name elsewhere", None, elsewhere, false),
    ];
    for (case, old, new, expected) in table {
        let (old, new) = (old.map(StorageObject::Claim), StorageObject::Claim(new));
        let event = ClusterEvent::StorageChanged { old: old.as_ref(), new: Some(&new) };
        assert_eq!(alone(NAME).wakes(event, &wanting), expected, "{case}");
    }
    assert!(alone(NAME).wakes(ClusterEvent::NodeAdded(&node("n").build()), &wanting));
}
