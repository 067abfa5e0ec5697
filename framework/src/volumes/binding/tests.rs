//! Results and errors of `checkBindings`.

use super::*;
use crate::{
    class::Requirement,
    testing,
    volumes::{
        objects::{ClaimReference, CsiNode, InTree, StorageObject},
        storage::StaticBinding,
    },
};

fn claim(version: &str) -> Claim {
    Claim {
        namespace: "default".into(),
        name: "data".into(),
        uid: "claim-uid".into(),
        resource_version: version.into(),
        has_annotations: true,
        selected_node: Some("n1".into()),
        ..Claim::default()
    }
}

fn bound(version: &str) -> Claim {
    Claim { volume_name: "pv".into(), bind_completed: true, ..claim(version) }
}

fn volume(version: &str, uid: &str) -> Volume {
    let claim = ClaimReference { namespace: "default".into(), name: "data".into(), uid: uid.into() };
    Volume { name: "pv".into(), resource_version: version.into(), claim: Some(claim), ..Volume::default() }
}

fn in_zone(zone: &str) -> Option<Vec<NodeTerm>> {
    let requirement = Requirement { key: "zone".into(), operator: "In".into(), values: vec![zone.into()] };
    Some(vec![NodeTerm { expressions: vec![requirement], fields: Vec::new() }])
}

fn named(node: &str) -> Option<Vec<NodeTerm>> {
    let requirement = Requirement { key: "metadata.name".into(), operator: "In".into(), values: vec![node.into()] };
    Some(vec![NodeTerm { expressions: Vec::new(), fields: vec![requirement] }])
}

fn storage(claim: Option<Claim>, volume: Option<Volume>) -> Storage {
    let mut storage = Storage::default();
    let objects = claim.map(StorageObject::Claim).into_iter().chain(volume.map(StorageObject::Volume));
    for object in objects {
        storage.apply(object);
    }
    storage
}

fn key() -> ClaimKey {
    ClaimKey { namespace: "default".into(), name: "data".into() }
}

fn binding_plan() -> Plan {
    let binding = StaticBinding { claim: key(), claim_uid: "claim-uid".into(), volume: "pv".into() };
    Plan { node: "n1".into(), bindings: vec![binding], provisions: Vec::new(), all_bound: false }
}

fn provisioning_plan() -> Plan {
    Plan { node: "n1".into(), bindings: Vec::new(), provisions: vec![key()], all_bound: false }
}

fn outcome(storage: &Storage, plan: &Plan, version: &str) -> Result<bool, String> {
    let keys = [key().storage_key(), volume_key(&"pv".into())];
    let written = keys.into_iter().map(|key| (key.into(), version.into())).collect();
    is_bound(storage, plan, &written, Some(&testing::node("n1").label("zone", "a").build()))
}

#[test]
fn a_volume_that_was_set_aside_is_bound_when_the_controller_has_bound_its_claim() {
    let affine = |zone| Volume { node_affinity: in_zone(zone), ..volume("7", "claim-uid") };
    let elsewhere = "pv \"pv\" node affinity doesn't match node \"n1\": no matching NodeSelectorTerms";
    for (claim, volume, expected) in [
        (Some(bound("8")), Some(volume("7", "claim-uid")), Ok(true)),
        (Some(claim("3")), Some(volume("7", "claim-uid")), Ok(false)),
        (Some(Claim { bind_completed: false, ..bound("8") }), Some(volume("7", "claim-uid")), Ok(false)),
        // Older than our write, so ignored.
        (Some(claim("3")), Some(volume("6", "")), Ok(false)),
        (Some(claim("3")), Some(volume("70", "")), Err("ClaimRef got reset for pv \"pv\"")),
        (Some(claim("3")), Some(Volume { claim: None, ..volume("7", "") }), Err("ClaimRef got reset for pv \"pv\"")),
        (Some(bound("8")), Some(affine("a")), Ok(true)),
        (Some(bound("8")), Some(affine("b")), Err(elsewhere)),
        // Upstream evaluates the affinity on a node without a name.
        (Some(bound("8")), Some(Volume { node_affinity: named("n2"), ..volume("7", "claim-uid") }), Ok(true)),
        (Some(bound("8")), None, Err("failed to check binding: persistentvolumes \"pv\" not found")),
        (
            None,
            Some(volume("7", "claim-uid")),
            Err("failed to check binding: persistentvolumeclaims \"default/data\" not found"),
        ),
    ] {
        let storage = storage(claim, volume);
        let expected = expected.map_err(|error| format!("binding volumes: {error}"));
        assert_eq!(outcome(&storage, &binding_plan(), "7"), expected, "{storage:?}");
    }
}

