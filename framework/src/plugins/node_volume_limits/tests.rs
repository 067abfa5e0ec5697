//! Cases of upstream's nodevolumelimits/csi_test.go.

use crate::{
    extension::ClusterEvent,
    status::Code,
    testing::{
        PodBuilder,
        checks::{Said, alone, unresolvable, unschedulable},
        node, pod,
        storage::{bound, claim, csi_node, demanding, gibibytes, storage_class, volume},
    },
    volumes::{
        mounts::{Inline, Mount},
        objects::{Claim, InTree, StorageObject, VolumeAttachment},
    },
};

const NAME: &str = "NodeVolumeLimits";
const DRIVER: &str = "csi.example.com";

fn gce(handle: Result<&str, &str>) -> PodBuilder {
    let in_tree = InTree {
        plugin: "kubernetes.io/gce-pd".into(),
        driver: "pd.csi.storage.gke.io".into(),
        handle: handle.map(Into::into).map_err(Into::into),
        node_affinity: None,
    };
    pod("p").mount(Mount::Inline(Inline { disk: None, in_tree: Some(in_tree) }))
}

/// Claims `a`, `b` and `c` bound to volumes of these names, and `new` without a volume.
fn objects(limit: Option<i32>) -> Vec<StorageObject> {
    let mut objects: Vec<StorageObject> = ["a", "b", "c"]
        .into_iter()
        .flat_map(|name| [StorageObject::Claim(bound(name, name)), StorageObject::Volume(volume(name, gibibytes(1)))])
        .collect();
    objects.push(StorageObject::Claim(claim("new")));
    objects.push(StorageObject::StorageClass(storage_class("later", DRIVER)));
    objects.push(StorageObject::CsiNode(csi_node("n", &[(DRIVER, limit), ("pd.csi.storage.gke.io", Some(0))])));
    objects
}

/// A pod, the existing pods of the node, the driver's limit, further objects, and whether the node is feasible.
type Crowd<'a> = (&'a str, PodBuilder, Vec<PodBuilder>, Option<i32>, Vec<StorageObject>, bool);

/// An object before and after, the rejected pod, and whether it wakes.
type Happening<'a> = (&'a str, Option<StorageObject>, Option<StorageObject>, &'a PodBuilder, bool);

fn attachment(volume: &str, node: &str) -> StorageObject {
    StorageObject::VolumeAttachment(VolumeAttachment {
        name: format!("{volume}-{node}").into(),
        attacher: DRIVER.into(),
        node: node.into(),
        volume: Some(volume.into()),
    })
}

#[test]
fn a_node_takes_as_many_volumes_as_its_driver_says() {
    let both = || pod("q").claim("a").claim("b");
    let table: [Crowd<'_>; 12] = [
        ("room for one more", pod("p").claim("c"), vec![both()], Some(3), vec![], true),
        ("no room", pod("p").claim("c"), vec![both()], Some(2), vec![], false),
        ("the same volume counts once", pod("p").claim("a"), vec![both()], Some(2), vec![], true),
        ("two pods with one volume count once", pod("p").claim("c"), vec![both(), both()], Some(3), vec![], true),
        ("a volume that is yet to be made counts", pod("p").claim("new"), vec![both()], Some(2), vec![], false),
        ("two pods wait for one volume", pod("p").claim("new"), vec![pod("q").claim("new")], Some(1), vec![], true),
        ("no limit", pod("p").claim("c"), vec![both()], None, vec![], true),
        ("a limit of none", pod("p").claim("c"), vec![], Some(0), vec![], false),
        ("a leftover counts", pod("p").claim("c"), vec![], Some(1), vec![attachment("b", "n")], false),
        ("a leftover elsewhere does not", pod("p").claim("c"), vec![], Some(1), vec![attachment("b", "m")], true),
        (
            "what a pod uses is no leftover",
            pod("p").claim("c"),
            vec![both()],
            Some(3),
            vec![attachment("b", "n")],
            true,
        ),
        (
            "upstream counts a leftover of its own twice",
            pod("p").claim("c"),
            vec![],
            Some(1),
            vec![attachment("c", "n")],
            false,
        ),
    ];
    for (case, wanting, standing, limit, more, suits) in table {
        let alone = alone(NAME).storage(objects(limit).into_iter().chain(more));
        let expected: Said = if suits { Ok(()) } else { unschedulable(&["node(s) exceed max volume count"]) };
        assert_eq!(alone.filter(&wanting, &node("n"), &standing), expected, "{case}");
    }
}

#[test]
fn a_driver_that_says_so_must_be_on_the_node() {
    let other = "picky.example.com";
    let with = |demands: bool| {
        let mut objects = objects(None);
        objects.push(StorageObject::Claim(Claim { storage_class: "picky".into(), ..claim("choosy") }));
        objects.push(StorageObject::StorageClass(storage_class("picky", other)));
        objects.extend(demands.then(|| StorageObject::CsiDriver(demanding(other))));
        alone(NAME).storage(objects)
    };
    let refusal = unschedulable(&["picky.example.com CSI driver is not installed on the node"]);
    let wanting = pod("p").claim("choosy");
    assert_eq!(with(true).filter(&wanting, &node("n"), &[]), refusal);
    assert_eq!(with(true).filter(&wanting, &node("without-csi-node"), &[]), refusal);
    assert_eq!(with(false).filter(&wanting, &node("n"), &[]), Ok(()));
    assert_eq!(with(true).args(|args| args.takes_missing_drivers = true).filter(&wanting, &node("n"), &[]), Ok(()));
}

