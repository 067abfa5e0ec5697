//! Cases of upstream's volume_binding_test.go that recorded clusters do not cover, and its hints.

use crate::{
    class::{NodeTerm, Requirement},
    extension::ClusterEvent,
    profile::ShapePoint,
    status::Code,
    testing::{
        checks::{Said, alone, unresolvable},
        node, pod,
        storage::{bound, claim, gibibytes, only_where, storage_class, volume},
    },
    volumes::{
        mounts::Mount,
        objects::{BindingMode, Claim, CsiDriver, CsiNode, StorageCapacity, StorageClass, StorageObject, Volume},
    },
};

const NAME: &str = "VolumeBinding";
const LOCAL: &str = "kubernetes.io/no-provisioner";

fn later(provisioner: &str) -> StorageObject {
    StorageObject::StorageClass(storage_class("later", provisioner))
}

#[test]
fn a_class_without_a_mode_fails_the_attempt() {
    let class = StorageClass { binding_mode: None, ..storage_class("later", LOCAL) };
    let objects = [StorageObject::Claim(claim("data")), StorageObject::StorageClass(class)];
    let said = alone(NAME).storage(objects).pre_filter(&pod("p").claim("data"));
    assert_eq!(said, "fail VolumeBindingMode not set for StorageClass \"later\"");
}

#[test]
fn a_claim_with_a_volume_that_is_not_bound_yet_is_waited_for() {
    let half = Claim { volume_name: "v".into(), ..claim("data") };
    let objects = [StorageObject::Claim(half), later(LOCAL)];
    let said = alone(NAME).storage(objects).pre_filter(&pod("p").claim("data"));
    assert_eq!(said, "refuse pod has unbound immediate PersistentVolumeClaims");
}

#[test]
fn the_smallest_volume_that_the_node_can_reach_decides_the_score() {
    let volumes = [("large", 10, "a"), ("small", 2, "b"), ("middle", 5, "a"), ("tiny", 1, "c")];
    let volumes = volumes.map(|(name, size, zone)| only_where(volume(name, gibibytes(size)), "zone", &[zone]));
    let objects = || {
        let volumes = volumes.clone().map(StorageObject::Volume);
        [StorageObject::Claim(claim("data")), later(LOCAL)].into_iter().chain(volumes)
    };
    let nodes = ["a", "b", "c"].map(|zone| (node(zone).label("zone", zone), Vec::new()));
    let scores = alone(NAME).storage(objects()).scores_after_filter(&pod("p").claim("data"), &nodes);
    // 1 GiB of 5, of 2 and of 1 in use; less is better.
    assert_eq!(scores, Some(vec![80, 50, 0]));
    let packing = [(0, 0), (100, 10)].map(|(utilization, score)| ShapePoint { utilization, score }).to_vec();
    let packed = alone(NAME).storage(objects()).args(|args| args.volume_binding.shape = packing);
    assert_eq!(packed.scores_after_filter(&pod("p").claim("data"), &nodes), Some(vec![20, 50, 100]));
    let unscored = alone(NAME).storage(objects()).args(|args| args.volume_binding.shape = Vec::new());
    assert_eq!(unscored.scores_after_filter(&pod("p").claim("data"), &nodes), None);
    assert_eq!(alone(NAME).scores_after_filter(&pod("p"), &nodes), Some(vec![0, 0, 0]), "no claims");
    let unfiltered = alone(NAME).storage(objects()).scores(&pod("p").claim("data"), &nodes);
    assert_eq!(unfiltered, Some(vec![0, 0, 0]), "without Filter nothing was found");
}

#[test]
fn one_volume_is_not_for_two_claims() {
    let two = || pod("p").claim("data").claim("more");
    let objects = |count: usize| {
        let volumes = ["v", "w"].into_iter().take(count).map(|name| StorageObject::Volume(volume(name, gibibytes(1))));
        [StorageObject::Claim(claim("data")), StorageObject::Claim(claim("more")), later(LOCAL)]
            .into_iter()
            .chain(volumes)
    };
    let refusal = unresolvable(&["node(s) didn't find available persistent volumes to bind"]);
    assert_eq!(alone(NAME).storage(objects(1)).filter(&two(), &node("n"), &[]), refusal);
    assert_eq!(alone(NAME).storage(objects(2)).filter(&two(), &node("n"), &[]), Ok(()));
}

#[test]
fn a_volume_that_asks_for_a_node_by_name_is_reached_from_everywhere() {
    let name = |operator: &str| Requirement {
        key: "metadata.name".into(),
        operator: operator.into(),
        values: vec!["another".into()],
    };
    for (operator, suits) in [("In", true), ("NotIn", true), ("Exists", false)] {
        let term = NodeTerm { expressions: Vec::new(), fields: vec![name(operator)] };
        let named = Volume { node_affinity: Some(vec![term]), ..volume("v", gibibytes(1)) };
        let objects = [StorageObject::Claim(bound("data", "v")), StorageObject::Volume(named)];
        let expected: Said =
            if suits { Ok(()) } else { unresolvable(&["node(s) didn't match PersistentVolume's node affinity"]) };
        assert_eq!(alone(NAME).storage(objects).filter(&pod("p").claim("data"), &node("n"), &[]), expected);
    }
}

#[test]
fn a_selector_that_cannot_be_read_fails_the_attempt() {
    let unreadable = Claim { selector: Some(Err("what is this".into())), ..claim("data") };
    let objects = [StorageObject::Claim(unreadable), later(LOCAL), StorageObject::Volume(volume("v", gibibytes(1)))];
    let error = "running \"VolumeBinding\" filter plugin: error creating internal label selector for claim: \
                 default/data: what is this";
    let said = alone(NAME).storage(objects).filter(&pod("p").claim("data"), &node("n"), &[]);
    assert_eq!(said, Err((Code::Error, vec![error.to_owned()])));
}

