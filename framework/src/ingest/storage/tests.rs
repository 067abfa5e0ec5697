//! Reading storage objects: fields with unexpected readings.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::{
    class::{NodeTerm, Requirement},
    labels::{LabelRequirement, LabelSelector},
    volumes::objects::{Claim, ClaimReference, Volume, VolumeSource},
};

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object of its kind")
}

fn read_claim(metadata: Value, spec: Value) -> Claim {
    let mut value = json!({"metadata": {"name": "data", "namespace": "shop", "uid": "u"}, "spec": spec});
    value["metadata"].as_object_mut().expect("a map").extend(object::<serde_json::Map<_, _>>(metadata));
    claim(&object(value)).expect("a claim that can be read")
}

fn read_volume(metadata: Value, spec: Value) -> Volume {
    let mut value = json!({"metadata": {"name": "pv"}, "spec": spec});
    value["metadata"].as_object_mut().expect("a map").extend(object::<serde_json::Map<_, _>>(metadata));
    volume(&object(value)).expect("a volume that can be read")
}

#[test]
fn an_empty_claim_asks_for_nothing() {
    let expected = Claim { namespace: "shop".into(), name: "data".into(), uid: "u".into(), ..Claim::default() };
    assert_eq!(read_claim(json!({}), json!({})), expected);
    let bare = json!({"metadata": {"name": "data", "namespace": "shop", "uid": "u"}});
    assert_eq!(claim(&object(bare)), Ok(expected));
}

#[test]
fn a_claim_is_read_field_by_field() {
    let metadata = json!({
        "resourceVersion": "7",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "annotations": {"pv.kubernetes.io/bind-completed": "no", "volume.kubernetes.io/selected-node": "n1"},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "other"},
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pod", "controller": true},
        ],
    });
    let spec = json!({
        "storageClassName": "fast",
        "volumeName": "pv",
        "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
        "volumeMode": "Block",
        "selector": {"matchLabels": {"tier": "gold"}},
        "resources": {"requests": {"storage": "1.5Gi"}},
        "volumeAttributesClassName": "silver",
    });
    let expected = Claim {
        namespace: "shop".into(),
        name: "data".into(),
        uid: "u".into(),
        resource_version: "7".into(),
        owner_pod: Some("pod".into()),
        storage_class: "fast".into(),
        volume_name: "pv".into(),
        bind_completed: true,
        has_annotations: true,
        selected_node: Some("n1".into()),
        access_modes: AccessModes::READ_WRITE_ONCE.with(AccessModes::READ_WRITE_MANY),
        is_block: true,
        selector: Some(Ok(LabelSelector::Matching(vec![LabelRequirement::equal(&"tier".into(), &"gold".into())]))),
        requested: Some(Quantity::from_units(1_610_612_736)),
        attributes_class: "silver".into(),
        is_lost: false,
        is_deleting: true,
    };
    assert_eq!(read_claim(metadata, spec), expected);
}

#[test]
fn the_annotation_names_the_storage_class_before_the_spec_even_where_it_is_empty() {
    let beta = |class: &str| json!({"annotations": {"volume.beta.kubernetes.io/storage-class": class}});
    let table = [
        (json!({}), json!({}), ""),
        (json!({}), json!({"storageClassName": "new"}), "new"),
        (beta("old"), json!({}), "old"),
        (beta("old"), json!({"storageClassName": "new"}), "old"),
        (beta(""), json!({"storageClassName": "new"}), ""),
    ];
    for (metadata, spec, expected) in table {
        let found = (read_claim(metadata.clone(), spec.clone()), read_volume(metadata.clone(), spec.clone()));
        assert_eq!((&*found.0.storage_class, &*found.1.storage_class), (expected, expected), "{metadata} {spec}");
    }
}

#[test]
fn a_selector_that_cannot_be_read_is_told_in_the_words_of_apimachinery() {
    let near = json!({"selector": {"matchExpressions": [{"key": "tier", "operator": "Near"}]}});
    let expected = Some(Err("\"Near\" is not a valid label selector operator".into()));
    assert_eq!(read_claim(json!({}), near).selector, expected);
    assert_eq!(read_claim(json!({}), json!({"selector": {}})).selector, Some(Ok(LabelSelector::EVERYTHING)));
}