#[test]
fn a_disk_of_a_plugin_counts_where_the_node_has_a_csi_node() {
    let alone = alone(NAME).storage(objects(None));
    let refusal = unschedulable(&["node(s) exceed max volume count"]);
    assert_eq!(alone.filter(&gce(Ok("disk")), &node("n"), &[]), refusal);
    assert_eq!(alone.filter(&gce(Ok("disk")), &node("without-csi-node"), &[]), Ok(()));
    let error = "running \"NodeVolumeLimits\" filter plugin: no such disk".to_owned();
    assert_eq!(alone.filter(&gce(Err("no such disk")), &node("n"), &[]), Err((Code::Error, vec![error])));
}

#[test]
fn claims_that_cannot_be_counted_refuse_or_fail() {
    let owned = |owner: Option<&str>| {
        let owner_pod = owner.map(Into::into);
        StorageObject::Claim(Claim { owner_pod, ..bound("q-own", "a") })
    };
    let with = |owner: Option<&str>| alone(NAME).storage(objects(Some(5)).into_iter().chain([owned(owner)]));
    let missing = "looking up PVC default/gone: persistentvolumeclaim \"gone\" not found";
    assert_eq!(with(None).filter(&pod("p").claim("gone"), &node("n"), &[]), unresolvable(&[missing]));
    let error = "running \"NodeVolumeLimits\" filter plugin: PVC default/q-own was not created for pod default/q (pod is \
                 not owner)";
    let failed: Said = Err((Code::Error, vec![error.to_owned()]));
    let own = || pod("q").ephemeral("own");
    assert_eq!(with(Some("uid-q")).filter(&own(), &node("n"), &[]), Ok(()));
    assert_eq!(with(None).filter(&own(), &node("n"), &[]), failed);
    assert_eq!(with(None).filter(&pod("p").claim("b"), &node("n"), &[own()]), failed, "a standing pod's");
    assert_eq!(with(None).filter(&pod("p").claim("b"), &node("n"), &[pod("r").claim("gone")]), Ok(()));
    assert_eq!(with(None).filter(&pod("p").claim("b"), &node("without-csi-node"), &[own()]), Ok(()));
}

#[test]
fn only_pods_whose_volumes_may_be_attached_are_looked_at() {
    let table = [
        (pod("p"), "skip"),
        (pod("p").mount(Mount::Csi(DRIVER.into())), "skip"),
        (pod("p").claim("a"), "continue"),
        (pod("p").ephemeral("own"), "continue"),
        (gce(Ok("disk")), "continue"),
    ];
    for (pod, expected) in table {
        assert_eq!(alone(NAME).storage(objects(None)).pre_filter(&pod), expected);
    }
}

#[test]
fn what_makes_room_wakes() {
    let node_with = |limit| StorageObject::CsiNode(csi_node("n", &[(DRIVER, limit)]));
    let (of_gce, of_csi) = (gce(Ok("disk")), pod("p").claim("a"));
    let attached_by = |driver: &str| {
        let attachment = VolumeAttachment { attacher: driver.into(), ..VolumeAttachment::default() };
        StorageObject::VolumeAttachment(attachment)
    };
    let table: [Happening<'_>; 12] = [
        ("a CSINode comes", None, Some(node_with(Some(0))), &of_csi, true),
        ("a CSINode with a limit is deleted", Some(node_with(Some(0))), None, &of_csi, true),
        ("a CSINode without a limit is deleted", Some(node_with(None)), None, &of_csi, false),
        ("a limit grows", Some(node_with(Some(1))), Some(node_with(Some(2))), &of_csi, true),
        ("a limit shrinks", Some(node_with(Some(2))), Some(node_with(Some(1))), &of_csi, false),
        ("a limit goes, which counts as 0", Some(node_with(Some(2))), Some(node_with(None)), &of_csi, false),
        ("its claim comes", None, Some(StorageObject::Claim(claim("a"))), &of_csi, true),
        ("another claim comes", None, Some(StorageObject::Claim(claim("b"))), &of_csi, false),
        (
            "its claim changes",
            Some(StorageObject::Claim(claim("a"))),
            Some(StorageObject::Claim(bound("a", "v"))),
            &of_csi,
            false,
        ),
        ("any attachment goes, of a pod with claims", Some(attached_by("other")), None, &of_csi, true),
        ("its driver's attachment goes", Some(attached_by("pd.csi.storage.gke.io")), None, &of_gce, true),
        ("another driver's attachment goes", Some(attached_by("other")), None, &of_gce, false),
    ];
    for (case, old, new, wanting, expected) in table {
        let event = ClusterEvent::StorageChanged { old: old.as_ref(), new: new.as_ref() };
        assert_eq!(alone(NAME).wakes(event, wanting), expected, "{case}");
    }
    for (gone, expected) in [(pod("q").claim("z"), true), (gce(Ok("d")), true), (pod("q"), false)] {
        assert_eq!(alone(NAME).wakes(ClusterEvent::PodRemoved(&gone.build().class), &of_csi), expected);
    }
}
