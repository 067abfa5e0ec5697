//! Which texts of an entry are names, and which say something that everybody knows.
//!
//! Whatever is not listed here counts as a name.

use super::masked::Place;

/// What a text is by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name, or anything else that nobody needs to know.
    Name,
    /// A word of Kubernetes, of a driver or of the configuration: it stays, wherever it stands.
    Word,
    /// It stays here: a version, an amount, an expression.
    Fixed,
    /// A sentence of a scheduler, in which names stand.
    Sentence,
}

/// What a text is by its place.
pub(super) fn kind(place: Place) -> Kind {
    match (place.holder, place.field) {
        ("Requirement" | "Toleration" | "Taint" | "DeviceToleration", "operator" | "effect")
        | ("HostPort", "protocol")
        | ("NodeSelectorRequirement" | "TopologySpreadConstraint", "operator" | "whenUnsatisfiable")
        | (_, "scheduler_name")
        // Drivers are products, and device classes name them in expressions.
        | (_, "driver" | "drivers" | "plugin" | "provisioner" | "attacher" | "migrated_plugins")
        // Resources are what devices are called, and arguments of plugins name them.
        | ("Resources", "scalars")
        | (_, "extended_resources" | "extended_resource" | "mapped")
        | ("Asking", "requests")
        | ("Device", "attributes" | "capacity")
        | ("Ask", "capacity") => Kind::Word,
        (_, "resource_version" | "versions")
        | ("Amount", "text")
        | ("Ask" | "DeviceClass", "selectors")
        | ("Attribute", _)
        | ("DeviceCondition", "kind" | "status" | "reason")
        | ("Scheduled" | "GroupCondition", "reason")
        | ("Reply", "version" | "plugins") => Kind::Fixed,
        ("Scheduled" | "GroupCondition" | "Refuse" | "Decision", "message")
        | ("Result", "Err")
        | ("PodInfo", "excess" | "unreadable") => Kind::Sentence,
        (holder, field) if is_configuration(holder, field) => Kind::Fixed,
        _ => Kind::Name,
    }
}

/// Whether it is the name of a plugin or an argument that means the same everywhere. What arguments say of labels, and where
/// extenders are, is not.
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
