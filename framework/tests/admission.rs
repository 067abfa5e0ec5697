//! What keeps pods out of the queue.
//!
//! Knows: pods with gates and with needs. Must not know: queues.

use flotilla_framework::{
    admission::{gate, unbuilt},
    class::{Class, Unbuilt},
    registry::Registry,
    testing::{pod, profile},
};

#[test]
fn a_gate_holds_a_pod_only_where_the_profile_has_the_plugin() {
    let gated = pod("p").gate("example.com/a").gate("example.com/b").build();
    let message = "waiting for scheduling gates: [example.com/a example.com/b]".to_owned();
    assert_eq!(gate(Registry::built_in(), &profile(), &gated), Some(("SchedulingGates", message)));
    assert_eq!(gate(Registry::built_in(), &profile(), &pod("p").build()), None);
    let mut without = profile();
    without.plugins.pre_enqueue.clear();
    assert_eq!(gate(Registry::built_in(), &without, &gated), None);
}

#[test]
fn a_need_holds_a_pod_back_only_where_the_profile_has_the_plugin() {
    let class = Class { unbuilt: vec![Unbuilt::ResourceClaims], ..Class::default() };
    let mut profile = profile();
    profile.plugins.filter.retain(|name| name != Unbuilt::ResourceClaims.plugin());
    assert_eq!(unbuilt(&profile, &class), None);
    profile.plugins.filter.push(Unbuilt::ResourceClaims.plugin().to_owned());
    let message = unbuilt(&profile, &class).expect("held back");
    assert!(message.starts_with("pod uses resourceClaims, and plugin DynamicResources is not"), "{message}");
    assert_eq!(unbuilt(&profile, &Class::default()), None);
}
