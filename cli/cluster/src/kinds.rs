//! The kinds of objects: those that a simulation reads, and those that it ignores.

use flotilla_framework::{devices::objects::DeviceKind, volumes::objects::StorageKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Node,
    Pod,
    PriorityClass,
    Namespace,
    PodDisruptionBudget,
    Service,
    ReplicationController,
    ReplicaSet,
    StatefulSet,
    /// Another workload with a pod template.
    Workload(Workload),
    /// A kind of storage.
    Storage(StorageKind),
    /// A kind of Dynamic Resource Allocation; `None`: ResourceClaimTemplate.
    Device(Option<DeviceKind>),
    /// A kind that changes or refuses created pods.
    Admission(Admission),
    /// A list, with the kind of elements that do not state theirs.
    List(Option<&'static str>),
    /// A Kubernetes kind that does not affect scheduling, by name.
    Ignored(&'static str),
}

/// Kinds that the API server's admission reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    LimitRange,
    ResourceQuota,
    RuntimeClass,
}

/// Workload kinds without a selector that scheduling reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Workload {
    CronJob,
    DaemonSet,
    Deployment,
    Job,
}

/// Kubernetes kinds that do not affect scheduling.
const IGNORED: [&str; 43] = [
    "APIService",
    "Binding",
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterTrustBundle",
    "ComponentStatus",
    "ConfigMap",
    "ControllerRevision",
    "CustomResourceDefinition",
    "EndpointSlice",
    "Endpoints",
    "Event",
    "Eviction",
    "FlowSchema",
    "HorizontalPodAutoscaler",
    "IPAddress",
    "Ingress",
    "IngressClass",
    "Lease",
    "LeaseCandidate",
    "LocalSubjectAccessReview",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "NetworkPolicy",
    "NodeMetrics",
    "PodCertificateRequest",
    "PodGroup",
    "PodMetrics",
    "PodTemplate",
    "PriorityLevelConfiguration",
    "Role",
    "RoleBinding",
    "Secret",
    "ServiceAccount",
    "ServiceCIDR",
    "StorageVersion",
    "StorageVersionMigration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "Workload",
];

const STORAGE: &str = "storage.k8s.io";

const DEVICES: &str = "resource.k8s.io";

/// The kinds that are read, with API group and expected version.
const READ: [(&str, Kind, &str, &str); 28] = [
    ("CSIDriver", Kind::Storage(StorageKind::CsiDriver), STORAGE, "storage.k8s.io/v1"),
    ("CSINode", Kind::Storage(StorageKind::CsiNode), STORAGE, "storage.k8s.io/v1"),
    ("CSIStorageCapacity", Kind::Storage(StorageKind::StorageCapacity), STORAGE, "storage.k8s.io/v1"),
    ("CronJob", Kind::Workload(Workload::CronJob), "batch", "batch/v1"),
    ("DaemonSet", Kind::Workload(Workload::DaemonSet), "apps", "apps/v1"),
    ("Deployment", Kind::Workload(Workload::Deployment), "apps", "apps/v1"),
    ("DeviceClass", Kind::Device(Some(DeviceKind::Class)), DEVICES, "resource.k8s.io/v1"),
    ("DeviceTaintRule", Kind::Device(Some(DeviceKind::TaintRule)), DEVICES, "resource.k8s.io/v1"),
    ("Job", Kind::Workload(Workload::Job), "batch", "batch/v1"),
    ("LimitRange", Kind::Admission(Admission::LimitRange), "", "v1"),
    ("Namespace", Kind::Namespace, "", "v1"),
    ("Node", Kind::Node, "", "v1"),
    ("PersistentVolume", Kind::Storage(StorageKind::Volume), "", "v1"),
    ("PersistentVolumeClaim", Kind::Storage(StorageKind::Claim), "", "v1"),
    ("Pod", Kind::Pod, "", "v1"),
    ("PodDisruptionBudget", Kind::PodDisruptionBudget, "policy", "policy/v1"),
    ("PriorityClass", Kind::PriorityClass, "scheduling.k8s.io", "scheduling.k8s.io/v1"),
    ("ReplicaSet", Kind::ReplicaSet, "apps", "apps/v1"),
    ("ReplicationController", Kind::ReplicationController, "", "v1"),
    ("ResourceClaim", Kind::Device(Some(DeviceKind::Claim)), DEVICES, "resource.k8s.io/v1"),
    ("ResourceClaimTemplate", Kind::Device(None), DEVICES, "resource.k8s.io/v1"),
    ("ResourceQuota", Kind::Admission(Admission::ResourceQuota), "", "v1"),
    ("ResourceSlice", Kind::Device(Some(DeviceKind::Slice)), DEVICES, "resource.k8s.io/v1"),
    ("RuntimeClass", Kind::Admission(Admission::RuntimeClass), "node.k8s.io", "node.k8s.io/v1"),
    ("Service", Kind::Service, "", "v1"),
    ("StatefulSet", Kind::StatefulSet, "apps", "apps/v1"),
    ("StorageClass", Kind::Storage(StorageKind::StorageClass), STORAGE, "storage.k8s.io/v1"),
    ("VolumeAttachment", Kind::Storage(StorageKind::VolumeAttachment), STORAGE, "storage.k8s.io/v1"),
];

