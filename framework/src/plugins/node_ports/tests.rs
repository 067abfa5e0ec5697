//! Cases of upstream's node_ports_test.go.

use crate::{
    extension::ClusterEvent,
    testing::{
        PodBuilder,
        checks::{alone, unschedulable},
        node, pod,
    },
};

const NAME: &str = "NodePorts";

fn ports(list: &[(&str, &str, i32)]) -> PodBuilder {
    list.iter().fold(pod("p"), |pod, (ip, protocol, port)| pod.host_port_on(ip, protocol, *port))
}

type Row<'a> = (&'a str, &'a [(&'a str, &'a str, i32)], &'a [(&'a str, &'a str, i32)], bool);

#[test]
fn two_pods_cannot_have_the_same_port_of_a_node() {
    let table: [Row<'_>; 12] = [
        ("no ports at all", &[], &[], true),
        ("other ports", &[("127.0.0.1", "UDP", 8080)], &[("127.0.0.1", "UDP", 9090)], true),
        ("the same UDP port", &[("127.0.0.1", "UDP", 8080)], &[("127.0.0.1", "UDP", 8080)], false),
        ("the same TCP port", &[("127.0.0.1", "TCP", 8080)], &[("127.0.0.1", "TCP", 8080)], false),
        ("another address", &[("127.0.0.1", "TCP", 8080)], &[("127.0.0.2", "TCP", 8080)], true),
        ("another protocol", &[("127.0.0.1", "UDP", 8080)], &[("127.0.0.1", "TCP", 8080)], true),
        (
            "the second of two conflicts",
            &[("127.0.0.1", "UDP", 80), ("127.0.0.1", "UDP", 81)],
            &[("127.0.0.1", "UDP", 81)],
            false,
        ),
        (
            "the first of two conflicts",
            &[("127.0.0.1", "TCP", 80), ("127.0.0.1", "UDP", 81)],
            &[("127.0.0.1", "TCP", 80), ("127.0.0.1", "UDP", 82)],
            false,
        ),
        ("every address against one", &[("0.0.0.0", "TCP", 80)], &[("127.0.0.1", "TCP", 80)], false),
        ("one address against every", &[("127.0.0.1", "TCP", 80)], &[("0.0.0.0", "TCP", 80)], false),
        ("every address against every", &[("0.0.0.0", "TCP", 80)], &[("0.0.0.0", "TCP", 80)], false),
        ("every address, another protocol", &[("0.0.0.0", "TCP", 80)], &[("127.0.0.1", "UDP", 80)], true),
    ];
    for (case, wanted, taken, free) in table {
        let expected =
            if free { Ok(()) } else { unschedulable(&["node(s) didn't have free ports for the requested pod ports"]) };
        assert_eq!(alone(NAME).filter(&ports(wanted), &node("n"), &[ports(taken)]), expected, "{case}");
    }
}

#[test]
fn a_port_is_free_again_when_its_pod_is_gone() {
    use crate::{class::ClassId, node::NodeId, testing::checks::snapshot};
    let mut nodes = snapshot(&[(node("n"), vec![pod("a").host_port(80)])]);
    assert_eq!(nodes.ports(0).len(), 1);
    assert!(nodes.remove_pod(NodeId(0), ClassId(1)));
    assert!(nodes.ports(0).is_empty());
}

#[test]
fn a_pod_without_host_ports_is_passed_over() {
    assert_eq!(alone(NAME).pre_filter(&pod("p")), "skip");
    assert_eq!(alone(NAME).pre_filter(&pod("p").host_port(80)), "continue");
}

#[test]
fn a_pod_that_frees_the_port_or_a_new_node_wakes() {
    let wanting = ports(&[("127.0.0.1", "TCP", 80)]);
    let table = [
        ("the same port", ports(&[("0.0.0.0", "TCP", 80)]), true),
        ("another port", ports(&[("0.0.0.0", "TCP", 81)]), false),
        ("another address", ports(&[("127.0.0.2", "TCP", 80)]), false),
        ("no port", pod("gone"), false),
    ];
    for (case, gone, expected) in table {
        assert_eq!(alone(NAME).wakes(ClusterEvent::PodRemoved(&gone.build().class), &wanting), expected, "{case}");
    }
    let (old, new) = (node("n").build(), node("n").label("a", "b").build());
    assert!(alone(NAME).wakes(ClusterEvent::NodeAdded(&new), &wanting));
    assert!(!alone(NAME).wakes(ClusterEvent::NodeUpdated { old: &old, new: &new }, &wanting));
}
