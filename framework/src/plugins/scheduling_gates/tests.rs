//! Message for a gated pod.

use super::*;
use crate::testing::pod;

#[test]
fn a_gated_pod_says_which_gates_it_waits_for_in_its_order() {
    assert_eq!(SchedulingGates.pre_enqueue(&pod("p").build()), None);
    let said = SchedulingGates.pre_enqueue(&pod("p").gate("b.io/x").gate("a").build());
    assert_eq!(said.as_deref(), Some("waiting for scheduling gates: [b.io/x a]"));
}