/// Looks up a kind, or returns the error.
pub(super) fn find(api_version: Option<&str>, kind: &str) -> Result<Kind, String> {
    let group = api_version.map(|version| version.split_once('/').map_or("", |(group, _)| group));
    let is_ours = group.is_none_or(|group| !group.contains('.') || group.ends_with(".k8s.io"));
    let (of, is_list) = match kind.strip_suffix("List") {
        Some(of) => (of, true),
        None => (kind, false),
    };
    if is_ours && kind == "List" {
        return Ok(Kind::List(None));
    }
    if let Some((name, used, own_group, _)) = READ.into_iter().find(|(name, ..)| *name == of) {
        return match group.is_none_or(|group| group == own_group) {
            true if is_list => Ok(Kind::List(Some(name))),
            true => Ok(used),
            false => Err(unknown(api_version, kind)),
        };
    }
    let name = IGNORED.into_iter().find(|known| *known == of).filter(|_| is_ours);
    name.map(Kind::Ignored).ok_or_else(|| unknown(api_version, kind))
}

fn unknown(api_version: Option<&str>, kind: &str) -> String {
    let of = api_version.map(|version| format!(" of {version:?}")).unwrap_or_default();
    let singular = kind.strip_suffix('s').unwrap_or(kind);
    let is_meant = |known: &str| known.eq_ignore_ascii_case(kind) || known.eq_ignore_ascii_case(singular);
    let read = READ.iter().find(|(known, ..)| is_meant(known));
    let meant = read.map(|(known, ..)| *known).or_else(|| IGNORED.into_iter().find(|known| is_meant(known)));
    let expected = match (meant, read) {
        (Some(meant), _) if meant != kind => format!("did you mean {meant}?"),
        (_, Some((.., version))) => format!("expected apiVersion: {version}"),
        _ => {
            let names: Vec<&str> = READ.iter().map(|(name, ..)| *name).collect();
            format!("expected {}, a List of them, or another kind of Kubernetes", names.join(", "))
        }
    };
    format!("kind {kind:?}{of} is not known; {expected}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_known_by_group_and_name() {
        let cases = [
            (Some("v1"), "Pod", Kind::Pod),
            (None, "Pod", Kind::Pod),
            (Some("v1"), "Node", Kind::Node),
            (Some("scheduling.k8s.io/v1"), "PriorityClass", Kind::PriorityClass),
            (Some("v1"), "Namespace", Kind::Namespace),
            (Some("v1"), "Service", Kind::Service),
            (Some("v1"), "ReplicationController", Kind::ReplicationController),
            (Some("apps/v1"), "ReplicaSet", Kind::ReplicaSet),
            (Some("apps/v1"), "StatefulSetList", Kind::List(Some("StatefulSet"))),
            (Some("v1"), "PersistentVolume", Kind::Storage(StorageKind::Volume)),
            (Some("storage.k8s.io/v1"), "CSINode", Kind::Storage(StorageKind::CsiNode)),
            (Some("storage.k8s.io/v1"), "StorageClassList", Kind::List(Some("StorageClass"))),
            (Some("v1"), "List", Kind::List(None)),
            (Some("v1"), "PodList", Kind::List(Some("Pod"))),
            (Some("scheduling.k8s.io/v1"), "PriorityClassList", Kind::List(Some("PriorityClass"))),
            (Some("apps/v1"), "Deployment", Kind::Workload(Workload::Deployment)),
            (Some("apps/v1"), "DeploymentList", Kind::List(Some("Deployment"))),
            (Some("batch/v1"), "CronJob", Kind::Workload(Workload::CronJob)),
            (Some("v1"), "LimitRange", Kind::Admission(Admission::LimitRange)),
            (Some("node.k8s.io/v1"), "RuntimeClassList", Kind::List(Some("RuntimeClass"))),
            (Some("networking.k8s.io/v1"), "Ingress", Kind::Ignored("Ingress")),
        ];
        for (api_version, kind, expected) in cases {
            assert_eq!(find(api_version, kind), Ok(expected), "{kind}");
        }
    }

    #[test]
    fn an_unknown_kind_is_told_with_what_was_expected() {
        let all = "expected CSIDriver, CSINode, CSIStorageCapacity, CronJob, DaemonSet, Deployment, DeviceClass, \
                   DeviceTaintRule, Job, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, \
                   PodDisruptionBudget, PriorityClass, ReplicaSet, ReplicationController, ResourceClaim, ResourceClaimTemplate, ResourceQuota, ResourceSlice, RuntimeClass, Service, StatefulSet, \
                   StorageClass, VolumeAttachment, a List of them, or another kind of Kubernetes";
        let cases = [
            (Some("v1"), "pod", "kind \"pod\" of \"v1\" is not known; did you mean Pod?".to_owned()),
            (None, "Nodes", "kind \"Nodes\" is not known; did you mean Node?".to_owned()),
            (Some("apps/v1"), "Pod", "kind \"Pod\" of \"apps/v1\" is not known; expected apiVersion: v1".to_owned()),
            (
                Some("v1"),
                "PriorityClass",
                "kind \"PriorityClass\" of \"v1\" is not known; expected apiVersion: scheduling.k8s.io/v1".to_owned(),
            ),
            (Some("v1"), "Pot", format!("kind \"Pot\" of \"v1\" is not known; {all}")),
            (
                Some("serving.knative.dev/v1"),
                "Service",
                "kind \"Service\" of \"serving.knative.dev/v1\" is not known; expected apiVersion: v1".to_owned(),
            ),
            (
                Some("v1"),
                "StorageClass",
                "kind \"StorageClass\" of \"v1\" is not known; expected apiVersion: storage.k8s.io/v1".to_owned(),
            ),
            (
                Some("extensions/v1beta1"),
                "ReplicaSet",
                "kind \"ReplicaSet\" of \"extensions/v1beta1\" is not known; expected apiVersion: apps/v1".to_owned(),
            ),
        ];
        for (api_version, kind, expected) in cases {
            assert_eq!(find(api_version, kind), Err(expected));
        }
    }

    #[test]
    fn every_kind_is_listed_once_in_order() {
        assert!(IGNORED.is_sorted_by(|one, next| one < next));
        assert!(READ.is_sorted_by(|one, next| one.0 < next.0));
        assert!(READ.iter().all(|(kind, ..)| !IGNORED.contains(kind)));
    }
}
