//! Cases of upstream's volume_zone_test.go.

use crate::{
    extension::ClusterEvent,
    testing::{
        checks::{Said, alone, unresolvable},
        node, pod,
        storage::{bound, claim, gibibytes, storage_class, volume},
    },
    volumes::objects::{BindingMode, Claim, StorageClass, StorageObject, Volume},
};

const NAME: &str = "VolumeZone";
const ZONE: &str = "topology.kubernetes.io/zone";
const OLD_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";

fn labelled(key: &str, value: &str) -> Volume {
    Volume { labels: vec![(key.into(), value.into())], ..volume("v", gibibytes(1)) }
}

#[test]
fn a_node_must_be_where_the_labels_of_its_volumes_say() {
    let table = [
        ("the same zone", (ZONE, "z1"), Some((ZONE, "z1")), true),
        ("another zone", (ZONE, "z1"), Some((ZONE, "z2")), false),
        ("one zone of several", (ZONE, "z1__z2"), Some((ZONE, "z2")), true),
        ("none of several", (ZONE, "z1__z2"), Some((ZONE, "z3")), false),
        ("an empty zone among several is no word", (ZONE, "z1____z2"), Some((ZONE, "z3")), true),
        ("a node in no zone at all", (ZONE, "z1"), None, true),
        ("a node that only tells its region", (ZONE, "z1"), Some((REGION, "r1")), false),
        ("an old label of the volume, a new one of the node", (OLD_ZONE, "z1"), Some((ZONE, "z1")), true),
        ("an old label of the node is not read for a new one", (ZONE, "z1"), Some((OLD_ZONE, "z1")), false),
        ("the region", (REGION, "r1"), Some((REGION, "r2")), false),
        ("another label", ("zone", "z1"), Some((ZONE, "z2")), true),
    ];
    for (case, (key, value), label, suits) in table {
        let objects = [StorageObject::Claim(bound("data", "v")), StorageObject::Volume(labelled(key, value))];
        let node = label.map_or_else(|| node("n"), |(key, value)| node("n").label(key, value));
        let expected: Said = if suits { Ok(()) } else { unresolvable(&["node(s) had no available volume zone"]) };
        assert_eq!(alone(NAME).storage(objects).filter(&pod("p").claim("data"), &node, &[]), expected, "{case}");
    }
}

#[test]
fn a_claim_without_a_volume_is_refused_unless_it_waits_for_its_pod() {
    let of_class = |class: &str| Claim { storage_class: class.into(), ..claim("data") };
    let class = |mode| StorageClass { binding_mode: mode, ..storage_class("c", "p") };
    let later = Some(BindingMode::WaitForFirstConsumer);
    let table = [
        ("it waits", of_class("c"), class(later), "skip"),
        (
            "it should be bound",
            of_class("c"),
            class(Some(BindingMode::Immediate)),
            "refuse PersistentVolume had no name",
        ),
        ("no mode", of_class("c"), class(None), "refuse VolumeBindingMode not set for StorageClass \"c\""),
        ("no such class", of_class("d"), class(later), "refuse storageclass.storage.k8s.io \"d\" not found"),
        ("no class", of_class(""), class(later), "refuse PersistentVolumeClaim had no pv name and storageClass name"),
        ("no such volume", bound("data", "gone"), class(later), "refuse persistentvolume \"gone\" not found"),
        ("no such claim", claim("other"), class(later), "refuse persistentvolumeclaim \"data\" not found"),
    ];
    for (case, claim, class, expected) in table {
        let objects = || [StorageObject::Claim(claim.clone()), StorageObject::StorageClass(class.clone())];
        assert_eq!(alone(NAME).storage(objects()).pre_filter(&pod("p").claim("data")), expected, "{case}");
        // Without PreFilter, the filter reports the reason.
        let said = alone(NAME).storage(objects()).without_pre_filter();
        let said = said.filter(&pod("p").claim("data"), &node("n"), &[]);
        let reason = expected.strip_prefix("refuse ");
        assert_eq!(said, reason.map_or(Ok(()), |reason| unresolvable(&[reason])), "{case}");
    }
    assert_eq!(alone(NAME).pre_filter(&pod("p").ephemeral("own")), "skip");
}

#[test]
fn what_may_move_a_zone_wakes() {
    let wanting = pod("p").claim("data");
    let (plain, zoned) = (volume("v", gibibytes(1)), labelled(ZONE, "z1"));
    let immediate = StorageClass { binding_mode: Some(BindingMode::Immediate), ..storage_class("c", "p") };
    let table: [(&str, Option<StorageObject>, StorageObject, bool); 9] = [
        ("a class whose claims wait", None, StorageObject::StorageClass(storage_class("c", "p")), true),
        ("a class whose claims do not", None, StorageObject::StorageClass(immediate), false),
        ("its claim comes", None, StorageObject::Claim(claim("data")), true),
        (
            "its claim changes",
            Some(StorageObject::Claim(claim("data"))),
            StorageObject::Claim(bound("data", "v")),
            true,
        ),
        ("another claim", None, StorageObject::Claim(claim("other")), false),
        ("a volume comes", None, StorageObject::Volume(plain.clone()), true),
        ("a zone comes", Some(StorageObject::Volume(plain.clone())), StorageObject::Volume(zoned.clone()), true),
        ("a zone goes", Some(StorageObject::Volume(zoned)), StorageObject::Volume(plain.clone()), true),
        ("nothing of it", Some(StorageObject::Volume(plain.clone())), StorageObject::Volume(plain), false),
    ];
    for (case, old, new, expected) in table {
        let event = ClusterEvent::StorageChanged { old: old.as_ref(), new: Some(&new) };
        assert_eq!(alone(NAME).wakes(event, &wanting), expected, "{case}");
    }
    let (old, new) = (node("n").build(), node("n").label(ZONE, "z1").build());
    assert!(alone(NAME).wakes(ClusterEvent::NodeAdded(&new), &wanting));
    assert!(alone(NAME).wakes(ClusterEvent::NodeUpdated { old: &old, new: &new }, &wanting));
    assert!(!alone(NAME).wakes(ClusterEvent::NodeUpdated { old: &new, new: &new }, &wanting));
}
