//! Defaults that depend on feature gates. Rejected settings are in `cases/gates.txt`.

use super::super::{Configuration, examine};
use super::with_header;
use crate::features::FeatureGates;
use flotilla_framework::registry::Registry;

fn read(gates: &str, text: &str) -> (Option<Configuration>, String) {
    let gates = FeatureGates::examine(gates).0;
    let found = examine(&with_header(text), "f", &gates, Registry::built_in());
    (found.configuration, found.errors.map(|errors| errors.to_string()).unwrap_or_default())
}

#[test]
fn gates_that_are_off_leave_out_the_arguments_that_they_are_for() {
    let gates = "StorageCapacityScoring=false,DRASchedulerFilterTimeout=false,DRADeviceBindingConditions=false";
    let configuration = read(gates, "").0.unwrap_or_default();
    let args = &configuration.profiles[0].args;
    assert!(args.volume_binding.shape.is_empty());
    assert_eq!((args.dynamic_resources.filter_timeout, args.dynamic_resources.binding_timeout), (None, None));
    let shown = configuration.to_v1();
    let timeouts = &shown["profiles"][0]["pluginConfig"][1]["args"];
    assert_eq!((timeouts.get("filterTimeout"), timeouts.get("bindingTimeout")), (Some(&serde_json::Value::Null), None));
}

#[test]
fn gates_that_are_on_bring_their_plugins() {
    let gates =
        "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,InPlacePodVerticalScalingSchedulerPreemption=true";
    let configuration = read(gates, "").0.unwrap_or_default();
    let plugins = &configuration.profiles[0].plugins;
    assert_eq!(plugins.pre_enqueue, ["SchedulingGates", "DynamicResources", "DefaultPreemption", "GangScheduling"]);
    assert_eq!(plugins.permit, ["DeferredPodScheduling", "GangScheduling"]);
    assert_eq!(plugins.filter[5..7], ["DeferredPodScheduling", "NodeResourcesFit"]);
    assert_eq!(plugins.placement_generate, ["TopologyPlacementGenerator"]);
    let scores: Vec<_> = plugins.placement_score.iter().map(|plugin| (plugin.name.as_str(), plugin.weight)).collect();
    assert_eq!(scores, [("NodeResourcesFit", 1), ("PodGroupPodsCount", 1)]);
    let stock = Configuration::default();
    assert_eq!(stock.profiles[0].plugins.placement_score.len(), 1);
    assert_eq!(stock.profiles[0].plugins.pod_group_post_filter, ["DynamicResources", "DefaultPreemption"]);
}

#[test]
fn a_plugin_behind_a_gate_may_be_named_where_its_gate_is_on() {
    let text = "profiles:\n- plugins:\n    preEnqueue: {disabled: [{name: GangScheduling}]}\n    permit: {enabled: [{name: \
                GangScheduling}]}\n";
    let (configuration, errors) = read("GenericWorkload=true", text);
    assert_eq!(errors, "");
    let plugins = configuration.expect("sound").profiles.swap_remove(0).plugins;
    assert_eq!((plugins.permit.len(), plugins.pre_enqueue.contains(&"GangScheduling".to_owned())), (1, false));
    assert!(read("", text).1.contains("plugin \"GangScheduling\" needs the feature gate"));
}
