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
    /// A kind of an API group that is not Kubernetes' own.
    Custom,
}

/// A kind, and the version to read it as if the input has an older one with the same fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) kind: Kind,
    pub(super) read_as: Option<&'static str>,
}

/// An error about one of the fields that name a kind.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unknown {
    pub(super) field: &'static str,
    pub(super) text: String,
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
const IGNORED: [&str; 59] = [
    "APIService",
    "Binding",
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterTrustBundle",
    "ComponentStatus",
    "CompositePodGroup",
    "ConfigMap",
    "ControllerRevision",
    "CustomResourceDefinition",
    "EndpointSlice",
    "Endpoints",
    "Event",
    "Eviction",
    "EvictionRequest",
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
    "PodSchedulingContext",
    "PodSecurityPolicy",
    "PodTemplate",
    "PriorityLevelConfiguration",
    "RangeAllocation",
    "ResourceClaimParameters",
    "ResourceClass",
    "ResourceClassParameters",
    "ResourcePoolStatusRequest",
    "Role",
    "RoleBinding",
    "Scale",
    "Secret",
    "SelfSubjectAccessReview",
    "SelfSubjectReview",
    "SelfSubjectRulesReview",
    "ServiceAccount",
    "ServiceCIDR",
    "StorageVersion",
    "StorageVersionMigration",
    "SubjectAccessReview",
    "TokenRequest",
    "TokenReview",
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

/// The API groups of Kubernetes. All others belong to custom resources, and their names have a dot.
const OWN_GROUPS: [&str; 25] = [
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "extensions",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "metrics.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// Older versions whose kinds have the fields of the current one, or are converted by `load/old_versions.rs`.
const OLD: [(&str, &[&str]); 13] = [
    ("apps/v1beta1", &["Deployment", "StatefulSet"]),
    ("apps/v1beta2", &["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"]),
    ("batch/v1beta1", &["CronJob"]),
    ("batch/v2alpha1", &["CronJob"]),
    ("extensions/v1beta1", &["DaemonSet", "Deployment", "ReplicaSet"]),
    ("policy/v1beta1", &["PodDisruptionBudget"]),
    ("resource.k8s.io/v1alpha3", &["DeviceTaintRule"]),
    ("resource.k8s.io/v1beta1", &["DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"]),
    (
        "resource.k8s.io/v1beta2",
        &["DeviceClass", "DeviceTaintRule", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"],
    ),
    ("scheduling.k8s.io/v1alpha1", &["PriorityClass"]),
    ("scheduling.k8s.io/v1beta1", &["PriorityClass"]),
    ("storage.k8s.io/v1alpha1", &["CSIStorageCapacity", "VolumeAttachment"]),
    ("storage.k8s.io/v1beta1", &["CSIDriver", "CSINode", "CSIStorageCapacity", "StorageClass", "VolumeAttachment"]),
];

/// OpenShift's kinds in the group of Kubernetes, before OpenShift had groups.
const LEGACY: [&str; 5] = ["BuildConfig", "DeploymentConfig", "ImageStream", "Route", "Template"];

/// The group of an `apiVersion`.
pub(super) fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Looks up a kind, or returns the error.
pub(super) fn find(api_version: Option<&str>, kind: &str) -> Result<Found, Unknown> {
    let group = api_version.map(group);
    let current = |kind| Ok(Found { kind, read_as: None });
    if group.is_some_and(|group| group.contains('.') && !OWN_GROUPS.contains(&group)) {
        return current(Kind::Custom);
    }
    let (of, is_list) = match kind.strip_suffix("List") {
        Some(of) => (of, true),
        None => (kind, false),
    };
    let is_ours = group.is_none_or(|group| OWN_GROUPS.contains(&group));
    if is_ours && kind == "List" {
        return current(Kind::List(None));
    }
    if let Some((name, used, own_group, version)) = READ.into_iter().find(|(name, ..)| *name == of) {
        if is_list && group.is_none_or(|group| group == own_group) {
            return current(Kind::List(Some(name)));
        }
        return match api_version {
            Some(found) if found != version && is_old(found, name) => Ok(Found { kind: used, read_as: Some(version) }),
            Some(found) if found != version => Err(wrong_version(found, kind, own_group, version)),
            _ => current(used),
        };
    }
    if let Some(name) = IGNORED.into_iter().find(|known| *known == of).filter(|_| is_ours) {
        return current(Kind::Ignored(name));
    }
    if api_version == Some("v1") && LEGACY.contains(&of) {
        current(Kind::Custom)
    } else {
        Err(unknown(api_version, kind))
    }
}

fn is_old(api_version: &str, kind: &str) -> bool {
    OLD.into_iter().any(|(version, kinds)| version == api_version && kinds.contains(&kind))
}

/// A known kind whose version is neither the current nor an older one with the same fields.
fn wrong_version(api_version: &str, kind: &str, own_group: &str, version: &str) -> Unknown {
    if group(api_version) != own_group {
        return unknown(Some(api_version), kind);
    }
    let text = format!(
        "apiVersion {api_version:?} of {kind} cannot be read; expected {version}, so convert the object, such as with \
         `kubectl convert -f FILE --output-version {version}`"
    );
    Unknown { field: "apiVersion", text }
}

fn unknown(api_version: Option<&str>, kind: &str) -> Unknown {
    let of = api_version.map(|version| format!(" of {version:?}")).unwrap_or_default();
    let singular = kind.strip_suffix('s').unwrap_or(kind);
    let is_meant = |known: &str| known.eq_ignore_ascii_case(kind) || known.eq_ignore_ascii_case(singular);
    let read = READ.iter().find(|(known, ..)| is_meant(known));
    let meant = read.map(|(known, ..)| *known).or_else(|| IGNORED.into_iter().find(|known| is_meant(known)));
    let expected = match (meant, read) {
        (Some(meant), _) if meant != kind => format!("did you mean {meant}?"),
        (_, Some((.., version))) => format!("expected apiVersion: {version}"),
        (Some(_), None) => "expected the apiVersion of Kubernetes".to_owned(),
        (None, None) => {
            let names: Vec<&str> = READ.iter().map(|(name, ..)| *name).collect();
            format!(
                "expected {}, a List of them, another kind of Kubernetes, or a custom resource with its apiVersion",
                names.join(", ")
            )
        }
    };
    Unknown { field: "kind", text: format!("kind {kind:?}{of} is not known; {expected}") }
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
            (Some("policy/v1beta1"), "PodSecurityPolicy", Kind::Ignored("PodSecurityPolicy")),
            (Some("extensions/v1beta1"), "Ingress", Kind::Ignored("Ingress")),
            (Some("monitoring.coreos.com/v1"), "ServiceMonitor", Kind::Custom),
            (Some("serving.knative.dev/v1"), "Service", Kind::Custom),
            (Some("batch.volcano.sh/v1alpha1"), "Job", Kind::Custom),
            (Some("gateway.networking.k8s.io/v1"), "HTTPRoute", Kind::Custom),
            (Some("snapshot.storage.k8s.io/v1"), "VolumeSnapshot", Kind::Custom),
            (Some("autoscaling.k8s.io/v1"), "VerticalPodAutoscaler", Kind::Custom),
            (Some("apps.openshift.io/v1"), "DeploymentConfig", Kind::Custom),
            (Some("v1"), "DeploymentConfig", Kind::Custom),
            (Some("monitoring.coreos.com/v1"), "List", Kind::Custom),
        ];
        for (api_version, kind, expected) in cases {
            assert_eq!(find(api_version, kind), Ok(Found { kind: expected, read_as: None }), "{kind}");
        }
    }

    #[test]
    fn an_older_version_with_the_same_fields_is_read_as_the_current_one() {
        let cases = [
            ("batch/v1beta1", "CronJob", "batch/v1"),
            ("policy/v1beta1", "PodDisruptionBudget", "policy/v1"),
            ("storage.k8s.io/v1beta1", "StorageClass", "storage.k8s.io/v1"),
            ("storage.k8s.io/v1beta1", "CSINode", "storage.k8s.io/v1"),
            ("extensions/v1beta1", "Deployment", "apps/v1"),
            ("extensions/v1beta1", "DaemonSet", "apps/v1"),
            ("apps/v1beta1", "StatefulSet", "apps/v1"),
            ("apps/v1beta2", "ReplicaSet", "apps/v1"),
            ("scheduling.k8s.io/v1beta1", "PriorityClass", "scheduling.k8s.io/v1"),
            ("resource.k8s.io/v1alpha3", "DeviceTaintRule", "resource.k8s.io/v1"),
            ("resource.k8s.io/v1beta1", "ResourceSlice", "resource.k8s.io/v1"),
            ("resource.k8s.io/v1beta2", "ResourceClaim", "resource.k8s.io/v1"),
        ];
        for (api_version, kind, expected) in cases {
            let found = find(Some(api_version), kind).map(|found| found.read_as);
            assert_eq!(found, Ok(Some(expected)), "{api_version} {kind}");
        }
    }

    #[test]
    fn an_unknown_kind_is_reported_with_the_expected_ones() {
        let all = "expected CSIDriver, CSINode, CSIStorageCapacity, CronJob, DaemonSet, Deployment, DeviceClass, \
                   DeviceTaintRule, Job, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, \
                   PodDisruptionBudget, PriorityClass, ReplicaSet, ReplicationController, ResourceClaim, \
                   ResourceClaimTemplate, ResourceQuota, ResourceSlice, RuntimeClass, Service, StatefulSet, StorageClass, \
                   VolumeAttachment, a List of them, another kind of Kubernetes, or a custom resource with its apiVersion";
        let convert = "so convert the object, such as with `kubectl convert -f FILE --output-version";
        let cases = [
            (Some("v1"), "pod", "kind \"pod\" of \"v1\" is not known; did you mean Pod?".to_owned()),
            (None, "Nodes", "kind \"Nodes\" is not known; did you mean Node?".to_owned()),
            (None, "ServiceMonitor", format!("kind \"ServiceMonitor\" is not known; {all}")),
            (Some("apps/v1"), "Pod", "kind \"Pod\" of \"apps/v1\" is not known; expected apiVersion: v1".to_owned()),
            (
                Some("v1"),
                "PriorityClass",
                "kind \"PriorityClass\" of \"v1\" is not known; expected apiVersion: scheduling.k8s.io/v1".to_owned(),
            ),
            (Some("v1"), "Pot", format!("kind \"Pot\" of \"v1\" is not known; {all}")),
            (
                Some("v1"),
                "StorageClass",
                "kind \"StorageClass\" of \"v1\" is not known; expected apiVersion: storage.k8s.io/v1".to_owned(),
            ),
            (
                Some("app/v1"),
                "Deployment",
                "kind \"Deployment\" of \"app/v1\" is not known; expected apiVersion: apps/v1".to_owned(),
            ),
            (
                Some("app/v1"),
                "ConfigMap",
                "kind \"ConfigMap\" of \"app/v1\" is not known; expected the apiVersion of Kubernetes".to_owned(),
            ),
            (
                Some("apps/v2"),
                "Deployment",
                format!("apiVersion \"apps/v2\" of Deployment cannot be read; expected apps/v1, {convert} apps/v1`"),
            ),
            (
                Some("resource.k8s.io/v1alpha2"),
                "ResourceClaim",
                format!(
                    "apiVersion \"resource.k8s.io/v1alpha2\" of ResourceClaim cannot be read; expected \
                     resource.k8s.io/v1, {convert} resource.k8s.io/v1`"
                ),
            ),
        ];
        for (api_version, kind, expected) in cases {
            assert_eq!(find(api_version, kind).map_err(|error| error.text), Err(expected));
        }
    }

    #[test]
    fn every_kind_is_listed_once_in_order() {
        assert!(IGNORED.is_sorted_by(|one, next| one < next));
        assert!(OWN_GROUPS.is_sorted_by(|one, next| one < next));
        assert!(READ.is_sorted_by(|one, next| one.0 < next.0));
        assert!(READ.iter().all(|(kind, ..)| !IGNORED.contains(kind)));
    }
}
