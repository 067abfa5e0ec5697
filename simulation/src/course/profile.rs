//! Profiles of a run.

use flotilla_framework::{
    profile::{Plugins, PodTopologySpreadDefaulting, Profile, WeightedPlugin},
    testing,
};

use crate::{
    faulty,
    plan::{Hostile, Plan},
};

const STORAGE: [&str; 4] = ["NodeVolumeLimits", "VolumeBinding", "VolumeRestrictions", "VolumeZone"];

/// The coordinators' profile. Every watched kind costs time, so most runs omit some.
pub(super) fn profile(plan: &Plan) -> Profile {
    let mut profile = testing::profile();
    let plugins = &mut profile.plugins;
    plugins.post_filter = vec!["DefaultPreemption".to_owned()];
    plugins.pre_enqueue.push("DefaultPreemption".to_owned());
    if plan.with_volumes {
        for list in [&mut plugins.reserve, &mut plugins.pre_bind] {
            list.push("VolumeBinding".to_owned());
        }
    } else {
        let is_of_volumes = |name: &str| STORAGE.contains(&name);
        for list in [&mut plugins.pre_filter, &mut plugins.filter, &mut plugins.pre_score] {
            list.retain(|name| !is_of_volumes(name));
        }
        plugins.score.retain(|score| !is_of_volumes(&score.name));
    }
    if plan.with_devices {
        allocate_devices(&mut profile.plugins);
    }
    if plan.hostile == Some(Hostile::Plugin) {
        faulty::enable(&mut profile.plugins);
    }
    if !plan.spreads {
        let spread = &mut profile.args.pod_topology_spread;
        (spread.defaulting_type, spread.default_constraints) = (PodTopologySpreadDefaulting::List, Vec::new());
    }
    profile
}

/// Adds DynamicResources at its default position.
fn allocate_devices(plugins: &mut Plugins) {
    let name = || "DynamicResources".to_owned();
    let lists = [&mut plugins.pre_filter, &mut plugins.filter, &mut plugins.reserve, &mut plugins.pre_bind];
    lists.into_iter().for_each(|list| list.push(name()));
    plugins.post_filter.insert(0, name());
    plugins.pre_enqueue.insert(1, name());
    let place = plugins.score.iter().position(|score| score.name == "NodeResourcesBalancedAllocation");
    let place = place.unwrap_or(plugins.score.len());
    plugins.score.insert(place, WeightedPlugin { name: name(), weight: 2 });
}
