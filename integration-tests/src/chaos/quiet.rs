//! Liveness check after all faults: no feasible pod is pending.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;

use super::history::{asks, has, holds, plus, priority, selects};
use crate::{
    census::{Census, has_ended},
    fleet::node_of,
};

/// Pending pods that fit on a node, or would after preemption, one line each.
#[must_use]
pub(super) fn fitting(census: &Census) -> Vec<String> {
    let waiting = census.pods.iter().filter(|pod| node_of(pod).is_none() && !has_ended(pod));
    waiting.filter_map(|pod| room_for(census, pod)).collect()
}

fn room_for(census: &Census, pod: &Pod) -> Option<String> {
    let name = pod.name_any();
    let admitted = || census.nodes.iter().filter(|node| selects(pod, node));
    let fits = |node: &&Node, counts: &dyn Fn(&Pod) -> bool| {
        let on = census.on_node(node).filter(|other| counts(other)).map(asks);
        holds(has(node), on.fold(asks(pod), plus))
    };
    if let Some(node) = admitted().find(|node| fits(node, &|_| true)) {
        return Some(format!("{name} waits and fits on {}", node.name_any()));
    }
    // Checked without lower-priority pods: otherwise the node is too small, or full of pods of the same priority.
    let node = admitted().find(|node| fits(node, &|other| priority(other) >= priority(pod)))?;
    Some(format!("{name} waits, and pods of lower priority could make room on {}", node.name_any()))
}

impl Census {
    fn on_node<'a>(&'a self, node: &Node) -> impl Iterator<Item = &'a Pod> {
        let name = node.name_any();
        self.pods.iter().filter(move |pod| node_of(pod) == Some(&*name) && !has_ended(pod))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    /// Two nodes of one CPU in different zones, and pods: name, node, CPU, priority, zone.
    fn census(pods: &[(&str, &str, &str, i32, &str)]) -> Census {
        let node = |name: &str| {
            let room = json!({ "cpu": "1", "memory": "1Gi", "pods": "3" });
            let metadata = json!({ "name": name, "labels": { "zone": name } });
            from_value(json!({ "metadata": metadata, "status": { "allocatable": room } })).expect("a node")
        };
        let pod = |(name, node, cpu, priority, zone): &(&str, &str, &str, i32, &str)| {
            let container = json!({ "name": "main", "resources": { "requests": { "cpu": cpu } } });
            let node = (!node.is_empty()).then_some(node);
            let selector = if zone.is_empty() { json!({}) } else { json!({ "zone": zone }) };
            let spec = json!({
                "nodeName": node, "priority": priority, "containers": [container], "nodeSelector": selector,
            });
            from_value(json!({ "metadata": { "name": name }, "spec": spec })).expect("a pod")
        };
        Census { nodes: vec![node("a"), node("b")], pods: pods.iter().map(pod).collect() }
    }

    #[test]
    fn a_pod_that_waits_and_fits_is_found() {
        let census = census(&[("x", "a", "900m", 10, ""), ("y", "b", "500m", 10, ""), ("z", "", "500m", 10, "")]);
        assert_eq!(fitting(&census), ["z waits and fits on b"]);
    }

    #[test]
    fn a_pod_for_which_others_could_make_room_is_found() {
        let census = census(&[("x", "a", "900m", 10, ""), ("y", "b", "900m", 30, ""), ("z", "", "500m", 30, "")]);
        assert_eq!(fitting(&census), ["z waits, and pods of lower priority could make room on a"]);
    }

    #[test]
    fn pods_without_room_may_wait() {
        let full = [("x", "a", "900m", 10, ""), ("y", "b", "900m", 10, "")];
        let waiting = [("same", "", "500m", 10, ""), ("huge", "", "2", 30, ""), ("zoned", "", "50m", 5, "c")];
        assert_eq!(fitting(&census(&[&full[..], &waiting].concat())), Vec::<String>::new());
        assert_eq!(fitting(&census(&[&full[..], &[("zoned", "", "100m", 10, "b")]].concat())).len(), 1);
    }
}
