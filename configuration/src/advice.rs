//! Hints for unknown and misplaced fields.

use super::catalogue::Point;
use super::path::{Path, Segment};
use super::report::near_miss;

/// Replacements of fields of older versions, of the legacy policy and of flags.
const REPLACED: [(&str, &str); 16] = [
    ("algorithmSource", "profiles took its place: list the plugins under profiles[].plugins"),
    ("healthzBindAddress", "the flags --bind-address and --secure-port took its place"),
    ("metricsBindAddress", "the flags --bind-address and --secure-port took its place"),
    ("disablePreemption", "disable the plugin DefaultPreemption under profiles[].plugins.postFilter instead"),
    (
        "hardPodAffinitySymmetricWeight",
        "hardPodAffinityWeight took its place, in the arguments of InterPodAffinity under profiles[].pluginConfig",
    ),
    ("bindTimeoutSeconds", "it moved to the arguments of VolumeBinding under profiles[].pluginConfig"),
    ("lockObjectName", "resourceName took its place"),
    ("lockObjectNamespace", "resourceNamespace took its place"),
    ("unreserve", "reserve took its place: a plugin that reserves also unreserves"),
    ("featureGates", "feature gates are set with the flag --feature-gates"),
    ("kubeconfig", "it belongs under clientConnection"),
    ("qps", "it belongs under clientConnection"),
    ("burst", "it belongs under clientConnection"),
    ("leaderElect", "it belongs under leaderElection"),
    ("podMaxInUnschedulablePodsDuration", "it is set with the flag --pod-max-in-unschedulable-pods-duration"),
    ("hardPodAffinityWeight", "it belongs in the arguments of InterPodAffinity under profiles[].pluginConfig"),
];

const TOP_LEVEL: [&str; 10] = [
    "parallelism",
    "leaderElection",
    "clientConnection",
    "enableProfiling",
    "enableContentionProfiling",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
    "profiles",
    "extenders",
    "delayCacheUntilActive",
];

/// A hint for the unknown field at `path`; `known` are the fields that exist there.
pub(super) fn unknown_field<'a>(path: &Path, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let Some((Segment::Key(name), parents)) = path.segments().split_last() else { return None };
    let replaced = || REPLACED.iter().find(|(old, _)| old == name).map(|(_, hint)| (*hint).to_owned());
    misplaced(name, parents).or_else(replaced).or_else(|| near_miss(name, known))
}

fn misplaced(name: &str, parents: &[Segment]) -> Option<String> {
    if !parents.is_empty() && TOP_LEVEL.contains(&name) {
        return Some(format!("did you mean to move it to the top level? {name} belongs next to profiles"));
    }
    let is_profile =
        |parents: &[Segment]| matches!(parents, [Segment::Key(key), Segment::Index(_)] if key == "profiles");
    if matches!(name, "schedulerName" | "plugins" | "pluginConfig") && !is_profile(parents) {
        return Some(format!("did you mean profiles[].{name}? it belongs to a profile"));
    }
    if name == "multiPoint" || Point::ALL.iter().any(|point| point.key() == name) {
        return Some(format!("did you mean profiles[].plugins.{name}? it belongs under the plugins of a profile"));
    }
    None
}
