//! Which kinds of objects are watched at all: those that a plugin of some profile reads.
//!
//! Knows: which plugins read which kind. Must not know: how a kind is watched, or what a plugin makes of it.
//!
//! Source: kube-scheduler's plugins ask for the listers that they need when they are made, and only what was asked for
//! is listed and watched. Pods and nodes always are.

use flotilla_framework::profile::{PodTopologySpreadDefaulting, Profile};

const LIMITS: &str = "NodeVolumeLimits";
const BINDING: &str = "VolumeBinding";
const RESTRICTIONS: &str = "VolumeRestrictions";
const SPREAD: &str = "PodTopologySpread";
const ZONE: &str = "VolumeZone";

/// The plugins that read a kind, by its plural. A kind that is not here is always watched.
const READERS: &[(&str, &[&str])] = &[
    ("namespaces", &["InterPodAffinity"]),
    ("services", &[SPREAD]),
    ("replicationcontrollers", &[SPREAD]),
    ("replicasets", &[SPREAD]),
    ("statefulsets", &[SPREAD]),
    ("poddisruptionbudgets", &["DefaultPreemption"]),
    ("persistentvolumeclaims", &[LIMITS, BINDING, RESTRICTIONS, ZONE]),
    ("persistentvolumes", &[LIMITS, BINDING, ZONE]),
    ("storageclasses", &[LIMITS, BINDING, ZONE]),
    ("csidrivers", &[LIMITS, BINDING]),
    ("csistoragecapacities", &[BINDING]),
    ("csinodes", &[LIMITS, BINDING]),
    ("volumeattachments", &[LIMITS]),
];

/// Whether a plugin of one of the profiles reads this kind.
pub(super) fn is_needed(what: &str, profiles: &[Profile]) -> bool {
    let readers = READERS.iter().find(|(kind, _)| *kind == what).map(|(_, readers)| *readers);
    readers.is_none_or(|readers| profiles.iter().any(|profile| readers.iter().any(|reader| reads(profile, reader))))
}

/// Whether a profile has a plugin, and has it read anything: PodTopologySpread reads what selects pods only where pods
/// without constraints of their own get some by default.
fn reads(profile: &Profile, plugin: &str) -> bool {
    let args = &profile.args.pod_topology_spread;
    let is_by_default =
        args.defaulting_type == PodTopologySpreadDefaulting::System || !args.default_constraints.is_empty();
    has(profile, plugin) && (plugin != SPREAD || is_by_default)
}

fn has(profile: &Profile, plugin: &str) -> bool {
    let plugins = &profile.plugins;
    let named = [
        &plugins.pre_enqueue,
        &plugins.pre_filter,
        &plugins.filter,
        &plugins.post_filter,
        &plugins.pre_score,
        &plugins.reserve,
        &plugins.permit,
        &plugins.pre_bind,
        &plugins.bind,
        &plugins.post_bind,
    ];
    named.into_iter().flatten().any(|name| name == plugin) || plugins.score.iter().any(|score| score.name == plugin)
}

#[cfg(test)]
mod tests {
    use flotilla_framework::testing;

    use super::*;

    /// The stock profile, which preempts.
    fn profile() -> Profile {
        let mut profile = testing::profile();
        profile.plugins.post_filter = vec!["DefaultPreemption".to_owned()];
        profile
    }

    /// The stock profile without these plugins.
    fn without(names: &[&str]) -> Profile {
        let mut profile = profile();
        let plugins = &mut profile.plugins;
        let lists = [
            &mut plugins.pre_enqueue,
            &mut plugins.pre_filter,
            &mut plugins.filter,
            &mut plugins.pre_score,
            &mut plugins.reserve,
            &mut plugins.pre_bind,
        ];
        for list in lists {
            list.retain(|name| !names.contains(&name.as_str()));
        }
        plugins.score.retain(|score| !names.contains(&score.name.as_str()));
        profile
    }

    fn needed(profiles: &[Profile]) -> Vec<&'static str> {
        READERS.iter().map(|(kind, _)| *kind).filter(|kind| is_needed(kind, profiles)).collect()
    }

    #[test]
    fn the_stock_profile_needs_every_kind() {
        assert_eq!(needed(&[profile()]).len(), READERS.len());
    }

    #[test]
    fn a_kind_is_watched_as_long_as_one_plugin_of_one_profile_reads_it() {
        let storage = [LIMITS, BINDING, RESTRICTIONS, ZONE];
        let bare = without(&storage);
        let left =
            ["namespaces", "services", "replicationcontrollers", "replicasets", "statefulsets", "poddisruptionbudgets"];
        assert_eq!(needed(std::slice::from_ref(&bare)), left);
        assert_eq!(needed(&[bare, profile()]).len(), READERS.len());
        let with_restrictions = without(&[LIMITS, BINDING, ZONE]);
        assert!(needed(&[with_restrictions]).ends_with(&["persistentvolumeclaims"]));
        assert!(is_needed("pods", &[]) && is_needed("nodes", &[]));
    }

    #[test]
    fn what_selects_pods_is_read_only_where_constraints_are_given_by_default() {
        let mut profile = profile();
        profile.args.pod_topology_spread.defaulting_type = PodTopologySpreadDefaulting::List;
        profile.args.pod_topology_spread.default_constraints = Vec::new();
        assert!(!is_needed("services", &[profile.clone()]));
        profile.args.pod_topology_spread.default_constraints =
            vec![k8s_openapi::api::core::v1::TopologySpreadConstraint::default()];
        assert!(is_needed("services", &[profile]));
    }
}
