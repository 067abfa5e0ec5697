//! Compiled-in plugins: where a configuration may name them, and the checks of their arguments.

use flotilla_cases::check_answers;
use flotilla_framework::{
    extension::{Plugin, Point},
    profile::{ArgsError, read_args},
    registry::Registry,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{super::Configuration, cases, shown, with_header};
use crate::{features::FeatureGates, load};

struct Own;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct OwnArgs {
    #[serde(default)]
    reverse: bool,
    #[serde(default)]
    most: u8,
}

impl Plugin for Own {
    fn name(&self) -> &'static str {
        "Own"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::Filter, Point::Score]
    }

    fn check_args(&self, args: &Value) -> Result<(), ArgsError> {
        match read_args::<OwnArgs>(args)? {
            OwnArgs { reverse: true, most: 7 } => Err(ArgsError::at("most", "found 7, expected a number to reverse")),
            OwnArgs { .. } => Ok(()),
        }
    }
}

struct Plain;

impl Plugin for Plain {
    fn name(&self) -> &'static str {
        "Plain"
    }
}

fn registry() -> Registry {
    let own = [Box::new(Own) as Box<dyn Plugin>, Box::new(Plain)];
    Registry::built_in().with(own).expect("names of their own")
}

fn accept(text: &str) -> Configuration {
    load(&with_header(text), "f", &FeatureGates::default(), registry())
        .unwrap_or_else(|errors| panic!("refused: {errors}"))
}

#[test]
fn multi_point_enables_a_plugin_where_it_runs_after_the_default_ones_and_with_its_weight() {
    let configuration = accept("profiles:\n- plugins: {multiPoint: {enabled: [{name: Own, weight: 4}]}}\n");
    let plugins = &configuration.profiles[0].plugins;
    assert_eq!(plugins.filter.last().map(String::as_str), Some("Own"));
    assert_eq!(plugins.score.last().map(|score| (&*score.name, score.weight)), Some(("Own", 4)));
    assert!(!plugins.pre_filter.iter().any(|name| name == "Own"));
}

#[test]
fn a_point_enables_a_plugin_there_alone_with_a_weight_of_one() {
    let configuration = accept("profiles:\n- plugins: {score: {enabled: [{name: Own}]}}\n");
    let plugins = &configuration.profiles[0].plugins;
    assert!(!plugins.filter.iter().any(|name| name == "Own"));
    assert_eq!(plugins.score.last().map(|score| (&*score.name, score.weight)), Some(("Own", 1)));
}

#[test]
fn arguments_reach_the_profile_and_are_shown() {
    let text = "profiles:\n- plugins: {score: {enabled: [{name: Own}]}}\n  pluginConfig: [{name: Own, args: {reverse: true}}]\n";
    let configuration = accept(text);
    assert_eq!(configuration.warnings, Vec::<String>::new());
    assert_eq!(configuration.profiles[0].args.own.get("Own"), Some(&json!({ "reverse": true })));
    let shown = configuration.to_v1();
    let configs = shown["profiles"][0]["pluginConfig"].as_array().expect("a list");
    assert!(configs.contains(&json!({ "name": "Own", "args": { "reverse": true } })), "{configs:#?}");
}

#[test]
fn arguments_of_a_plugin_that_is_not_enabled_are_left_out() {
    let configuration = accept("profiles:\n- pluginConfig: [{name: Own, args: {rverse: 1}}]\n");
    assert!(configuration.profiles[0].args.own.is_empty());
}

#[test]
fn what_a_plugin_refuses_is_told_with_its_place() {
    check_answers(cases("own_plugins.txt"), |text| shown(text, registry()));
}