#[test]
fn without_pre_filter_the_attempt_fails_for_every_pod() {
    let alone = alone(NAME).without_pre_filter();
    let error = "running \"VolumeBinding\" filter plugin: not found".to_owned();
    assert_eq!(alone.filter(&pod("p"), &node("n"), &[]), Err((Code::Error, vec![error])));
    assert_eq!(alone.score_error(&pod("p")).as_deref(), Some("running PreScore plugin \"VolumeBinding\": not found"));
    let unscored = alone.args(|args| args.volume_binding.shape = Vec::new());
    assert_eq!(unscored.score_error(&pod("p")), None);
}

#[test]
fn where_a_room_only_tells_its_largest_volume_it_counts_as_full() {
    let room = StorageCapacity {
        namespace: "default".into(),
        name: "room".into(),
        storage_class: "later".into(),
        node_topology: Some(crate::labels::LabelSelector::EVERYTHING),
        capacity: None,
        maximum_volume_size: Some(gibibytes(4)),
    };
    let driver = CsiDriver { name: "csi.example.com".into(), storage_capacity: true, prevents_if_missing: false };
    let objects = [
        StorageObject::Claim(claim("data")),
        later("csi.example.com"),
        StorageObject::CsiDriver(driver),
        StorageObject::StorageCapacity(room),
    ];
    let nodes = [(node("n"), Vec::new())];
    assert_eq!(alone(NAME).storage(objects).scores_after_filter(&pod("p").claim("data"), &nodes), Some(vec![0]));
}

#[test]
fn every_event_that_may_bind_a_claim_wakes() {
    let wanting = pod("p").claim("data").ephemeral("own").mount(Mount::Csi("inline.example.com".into()));
    let zoned = StorageClass {
        allowed_topologies: vec![vec![("zone".into(), vec!["z1".into()])]],
        ..storage_class("later", LOCAL)
    };
    let immediate = StorageClass { binding_mode: Some(BindingMode::Immediate), ..storage_class("later", LOCAL) };
    let migrated = CsiNode { migrated_plugins: vec!["kubernetes.io/gce-pd".into()], ..CsiNode::default() };
    let driver = |name: &str, storage_capacity| {
        StorageObject::CsiDriver(CsiDriver { name: name.into(), storage_capacity, prevents_if_missing: false })
    };
    let room = |capacity: Option<i64>, largest: Option<i64>| {
        StorageObject::StorageCapacity(StorageCapacity {
            capacity: capacity.map(gibibytes),
            maximum_volume_size: largest.map(gibibytes),
            ..StorageCapacity::default()
        })
    };
    let (class, csi_node) = (StorageObject::StorageClass, StorageObject::CsiNode);
    let table: [(&str, Option<StorageObject>, StorageObject, bool); 18] = [
        ("a class comes", None, class(immediate.clone()), true),
        ("other topologies", Some(later(LOCAL)), class(zoned), true),
        ("another mode", Some(later(LOCAL)), class(immediate), false),
        ("its claim comes", None, StorageObject::Claim(claim("data")), true),
        (
            "its claim changes",
            Some(StorageObject::Claim(claim("data"))),
            StorageObject::Claim(bound("data", "v")),
            true,
        ),
        ("its own claim comes", None, StorageObject::Claim(claim("p-own")), true),
        ("another claim comes", None, StorageObject::Claim(claim("other")), false),
        ("any volume comes", None, StorageObject::Volume(Volume::default()), true),
        (
            "any volume changes",
            Some(StorageObject::Volume(Volume::default())),
            StorageObject::Volume(Volume::default()),
            true,
        ),
        ("a CSINode comes", None, csi_node(CsiNode::default()), true),
        ("a plugin is migrated", Some(csi_node(CsiNode::default())), csi_node(migrated), true),
        ("nothing is migrated", Some(csi_node(CsiNode::default())), csi_node(CsiNode::default()), false),
        (
            "its driver stops counting",
            Some(driver("inline.example.com", true)),
            driver("inline.example.com", false),
            true,
        ),
        ("another driver does", Some(driver("other", true)), driver("other", false), false),
        ("a driver comes", None, driver("inline.example.com", false), false),
        ("a room comes", None, room(None, None), true),
        ("a room grows", Some(room(Some(1), None)), room(Some(2), None), true),
        ("its largest volume does not", Some(room(Some(1), Some(1))), room(Some(9), Some(1)), false),
    ];
    for (case, old, new, expected) in table {
        let event = ClusterEvent::StorageChanged { old: old.as_ref(), new: Some(&new) };
        assert_eq!(alone(NAME).wakes(event, &wanting), expected, "{case}");
    }
    let volume = StorageObject::Volume(Volume::default());
    for (gone, expected) in [(volume, false), (driver("other", true), true), (driver("other", false), false)] {
        let event = ClusterEvent::StorageChanged { old: Some(&gone), new: None };
        assert_eq!(alone(NAME).wakes(event, &wanting), expected, "{gone:?} is deleted");
    }
    let (old, new) = (node("n").build(), node("n").label("zone", "z1").build());
    assert!(alone(NAME).wakes(ClusterEvent::NodeUpdated { old: &old, new: &new }, &wanting));
    assert!(!alone(NAME).wakes(ClusterEvent::NodeUpdated { old: &old, new: &old }, &wanting));
}
