//! Registration: a plugin needs one entry in one list.

use std::collections::BTreeSet;

use super::*;
use crate::{
    class::Class,
    extension::{ClusterEvent, Facts, Filter, Kind, NodeFilter, Preparation},
    plugins::wakers,
    prepared::{NodeResult, Prepared, parts::Point},
    profile::Args,
    snapshot::{Slot, Snapshot},
    status::{FilterResult, Refusal},
    testing::{node, pod, profile},
};

struct Closed;

impl Plugin for Closed {
    fn name(&self) -> &'static str {
        "Closed"
    }

    fn filter(&self, _: &mut Preparation<'_>) -> Option<Filter> {
        Some(Filter::Node(Box::new(Refuses)))
    }

    fn events(&self) -> &'static [&'static str] {
        &["AssignedPodDelete"]
    }

    fn wakes(&self, event: ClusterEvent<'_>, _: &Class, _: &Args) -> bool {
        matches!(event, ClusterEvent::PodRemoved(_))
    }

    fn reads(&self, _: &Args) -> &'static [Kind] {
        &[Kind::Service]
    }
}

struct Refuses;

impl NodeFilter for Refuses {
    fn filter(&self, _: &Snapshot, _: Slot) -> FilterResult {
        Err(Refusal::unschedulable(0))
    }

    fn reasons(&self, _: u64) -> Vec<String> {
        vec!["node(s) were closed".to_owned()]
    }
}

#[test]
fn every_name_is_there_once_and_found_at_its_number() {
    let registry = Registry::built_in();
    let names: BTreeSet<&str> = registry.iter().map(Plugin::name).collect();
    assert_eq!(names.len(), registry.iter().count());
    for (number, plugin) in registry.iter().enumerate() {
        assert_eq!(registry.number(plugin.name()), Some(number));
        assert_eq!(registry.find(plugin.name()).map(Plugin::name), Some(plugin.name()));
    }
    assert!(registry.find("Closed").is_none() && registry.number("Closed").is_none());
}

#[test]
fn every_kind_is_read_by_a_plugin_that_is_built_in() {
    let args = Args::default();
    for kind in Kind::ALL {
        assert!(Registry::built_in().iter().any(|plugin| plugin.reads(&args).contains(&kind)), "{kind:?}");
        assert_eq!(Kind::of(kind.plural()), Some(kind));
    }
    assert_eq!(Kind::of("pods"), None);
}

#[test]
fn a_further_plugin_judges_is_counted_and_is_listened_for_once_a_profile_names_it() {
    let built_in = Registry::built_in();
    let registry = built_in.with([Box::new(Closed) as Box<dyn Plugin>]).expect("a new name");
    assert_eq!(registry.number("Closed"), Some(built_in.iter().count()));
    let mut profile = profile();
    profile.plugins.filter.push("Closed".to_owned());
    let (class, mut nodes) = (pod("p").build().class, Snapshot::new(0));
    let slot = nodes.upsert_node(crate::node::NodeId(1), &node("n").capacity("cpu", "1").build());
    let prepared = Prepared::new(registry, &profile, &class, &Facts::default(), &nodes);
    let NodeResult::Refused(order, refusal) = prepared.judge(&nodes, slot) else { panic!("it is closed") };
    assert_eq!(prepared.plugin(order), Some("Closed"));
    assert_eq!(prepared.reasons(order, refusal.detail), ["node(s) were closed"]);
    assert!(prepared.parts().of(registry, Point::Filter).any(|plugin| plugin == "Closed"));

    assert_eq!(wakers::of(registry, "Closed"), ["AssignedPodDelete"]);
    let may_wake = |event| wakers::may_wake(registry, std::slice::from_ref(&profile), "Closed", event);
    assert!(may_wake(ClusterEvent::PodRemoved(&class)) && !may_wake(ClusterEvent::PodAdded(&class)));
    assert!(may_wake(ClusterEvent::SelectorChanged("default")), "it reads services");
}

#[test]
fn a_name_that_is_taken_is_an_error() {
    let twice = [Box::new(Closed) as Box<dyn Plugin>, Box::new(Closed)];
    assert_eq!(Registry::built_in().with(twice).map(|_| ()), Err(NameTaken("Closed")));
}
