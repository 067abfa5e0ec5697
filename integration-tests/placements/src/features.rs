//! What generated clusters may hold.
//!
//! Knows: which features of the generator Flotilla is to agree on. Must not know: how a cluster is made.

/// The features of `integration-tests/oracle/generate` that a run uses unless it is told others: all that only need plugins
/// which are built. A plugin that gets built brings its features.
///
/// What plugins that are not built leave in kube-scheduler's answers is taken away in one place, `normal.rs`; it follows
/// the list of plugins by itself.
pub const FEATURES: &[&str] = &[
    "resources",
    "taints",
    "nodeaffinity",
    "ports",
    "images",
    "gates",
    "volumes",
    "spread",
    "controllers",
    "interpod",
    "priorities",
    "declared",
    "configuration",
    "odd",
    "preemption",
    "claims",
    "extended",
];

/// The features of a run that compares how pod groups are placed: `groups` and all others but these.
///
/// Configurations and gates are about which pods are tried.
#[must_use]
pub fn of_groups() -> String {
    const APART: [&str; 2] = ["configuration", "gates"];
    let others = FEATURES.iter().filter(|feature| !APART.contains(feature));
    others.copied().chain(["groups"]).collect::<Vec<_>>().join(",")
}
