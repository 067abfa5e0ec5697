//! Features of generated clusters.

/// Default features of `integration-tests/oracle/generate`. A new plugin adds its features.
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

/// Features of a run that compares pod groups: `groups` and all others but these. Configurations and gates affect which pods are tried.
#[must_use]
pub fn of_groups() -> String {
    const APART: [&str; 2] = ["configuration", "gates"];
    let others = FEATURES.iter().filter(|feature| !APART.contains(feature));
    others.copied().chain(["groups"]).collect::<Vec<_>>().join(",")
}
