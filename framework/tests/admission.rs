//! Gates of pods.

use flotilla_framework::{
    admission::gate,
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
