//! Pods that are on a node and do not start.

use super::*;
use crate::{Gatherer, Loader, Problems, Sources};

const STORAGE: &str = "\
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: late}, provisioner: disk.example.com, volumeBindingMode: WaitForFirstConsumer}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: now}, provisioner: disk.example.com}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: manual}, provisioner: kubernetes.io/no-provisioner}
---
{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {kubernetes.io/os: linux}}, status: {capacity: {cpu: 4}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2}, status: {capacity: {cpu: 4}}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: shared}, spec: {accessModes: [ReadWriteOnce, ReadOnlyMany], csi: {driver: d, volumeHandle: h}}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: disk}, spec: {accessModes: [ReadWriteOnce], csi: {driver: d, volumeHandle: h}}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: nfs}, spec: {accessModes: [ReadWriteOnce], nfs: {server: s, path: /}}}
---
";

fn claim(spec: &str) -> String {
    format!("{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: data}}, spec: {{{spec}}}}}\n---\n")
}

fn pod(name: &str, node: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{nodeName: {node}, containers: [{{name: c}}], {spec}}}}}\n---\n"
    )
}

fn found(text: &str, is_scheduled: bool) -> Vec<String> {
    let (mut sources, mut gatherer, mut problems) = (Sources::default(), Gatherer::default(), Problems::default());
    Loader::new(&mut sources, &mut gatherer, &mut problems, &|| {})
        .text("in.yaml".to_owned(), format!("{STORAGE}{text}"));
    let cluster = gatherer.finish(&["default-scheduler"], &mut problems);
    assert_eq!(problems.render(&sources), Vec::<String>::new());
    let found = not_starting(&cluster, |_| is_scheduled);
    found.into_iter().map(|one| format!("{} on {}: {}", one.pod, one.node, one.reason)).collect()
}

const USES: &str = "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]";

#[test]
fn a_claim_for_one_node_is_used_on_one_node() {
    let attached = "default/b on n2: its claim data is ReadWriteOnce, and default/a on n1 uses it: the volume is attached to one node at \
                    a time; use ReadWriteMany, a claim for each pod, or affinity between the pods";
    let single = "default/b on n2: its claim data is ReadWriteOncePod, and default/a on n1 uses it; delete that pod, or use another claim";
    let cases = [
        ("a provisioner makes the volume", "storageClassName: now, accessModes: [ReadWriteOnce]", Some(attached)),
        ("the volume has a driver", "volumeName: disk, accessModes: [ReadWriteOnce]", Some(attached)),
        ("the volume has another mode too", "volumeName: shared, accessModes: [ReadWriteOnce]", None),
        ("the volume is not attached", "volumeName: nfs, accessModes: [ReadWriteOnce]", None),
        ("an administrator makes the volume", "storageClassName: manual, accessModes: [ReadWriteOnce]", None),
        ("many nodes", "storageClassName: now, accessModes: [ReadWriteMany]", None),
        ("one pod", "volumeName: nfs, accessModes: [ReadWriteOncePod]", Some(single)),
    ];
    for (title, spec, expected) in cases {
        let text = claim(spec) + &pod("a", "n1", USES) + &pod("b", "n2", USES);
        assert_eq!(found(&text, true), Vec::from_iter(expected.map(str::to_owned)), "{title}");
    }
    let text =
        claim("storageClassName: now, accessModes: [ReadWriteOnce]") + &pod("a", "n1", USES) + &pod("b", "n1", USES);
    assert_eq!(found(&text, true), Vec::<String>::new(), "on the same node");
}

#[test]
fn a_claim_that_waits_for_a_scheduler_is_not_bound_for_a_pod_with_a_node_name() {
    let waits = "default/a on n1: its spec.nodeName bypasses the scheduler, and no other component selects the node of claim data of \
                 class late (WaitForFirstConsumer); write `nodeSelector: {kubernetes.io/hostname: n1}` instead";
    let cases = [
        ("late", "storageClassName: late", false, Some(waits)),
        ("a scheduler chose the node", "storageClassName: late", true, None),
        ("immediate", "storageClassName: now", false, None),
        ("bound", "storageClassName: late, volumeName: disk", false, None),
        ("unknown class", "storageClassName: other", false, None),
    ];
    for (title, spec, is_scheduled, expected) in cases {
        let text = claim(spec) + &pod("a", "n1", USES);
        assert_eq!(found(&text, is_scheduled), Vec::from_iter(expected.map(str::to_owned)), "{title}");
    }
}

#[test]
fn a_pod_for_another_operating_system_is_rejected_by_the_kubelet() {
    let rejected = "default/a on n1: its spec.os.name is windows, and the node has kubernetes.io/os=linux, so the kubelet rejects it; \
                    add `nodeSelector: {kubernetes.io/os: windows}`";
    let cases = [("n1", "windows", Some(rejected)), ("n1", "linux", None), ("n2", "windows", None)];
    for (node, system, expected) in cases {
        let text = pod("a", node, &format!("os: {{name: {system}}}"));
        assert_eq!(found(&text, true), Vec::from_iter(expected.map(str::to_owned)), "{node} {system}");
    }
}