#[test]
fn a_volume_that_is_to_be_made_is_bound_when_its_claim_is_and_failed_when_the_provisioner_takes_the_node_off() {
    let away = Volume { node_affinity: in_zone("b"), ..volume("9", "claim-uid") };
    let elsewhere = "pv \"pv\" node affinity doesn't match node \"n1\": no matching NodeSelectorTerms";
    for (claim, volume, expected) in [
        (Some(bound("8")), Some(volume("9", "claim-uid")), Ok(true)),
        (Some(claim("7")), None, Ok(false)),
        // The volume is not in the cache yet.
        (Some(bound("8")), None, Ok(false)),
        (Some(bound("8")), Some(away), Err(elsewhere)),
        (Some(Claim { selected_node: None, ..claim("6") }), None, Ok(false)),
        (Some(Claim { selected_node: None, ..claim("8") }), None, Err("provisioning failed for PVC \"data\"")),
        (
            Some(Claim { selected_node: Some("n2".into()), ..claim("8") }),
            None,
            Err("provisioning failed for PVC \"data\""),
        ),
        (
            Some(Claim { selected_node: None, has_annotations: false, ..claim("8") }),
            None,
            Err("selectedNode annotation reset for PVC \"data\""),
        ),
        (None, None, Err("failed to check provisioning pvc: persistentvolumeclaims \"default/data\" not found")),
    ] {
        let storage = storage(claim, volume);
        let expected = expected.map_err(|error| format!("binding volumes: {error}"));
        assert_eq!(outcome(&storage, &provisioning_plan(), "7"), expected, "{storage:?}");
    }
}

#[test]
fn what_is_assumed_does_not_count_as_bound() {
    let mut storage = storage(Some(claim("7")), Some(Volume { claim: None, ..volume("7", "") }));
    storage.assume(&binding_plan());
    let expected = Err("binding volumes: ClaimRef got reset for pv \"pv\"".to_owned());
    assert_eq!(outcome(&storage, &binding_plan(), "7"), expected);
}

#[test]
fn without_its_node_nothing_is_bound() {
    let storage = storage(Some(bound("8")), Some(volume("7", "claim-uid")));
    let expected = Err("binding volumes: failed to get node \"n1\": node \"n1\" not found".to_owned());
    assert_eq!(is_bound(&storage, &binding_plan(), &Written::new(), None), expected);
}

#[test]
fn a_plugin_that_the_node_has_migrated_speaks_in_the_words_of_its_driver() {
    let in_tree = |handle| InTree {
        plugin: "kubernetes.io/gce-pd".into(),
        driver: "pd.csi.storage.gke.io".into(),
        handle,
        node_affinity: in_zone("a"),
    };
    let volume = |handle| Volume {
        node_affinity: in_zone("b"),
        source: VolumeSource::InTree(in_tree(handle)),
        ..volume("7", "claim-uid")
    };
    let migrated =
        CsiNode { name: "n1".into(), migrated_plugins: vec!["kubernetes.io/gce-pd".into()], ..CsiNode::default() };
    let mut known = storage(Some(bound("8")), Some(volume(Ok("handle".into()))));
    assert!(outcome(&known, &binding_plan(), "7").is_err(), "in its own words it is in another zone");
    known.apply(StorageObject::CsiNode(migrated));
    assert_eq!(outcome(&known, &binding_plan(), "7"), Ok(true));
    known.apply(StorageObject::Volume(volume(Err("no zone".into()))));
    let expected = "binding volumes: failed to translate pv to csi: could not translate pv: no zone";
    assert_eq!(outcome(&known, &binding_plan(), "7"), Err(expected.to_owned()));
}
