//! Plugins, order and weights per extension point. `orders.txt` is derived by hand from kube-scheduler's rules.

use flotilla_cases::check_answers;

use super::super::Configuration;
use super::super::catalogue::{PLUGINS, Point};
use super::{accept, cases};

fn runs_at(configuration: &Configuration, point: &str) -> String {
    let plugins = &configuration.profiles[0].plugins;
    let names = match point {
        "preEnqueue" => &plugins.pre_enqueue,
        "queueSort" => &plugins.queue_sort,
        "preFilter" => &plugins.pre_filter,
        "filter" => &plugins.filter,
        "postFilter" => &plugins.post_filter,
        "preScore" => &plugins.pre_score,
        "reserve" => &plugins.reserve,
        "permit" => &plugins.permit,
        "preBind" => &plugins.pre_bind,
        "bind" => &plugins.bind,
        "postBind" => &plugins.post_bind,
        _ => {
            let weighted = plugins.score.iter().map(|plugin| format!("{}={}", plugin.name, plugin.weight));
            return weighted.collect::<Vec<_>>().join(" ");
        }
    };
    names.join(" ")
}

#[test]
fn plugins_run_in_the_order_of_kube_scheduler() {
    check_answers(cases("orders.txt"), |case| {
        let (point, plugins) = case.split_once(": ").expect("an extension point and plugins");
        let configuration = accept(&format!("profiles:\n- plugins: {plugins}"));
        // A plugin that lacks one of its extension points is in the order all the same.
        let others = configuration.warnings.iter().filter(|warning| !warning.contains(" runs at "));
        assert_eq!(others.count(), 0, "{case}: {:?}", configuration.warnings);
        runs_at(&configuration, point)
    });
}

#[test]
fn twenty_plugins_are_in_the_default_set_and_four_behind_gates() {
    let behind = PLUGINS.iter().filter(|plugin| plugin.gate.is_some()).count();
    assert_eq!((PLUGINS.len() - behind, behind), (20, 4));
}

#[test]
fn every_plugin_is_known_once_and_runs_somewhere() {
    let mut names: Vec<&str> = PLUGINS.iter().map(|plugin| plugin.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), PLUGINS.len());
    assert!(PLUGINS.iter().all(|plugin| Point::ALL.iter().any(|point| plugin.runs_at(*point))));
}