#[test]
fn a_mode_of_access_that_is_not_known_is_one_that_no_volume_has() {
    let modes = |list: Value| json!({"accessModes": list});
    let table = [
        (json!([]), json!([]), true),
        (json!([]), json!(["ReadWriteOnce"]), true),
        (json!(["ReadWriteOnce"]), json!(["ReadOnlyMany", "ReadWriteOnce"]), true),
        (json!(["ReadWriteOncePod"]), json!(["ReadWriteOnce"]), false),
        (json!(["Later"]), json!(["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]), false),
        (json!(["ReadWriteOnce"]), json!(["Later", "ReadWriteOnce"]), true),
    ];
    for (asked, given, expected) in table {
        let (claim, volume) =
            (read_claim(json!({}), modes(asked.clone())), read_volume(json!({}), modes(given.clone())));
        assert_eq!(volume.access_modes.contains(claim.access_modes), expected, "{asked} {given}");
    }
}

#[test]
fn a_claim_is_lost_and_a_volume_available_by_its_phase_alone() {
    for (phase, is_lost, is_available) in [("Pending", false, false), ("Available", false, true), ("Lost", true, false)]
    {
        let value = json!({"metadata": {"name": "x", "namespace": "y"}, "status": {"phase": phase}});
        assert_eq!(claim(&object(value.clone())).map(|claim| claim.is_lost), Ok(is_lost), "{phase}");
        assert_eq!(volume(&object(value)).map(|volume| volume.is_available), Ok(is_available), "{phase}");
    }
}

#[test]
fn a_volume_is_read_field_by_field() {
    let zone = json!({"key": "zone", "operator": "In", "values": ["a"]});
    let spec = json!({
        "capacity": {"storage": "10"},
        "accessModes": ["ReadOnlyMany"],
        "volumeAttributesClassName": "silver",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}},
        "claimRef": {"namespace": "shop", "name": "data"},
        "csi": {"driver": "d", "volumeHandle": "h"},
    });
    let zone = Requirement { key: "zone".into(), operator: "In".into(), values: vec!["a".into()] };
    let metadata = json!({"uid": "u", "resourceVersion": "3", "labels": {"b": "2", "a": "1"}});
    let expected = Volume {
        name: "pv".into(),
        uid: "u".into(),
        resource_version: "3".into(),
        labels: vec![("a".into(), "1".into()), ("b".into(), "2".into())],
        capacity: Quantity::from_units(10),
        access_modes: AccessModes::READ_ONLY_MANY,
        attributes_class: "silver".into(),
        node_affinity: Some(vec![NodeTerm { expressions: vec![zone], fields: Vec::new() }]),
        claim: Some(ClaimReference { namespace: "shop".into(), name: "data".into(), uid: "".into() }),
        source: VolumeSource::Csi { driver: "d".into(), handle: "h".into() },
        ..Volume::default()
    };
    assert_eq!(read_volume(metadata, spec), expected);
}

#[test]
fn an_affinity_without_terms_keeps_every_node_out_and_one_without_a_selector_none() {
    let table =
        [(json!(null), None), (json!({}), None), (json!({"required": {"nodeSelectorTerms": []}}), Some(Vec::new()))];
    for (affinity, expected) in table {
        let volume = read_volume(json!({}), json!({"nodeAffinity": affinity}));
        assert_eq!(volume.node_affinity, expected, "{affinity}");
    }
}

#[test]
fn the_source_of_a_volume_is_a_driver_a_plugin_that_has_one_in_its_place_or_neither() {
    let in_tree = read_volume(json!({}), json!({"cinder": {"volumeID": "c"}})).source;
    assert!(matches!(in_tree, VolumeSource::InTree(found) if &*found.driver == "cinder.csi.openstack.org"));
    assert_eq!(read_volume(json!({}), json!({"nfs": {"server": "s", "path": "/"}})).source, VolumeSource::Other);
    assert_eq!(read_volume(json!({}), json!({})).source, VolumeSource::Other);
}

#[test]
fn a_class_is_immediate_unless_it_waits_and_neither_where_it_does_not_say() {
    let table = [
        (json!(null), None),
        (json!("Immediate"), Some(BindingMode::Immediate)),
        (json!("WaitForFirstConsumer"), Some(BindingMode::WaitForFirstConsumer)),
        (json!("Later"), Some(BindingMode::Immediate)),
    ];
    for (mode, expected) in table {
        let value = json!({"metadata": {"name": "fast"}, "provisioner": "p", "volumeBindingMode": mode});
        assert_eq!(storage_class(&object(value)).map(|class| class.binding_mode), Ok(expected), "{mode}");
    }
}

#[test]
fn topologies_of_a_class_are_kept_as_they_stand() {
    let terms = json!([{"matchLabelExpressions": [{"key": "zone", "values": ["b", "a"]}]}, {}]);
    let class = json!({"metadata": {"name": "fast"}, "provisioner": "p", "allowedTopologies": terms});
    let expected = StorageClass {
        name: "fast".into(),
        provisioner: "p".into(),
        binding_mode: None,
        allowed_topologies: vec![vec![("zone".into(), vec!["b".into(), "a".into()])], Vec::new()],
    };
    assert_eq!(storage_class(&object(class)), Ok(expected));
}

#[test]
fn a_driver_says_neither_unless_it_says_so() {
    let driver = |spec: Value| csi_driver(&object(json!({"metadata": {"name": "d"}, "spec": spec})));
    let expected = |storage_capacity, prevents_if_missing| {
        Ok(CsiDriver { name: "d".into(), storage_capacity, prevents_if_missing })
    };
    assert_eq!(driver(json!({})), expected(false, false));
    assert_eq!(driver(json!({"storageCapacity": true})), expected(true, false));
    assert_eq!(driver(json!({"preventPodSchedulingIfMissing": true})), expected(false, true));
}

#[test]
fn a_capacity_without_a_topology_or_with_one_that_cannot_be_read_is_nowhere() {
    let near = json!({"matchExpressions": [{"key": "zone", "operator": "Near"}]});
    let table = [(json!(null), None), (near, None), (json!({}), Some(LabelSelector::EVERYTHING))];
    for (topology, node_topology) in table {
        let metadata = json!({"name": "c", "namespace": "system"});
        let value =
            json!({"metadata": metadata, "storageClassName": "fast", "nodeTopology": topology, "capacity": "5"});
        let expected = StorageCapacity {
            namespace: "system".into(),
            name: "c".into(),
            storage_class: "fast".into(),
            node_topology,
            capacity: Some(Quantity::from_units(5)),
            maximum_volume_size: None,
        };
        assert_eq!(storage_capacity(&object(value)), Ok(expected), "{topology}");
    }
}

#[test]
fn drivers_of_a_node_keep_their_order_and_may_have_no_limit() {
    let drivers = json!([
        {"name": "b", "nodeID": "n", "allocatable": {"count": 0}},
        {"name": "a", "nodeID": "n", "allocatable": {}},
        {"name": "c", "nodeID": "n"},
    ]);
    let node = csi_node(&object(json!({"metadata": {"name": "n"}, "spec": {"drivers": drivers}})));
    let drivers = node.map(|node| node.drivers);
    assert_eq!(drivers, Ok(vec![("b".into(), Some(0)), ("a".into(), None), ("c".into(), None)]));
}

#[test]
fn migrated_plugins_are_what_stands_between_the_commas() {
    let table: [(Value, &[&str]); 4] = [
        (json!({}), &[]),
        (json!({"storage.alpha.kubernetes.io/migrated-plugins": ""}), &[]),
        (json!({"storage.alpha.kubernetes.io/migrated-plugins": "b,a,b"}), &["a", "b"]),
        (json!({"storage.alpha.kubernetes.io/migrated-plugins": "a, b"}), &[" b", "a"]),
    ];
    for (annotations, expected) in table {
        let metadata = json!({"name": "n", "annotations": annotations});
        let node = csi_node(&object(json!({"metadata": metadata, "spec": {"drivers": []}}))).expect("a node");
        assert_eq!(node.migrated_plugins.iter().map(|name| &**name).collect::<Vec<_>>(), expected, "{annotations}");
    }
}

#[test]
fn an_attachment_names_its_volume_unless_the_volume_stands_in_a_pod() {
    let table = [(json!({"persistentVolumeName": "pv"}), Some("pv".into())), (json!({"inlineVolumeSpec": {}}), None)];
    for (source, volume) in table {
        let spec = json!({"attacher": "d", "nodeName": "n", "source": source});
        let expected = VolumeAttachment { name: "a".into(), attacher: "d".into(), node: "n".into(), volume };
        assert_eq!(
            volume_attachment(&object(json!({"metadata": {"name": "a"}, "spec": spec}))),
            Ok(expected),
            "{source}"
        );
    }
}

#[test]
fn what_has_no_name_or_an_amount_that_is_none_is_refused_with_the_field() {
    let nameless = claim(&object(json!({"metadata": {"namespace": "shop"}})));
    assert_eq!(nameless, Err(IngestError::Missing("metadata.name")));
    let homeless = claim(&object(json!({"metadata": {"name": "data"}})));
    assert_eq!(homeless, Err(IngestError::Missing("metadata.namespace")));
    assert_eq!(volume(&object(json!({}))), Err(IngestError::Missing("metadata.name")));
    for (amount, expected) in [("much", "\"much\" is not a quantity"), ("-1", "\"-1\" is negative")] {
        let value = json!({"metadata": {"name": "pv"}, "spec": {"capacity": {"storage": amount}}});
        let error = volume(&object(value)).map_err(|error| error.to_string()).expect_err("no amount");
        assert!(error.starts_with(&format!("spec.capacity[storage]: {expected}")), "{error}");
    }
}
