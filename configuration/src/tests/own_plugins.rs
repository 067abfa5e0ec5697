//! Plugins that are compiled in besides kube-scheduler's own: where they may be named, and who checks their arguments.
//!
//! Knows: a plugin that scores and filters. Must not know: any other rule.

use flotilla_framework::{
    extension::{Plugin, Point},
    profile::{ArgsError, read_args},
    registry::Registry,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{super::Configuration, with_header};
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

fn read(text: &str) -> Result<Configuration, Vec<String>> {
    let own = [Box::new(Own) as Box<dyn Plugin>, Box::new(Plain)];
    let registry = Registry::built_in().with(own).expect("names of their own");
    load(&with_header(text), "f", &FeatureGates::default(), registry)
        .map_err(|errors| errors.errors.iter().map(ToString::to_string).collect())
}

fn accept(text: &str) -> Configuration {
    read(text).unwrap_or_else(|errors| panic!("refused: {errors:#?}"))
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
    let enabled = "profiles:\n- plugins: {multiPoint: {enabled: [{name: Own}, {name: Plain}]}}\n  pluginConfig:\n";
    let cases = [
        (
            "  - {name: Own, args: {rverse: true}}\n",
            "f:6:24: profiles[0].pluginConfig[0].args.rverse: found an unknown field; expected reverse or most",
        ),
        (
            "  - {name: Own, args: {reverse: 1}}\n",
            "f:6:33: profiles[0].pluginConfig[0].args.reverse: found integer 1; expected a boolean",
        ),
        (
            "  - {name: Own, args: {reverse: true, most: 7}}\n",
            "f:6:45: profiles[0].pluginConfig[0].args.most: found 7; expected a number to reverse",
        ),
        (
            "  - {name: Plain, args: {a: 1}}\n",
            "f:6:26: profiles[0].pluginConfig[0].args.a: found an unknown field; expected no field",
        ),
    ];
    for (args, expected) in cases {
        let errors = read(&format!("{enabled}{args}")).expect_err("arguments that make no sense");
        assert_eq!(errors, [expected], "{args}");
    }
}

#[test]
fn a_plugin_is_named_only_where_it_runs() {
    let errors = read("profiles:\n- plugins: {preScore: {enabled: [{name: Own}]}}\n").expect_err("no such point");
    assert!(
        errors[0].starts_with("f:4:41: profiles[0].plugins.preScore.enabled[0].name: found \"Own\""),
        "{errors:#?}"
    );
    let errors = read("profiles:\n- plugins: {filter: {enabled: [{name: Owm}]}}\n").expect_err("no such plugin");
    assert!(errors[0].contains("found \"Owm\", which is not a plugin of kube-scheduler"), "{errors:#?}");
}
