//! Classifies the texts of an entry. Unlisted texts are names.

use super::masked::FieldName;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Name,
    /// A keyword of Kubernetes, a driver or the configuration: it stays in every place.
    Word,
    /// Stays in this place: a version, an amount, an expression.
    Fixed,
    Sentence,
}

pub(super) fn kind(place: FieldName) -> Kind {
    match (place.holder, place.field) {
        ("Requirement" | "Toleration" | "Taint" | "DeviceToleration", "operator" | "effect")
        | ("HostPort", "protocol")
        | ("NodeSelectorRequirement" | "TopologySpreadConstraint", "operator" | "whenUnsatisfiable")
        | (_, "scheduler_name")
        // Drivers are products, and device classes name them in expressions.
        | (_, "driver" | "drivers" | "plugin" | "provisioner" | "attacher" | "migrated_plugins")
        // Device classes and plugin arguments name resources.
        | ("Resources", "scalars")
        | (_, "extended_resources" | "extended_resource" | "mapped")
        | ("Asking", "requests")
        | ("Device", "attributes" | "capacity")
        // Constraints name derived attributes.
        | ("Ask", "capacity" | "derived")
        | (_, "skipped_operations") => Kind::Word,
        (_, "resource_version" | "versions")
        | ("Amount", "text")
        | ("Ask" | "DeviceClass", "selectors")
        | ("Attribute", _)
        | ("DeviceCondition", "kind" | "status" | "reason")
        | ("Scheduled" | "GroupCondition", "reason")
        // Pod groups are distinguished from other owners and consumers of claims by these.
        | ("Controller", "api_group" | "kind")
        | ("Consumer", "api_group" | "resource")
        | ("Reply", "version" | "plugins") => Kind::Fixed,
        ("Scheduled" | "GroupCondition" | "Refuse" | "Decision", "message")
        | ("Result", "Err")
        | ("PodInfo", "excess" | "unreadable") => Kind::Sentence,
        (holder, field) if is_configuration(holder, field) => Kind::Fixed,
        _ => Kind::Name,
    }
}

/// Whether the text is a plugin name or a public argument. Labels in arguments and addresses of extenders are not public.
fn is_configuration(holder: &str, field: &str) -> bool {
    const HOLDERS: [&str; 14] = [
        "Configuration",
        "Profile",
        "Plugins",
        "WeightedPlugin",
        "Args",
        "DefaultPreemptionArgs",
        "DynamicResourcesArgs",
        "InterPodAffinityArgs",
        "NodeResourcesFitArgs",
        "ScoringStrategy",
        "ResourceWeight",
        "NodeResourcesBalancedAllocationArgs",
        "PodTopologySpreadArgs",
        "ExtenderManagedResource",
    ];
    HOLDERS.contains(&holder) || holder == "Extender" && field != "urlPrefix"
}
