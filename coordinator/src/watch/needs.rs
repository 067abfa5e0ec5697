//! The kinds to watch: those that a plugin of some profile reads. Pods and nodes always are.
//!
//! Source: kube-scheduler lists and watches only the kinds that its plugins request listers for.

use flotilla_framework::{extension::Kind, pod_group::reads_coscheduling, profile::Profile, registry::Registry};

use super::kinds::COSCHEDULING;

/// Whether a plugin of one of the profiles reads a kind, by its plural. A kind that no plugin declares is always watched.
pub(super) fn is_needed(registry: Registry, what: &str, profiles: &[Profile]) -> bool {
    if what == COSCHEDULING {
        return profiles.iter().any(reads_coscheduling);
    }
    let Some(kind) = Kind::of(what) else { return true };
    profiles.iter().any(|profile| {
        let mut readers = registry.iter().filter(|plugin| plugin.reads(&profile.args).contains(&kind));
        readers.any(|reader| profile.plugins.names().any(|name| name == reader.name()))
    })
}

#[cfg(test)]
mod tests {
    use flotilla_framework::{
        profile::{Plugins, PodTopologySpreadDefaulting},
        testing,
    };

    use super::*;

    /// The default profile, which allocates devices and preempts.
    fn profile() -> Profile {
        let mut profile = testing::profile();
        profile.plugins.post_filter = ["DynamicResources", "DefaultPreemption"].map(str::to_owned).to_vec();
        profile
    }

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
            &mut plugins.post_filter,
        ];
        for list in lists {
            list.retain(|name| !names.contains(&name.as_str()));
        }
        plugins.score.retain(|score| !names.contains(&score.name.as_str()));
        profile
    }

    /// The kinds that DynamicResources reads.
    const DEVICES: [&str; 4] = ["resourceclaims", "deviceclasses", "resourceslices", "devicetaintrules"];

    fn is_needed(what: &str, profiles: &[Profile]) -> bool {
        super::is_needed(Registry::built_in(), what, profiles)
    }

    fn needed(profiles: &[Profile]) -> Vec<&'static str> {
        Kind::ALL.into_iter().map(Kind::plural).filter(|kind| is_needed(kind, profiles)).collect()
    }

    #[test]
    fn the_stock_profile_needs_every_kind() {
        assert_eq!(needed(&[profile()]).len(), Kind::ALL.len());
    }

    #[test]
    fn a_kind_is_watched_as_long_as_one_plugin_of_one_profile_reads_it() {
        let storage = ["NodeVolumeLimits", "VolumeBinding", "VolumeRestrictions", "VolumeZone"];
        let bare = without(&storage);
        let left =
            ["namespaces", "services", "replicationcontrollers", "replicasets", "statefulsets", "poddisruptionbudgets"];
        assert_eq!(needed(std::slice::from_ref(&bare)), [&left[..], &DEVICES].concat());
        assert_eq!(needed(&[bare, profile()]).len(), Kind::ALL.len());
        let with_restrictions = without(&["NodeVolumeLimits", "VolumeBinding", "VolumeZone", "DynamicResources"]);
        assert!(needed(&[with_restrictions]).ends_with(&["persistentvolumeclaims"]));
        assert!(is_needed("pods", &[]) && is_needed("nodes", &[]));
    }

    #[test]
    fn groups_of_scheduler_plugins_are_watched_only_with_the_plugin_coscheduling() {
        let mut with = profile();
        assert!(!is_needed(COSCHEDULING, std::slice::from_ref(&with)));
        with.plugins.permit.push("Coscheduling".to_owned());
        assert!(is_needed(COSCHEDULING, &[profile(), with]));
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

    #[test]
    fn each_plugin_has_what_it_reads_watched() {
        let all = |kinds: &[&'static str]| kinds.to_vec();
        let selecting = ["services", "replicationcontrollers", "replicasets", "statefulsets"];
        let (claims, volumes, classes) = ("persistentvolumeclaims", "persistentvolumes", "storageclasses");
        let limits = [claims, volumes, classes, "csidrivers", "csinodes", "volumeattachments"];
        let binding = [claims, volumes, classes, "csidrivers", "csistoragecapacities", "csinodes"];
        for plugin in Registry::built_in().iter() {
            let mut profile = Profile { plugins: Plugins::default(), ..profile() };
            profile.plugins.filter = vec![plugin.name().to_owned()];
            let expected = match plugin.name() {
                "InterPodAffinity" => all(&["namespaces"]),
                "PodTopologySpread" => all(&selecting),
                "DefaultPreemption" => all(&["poddisruptionbudgets"]),
                "DynamicResources" => all(&DEVICES),
                "NodeVolumeLimits" => all(&limits),
                "VolumeBinding" => all(&binding),
                "VolumeRestrictions" => all(&[claims]),
                "VolumeZone" => all(&[claims, volumes, classes]),
                _ => Vec::new(),
            };
            assert_eq!(needed(&[profile]), expected, "{}", plugin.name());
        }
    }
}
