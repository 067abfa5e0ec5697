//! The kinds of objects that Kubernetes has.
//!
//! Knows: which of them a simulation reads, and which just appear in dumps. Must not know: what is in any of them.

/// What a simulation does with a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `v1 Node`.
    Node,
    /// `v1 Pod`.
    Pod,
    /// `scheduling.k8s.io PriorityClass`.
    PriorityClass,
    /// `v1 Namespace`.
    Namespace,
    /// Any kind's list of objects; of that kind, where they do not say so themselves.
    List(Option<&'static str>),
    /// Of Kubernetes, and nothing to a scheduler that is given pods; by the name of its kind.
    Ignored(&'static str),
}

/// Kinds of Kubernetes that a simulation has no use for.
const IGNORED: [&str; 67] = [
    "APIService",
    "Binding",
    "CSIDriver",
    "CSINode",
    "CSIStorageCapacity",
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterTrustBundle",
    "ComponentStatus",
    "ConfigMap",
    "ControllerRevision",
    "CronJob",
    "CustomResourceDefinition",
    "DaemonSet",
    "Deployment",
    "DeviceClass",
    "DeviceTaintRule",
    "EndpointSlice",
    "Endpoints",
    "Event",
    "Eviction",
    "FlowSchema",
    "HorizontalPodAutoscaler",
    "IPAddress",
    "Ingress",
    "IngressClass",
    "Job",
    "Lease",
    "LeaseCandidate",
    "LimitRange",
    "LocalSubjectAccessReview",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "NetworkPolicy",
    "NodeMetrics",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PodCertificateRequest",
    "PodDisruptionBudget",
    "PodGroup",
    "PodMetrics",
    "PodTemplate",
    "PriorityLevelConfiguration",
    "ReplicaSet",
    "ReplicationController",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ResourceQuota",
    "ResourceSlice",
    "Role",
    "RoleBinding",
    "RuntimeClass",
    "Secret",
    "Service",
    "ServiceAccount",
    "ServiceCIDR",
    "StatefulSet",
    "StorageClass",
    "StorageVersion",
    "StorageVersionMigration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "VolumeAttachment",
    "Workload",
];

const READ: [&str; 4] = ["Namespace", "Node", "Pod", "PriorityClass"];

/// Kinds whose pods are made by a controller, which a simulation does not have.
const MADE_OF_PODS: [&str; 7] =
    ["CronJob", "DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"];

/// What a kind of a group is, or what is wrong with it.
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
    let name = READ.iter().chain(&IGNORED).find(|known| **known == of).filter(|_| is_ours);
    let Some(&name) = name else { return Err(unknown(api_version, kind)) };
    let used = match name {
        "Node" if group.is_none_or(str::is_empty) => Kind::Node,
        "Pod" if group.is_none_or(str::is_empty) => Kind::Pod,
        "Namespace" if group.is_none_or(str::is_empty) => Kind::Namespace,
        "PriorityClass" if group.is_none_or(|group| group == "scheduling.k8s.io") => Kind::PriorityClass,
        "Node" | "Pod" | "Namespace" | "PriorityClass" => return Err(unknown(api_version, kind)),
        _ => Kind::Ignored(name),
    };
    Ok(match used {
        Kind::Ignored(_) => used,
        _ if is_list => Kind::List(Some(name)),
        _ => used,
    })
}

fn unknown(api_version: Option<&str>, kind: &str) -> String {
    let of = api_version.map(|version| format!(" of {version:?}")).unwrap_or_default();
    let singular = kind.strip_suffix('s').unwrap_or(kind);
    let is_meant = |known: &&&str| known.eq_ignore_ascii_case(kind) || known.eq_ignore_ascii_case(singular);
    let meant = READ.iter().chain(&IGNORED).find(is_meant);
    let expected = match meant {
        Some(meant) if *meant != kind => format!("did you mean {meant}?"),
        Some(meant) if *meant == "PriorityClass" => "expected apiVersion: scheduling.k8s.io/v1".to_owned(),
        Some(meant) if READ.contains(meant) => "expected apiVersion: v1".to_owned(),
        _ => "expected Node, Pod, PriorityClass, Namespace, a List of them, or another kind of Kubernetes".to_owned(),
    };
    format!("kind {kind:?}{of} is not known; {expected}")
}

/// Whether pods would come of objects of this kind.
pub(super) fn is_made_of_pods(kind: &str) -> bool {
    MADE_OF_PODS.contains(&kind)
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
            (Some("v1"), "List", Kind::List(None)),
            (Some("v1"), "PodList", Kind::List(Some("Pod"))),
            (Some("scheduling.k8s.io/v1"), "PriorityClassList", Kind::List(Some("PriorityClass"))),
            (Some("apps/v1"), "Deployment", Kind::Ignored("Deployment")),
            (Some("apps/v1"), "DeploymentList", Kind::Ignored("Deployment")),
            (Some("networking.k8s.io/v1"), "Ingress", Kind::Ignored("Ingress")),
        ];
        for (api_version, kind, expected) in cases {
            assert_eq!(find(api_version, kind), Ok(expected), "{kind}");
        }
    }

    #[test]
    fn an_unknown_kind_is_told_with_what_was_expected() {
        let all = "expected Node, Pod, PriorityClass, Namespace, a List of them, or another kind of Kubernetes";
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
                format!("kind \"Service\" of \"serving.knative.dev/v1\" is not known; {all}"),
            ),
        ];
        for (api_version, kind, expected) in cases {
            assert_eq!(find(api_version, kind), Err(expected));
        }
    }

    #[test]
    fn every_kind_is_listed_once_in_order() {
        assert!(IGNORED.is_sorted_by(|one, next| one < next));
        assert!(MADE_OF_PODS.iter().all(|kind| IGNORED.contains(kind)));
    }
}
