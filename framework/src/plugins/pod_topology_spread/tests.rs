//! Cases of upstream's filtering_test.go, scoring_test.go and plugin_test.go, and of spread_test.go for the default selector.

use super::*;
use crate::{
    class::Owner,
    extension::{DefaultSelector, Facts},
    labels::{LabelOperator, LabelRequirement},
    node::NodeInfo,
    testing::{
        NodeBuilder, PodBuilder,
        checks::{NodeWithPods, Said, alone, unresolvable, unschedulable},
        node, pod, selecting,
    },
};

const NAME: &str = "PodTopologySpread";

const WEB: (&str, &str) = ("app", "web");

fn web(name: &str) -> PodBuilder {
    pod(name).label("app", "web")
}

/// Nodes by zone, with the number of the application's pods on each. A zone `-` means no label.
fn cluster(nodes: &[(&str, usize)]) -> Vec<NodeWithPods> {
    let standing = |(number, &(zone, pods)): (usize, &(&str, usize))| {
        let built = node(&format!("n{number}"));
        let built = if zone == "-" { built } else { built.label("zone", zone) };
        (built, vec![web("other"); pods])
    };
    nodes.iter().enumerate().map(standing).collect()
}

fn skewed() -> Said {
    unschedulable(&["node(s) didn't match pod topology spread constraints"])
}

fn unlabelled() -> Said {
    unresolvable(&["node(s) didn't match pod topology spread constraints (missing required label)"])
}

#[test]
fn a_domain_may_be_ahead_of_the_lowest_by_the_skew_and_no_more() {
    type Row = (&'static str, i32, &'static [(&'static str, usize)], &'static [bool]);
    let table: [Row; 8] = [
        ("no pods at all", 1, &[("a", 0), ("b", 0)], &[true, true]),
        ("one ahead", 1, &[("a", 1), ("b", 0)], &[false, true]),
        ("one ahead, two allowed", 2, &[("a", 1), ("b", 0)], &[true, true]),
        ("two nodes are one zone", 1, &[("a", 1), ("a", 1), ("b", 1)], &[false, false, true]),
        ("even", 1, &[("a", 2), ("b", 2)], &[true, true]),
        ("a node without pods in a full zone", 1, &[("a", 2), ("a", 0), ("b", 1)], &[false, false, true]),
        ("three zones", 1, &[("a", 2), ("b", 1), ("c", 1)], &[false, true, true]),
        ("one zone alone is the lowest itself", 1, &[("a", 7)], &[true]),
    ];
    for (case, skew, nodes, fits) in table {
        let said = alone(NAME).verdicts(&web("p").spread(skew, "zone", WEB), &cluster(nodes));
        let expected: Vec<Said> = fits.iter().map(|&fits| if fits { Ok(()) } else { skewed() }).collect();
        assert_eq!(said, expected, "{case}");
    }
}

#[test]
fn a_pod_that_does_not_match_itself_may_join_a_domain_that_is_full_for_others() {
    let nodes = cluster(&[("a", 1), ("b", 0)]);
    assert_eq!(alone(NAME).verdicts(&pod("p").spread(1, "zone", WEB), &nodes), [Ok(()), Ok(())]);
    assert_eq!(alone(NAME).verdicts(&web("p").spread(1, "zone", WEB), &nodes), [skewed(), Ok(())]);
}

#[test]
fn a_node_without_a_label_is_refused_for_good_and_counts_nowhere() {
    let nodes = cluster(&[("a", 1), ("-", 0), ("b", 1)]);
    let said = alone(NAME).verdicts(&web("p").spread(1, "zone", WEB), &nodes);
    assert_eq!(said, [Ok(()), unlabelled(), Ok(())], "the empty node does not make the lowest count 0");
    let both = web("p").spread(1, "zone", WEB).spread(1, "rack", WEB);
    let mut nodes = cluster(&[("a", 5), ("b", 0), ("a", 0)]);
    for place in [1, 2] {
        nodes[place].0 = nodes[place].0.clone().label("rack", &format!("r{place}"));
    }
    let said = alone(NAME).verdicts(&both, &nodes);
    assert_eq!(said, [unlabelled(), Ok(()), Ok(())], "pods on a node that lacks any of the labels do not count");
}

#[test]
fn with_fewer_domains_than_wanted_the_lowest_count_is_zero() {
    let nodes = cluster(&[("a", 1), ("b", 1)]);
    let wanting = |domains| web("p").spread_with(1, "zone", WEB, |constraint| constraint.min_domains = domains);
    assert_eq!(alone(NAME).verdicts(&wanting(2), &nodes), [Ok(()), Ok(())]);
    assert_eq!(alone(NAME).verdicts(&wanting(3), &nodes), [skewed(), skewed()]);
    let without = web("p").spread(1, "zone", WEB);
    assert_eq!(alone(NAME).verdicts(&without, &cluster(&[("-", 0)])), [unlabelled()], "no domain at all");
}

#[test]
fn terminating_pods_and_those_of_other_namespaces_do_not_count() {
    for (case, other) in [("terminating", web("o").terminating()), ("elsewhere", web("o").namespace("other"))] {
        let nodes = [(node("n0").label("zone", "a"), vec![other]), (node("n1").label("zone", "b"), vec![])];
        assert_eq!(alone(NAME).verdicts(&web("p").spread(1, "zone", WEB), &nodes), [Ok(()), Ok(())], "{case}");
    }
}

#[test]
fn a_selector_of_everything_counts_only_the_pod_itself() {
    let everything = |skew| {
        web("p").spread_with(skew, "zone", WEB, |constraint| constraint.selector = Ok(LabelSelector::EVERYTHING))
    };
    let nodes = cluster(&[("a", 3), ("b", 0)]);
    assert_eq!(alone(NAME).verdicts(&everything(1), &nodes), [Ok(()), Ok(())]);
    let nothing = web("p").spread_with(1, "zone", WEB, |constraint| constraint.selector = Ok(LabelSelector::Nothing));
    assert_eq!(alone(NAME).verdicts(&nothing, &nodes), [Ok(()), Ok(())]);
}

#[test]
fn every_constraint_must_hold() {
    let host = "kubernetes.io/hostname";
    let wanting = web("p").spread(1, "zone", WEB).spread(1, host, WEB);
    let said = alone(NAME).verdicts(&wanting, &cluster(&[("a", 2), ("a", 0), ("b", 1), ("b", 1)]));
    assert_eq!(said, [skewed(), Ok(()), skewed(), skewed()], "zones are even, hosts are not");
    let said = alone(NAME).verdicts(&wanting, &cluster(&[("a", 1), ("a", 1), ("b", 1), ("b", 0)]));
    assert_eq!(said, [skewed(), skewed(), skewed(), Ok(())]);
}

#[test]
fn nodes_that_the_pod_cannot_have_count_as_the_policies_say() {
    let nodes = |change: fn(NodeBuilder) -> NodeBuilder| {
        vec![
            (node("n0").label("zone", "a").label("disk", "ssd"), vec![web("o")]),
            (change(node("n1").label("zone", "b")), vec![]),
        ]
    };
    let by_label = |honors: bool| {
        web("p").node_selector("disk", "ssd").spread_with(1, "zone", WEB, |constraint| {
            constraint.honors_affinity = honors;
        })
    };
    let plain = nodes(|node| node);
    assert_eq!(alone(NAME).verdicts(&by_label(true), &plain)[0], Ok(()), "zone b does not exist for the pod");
    assert_eq!(alone(NAME).verdicts(&by_label(false), &plain)[0], skewed());
    let by_taint = |honors: bool| web("p").spread_with(1, "zone", WEB, |constraint| constraint.honors_taints = honors);
    let tainted = nodes(|node| node.taint("t", "", "NoSchedule"));
    assert_eq!(alone(NAME).verdicts(&by_taint(true), &tainted)[0], Ok(()));
    assert_eq!(alone(NAME).verdicts(&by_taint(false), &tainted)[0], skewed());
    let tolerant = by_taint(true).tolerate("t", "Exists", "", "");
    assert_eq!(alone(NAME).verdicts(&tolerant, &tainted)[0], skewed());
}

#[test]
fn without_constraints_of_its_kind_the_plugin_has_nothing_to_say() {
    assert_eq!(alone(NAME).pre_filter(&web("p")), "skip");
    assert_eq!(alone(NAME).pre_filter(&web("p").prefer_spread(1, "zone", WEB)), "skip");
    assert_eq!(alone(NAME).pre_filter(&web("p").spread(1, "zone", WEB)), "continue");
    let nodes = cluster(&[("a", 1), ("b", 0)]);
    assert_eq!(alone(NAME).totals(&web("p").spread(1, "zone", WEB), &nodes), None);
}

#[test]
fn a_selector_that_cannot_be_read_is_an_error_where_its_constraint_is_looked_at() {
    let unreadable = |required: bool| {
        web("p").spread_with(1, "zone", WEB, |constraint| {
            constraint.required = required;
            constraint.selector = Err("it is bad".into());
        })
    };
    assert_eq!(
        alone(NAME).pre_filter(&unreadable(true)),
        "fail get constraints from pod: obtaining pod's hard topology spread constraints: it is bad"
    );
    assert_eq!(alone(NAME).pre_filter(&unreadable(false)), "skip");
    assert_eq!(
        alone(NAME).score_error(&unreadable(false)).as_deref(),
        Some(
            "running PreScore plugin \"PodTopologySpread\": calculating preScoreState: obtaining pod's soft topology \
             spread constraints: it is bad"
        )
    );
    assert_eq!(alone(NAME).score_error(&unreadable(true)), None);
}

#[test]
fn the_fewer_pods_there_are_the_better() {
    type Row = (&'static str, PodBuilder, &'static [(&'static str, usize)], &'static [i64]);
    let table: [Row; 6] = [
        ("no pod anywhere", web("p").prefer_spread(1, "zone", WEB), &[("a", 0), ("b", 0)], &[100, 100]),
        ("one node", web("p").prefer_spread(1, "zone", WEB), &[("a", 3)], &[100]),
        (
            "zones",
            web("p").prefer_spread(1, "zone", WEB),
            &[("a", 2), ("a", 2), ("b", 1), ("b", 0)],
            &[16, 16, 100, 100],
        ),
        (
            "hosts",
            web("p").prefer_spread(1, "kubernetes.io/hostname", WEB),
            &[("a", 2), ("a", 1), ("b", 0), ("b", 3)],
            &[20, 60, 100, 0],
        ),
        (
            "a node without the label gets nothing",
            web("p").prefer_spread(1, "zone", WEB),
            &[("a", 1), ("-", 0)],
            &[100, 0],
        ),
        ("every node lacks it", web("p").prefer_spread(1, "zone", WEB), &[("-", 0), ("-", 2)], &[0, 0]),
    ];
    for (case, pod, nodes, expected) in table {
        let scores = alone(NAME).totals(&pod, &cluster(nodes));
        assert_eq!(scores.as_deref(), Some(expected), "{case}");
    }
}

/// Services or a controller select the application's pods.
fn selected(facts: Facts) -> Facts {
    Facts { default_selector: DefaultSelector(selecting(WEB)), ..facts }
}

fn zoned(zones: &[(&str, usize)]) -> Vec<NodeWithPods> {
    let standing = |(number, &(zone, pods)): (usize, &(&str, usize))| {
        let built = node(&format!("n{number}"));
        let built = if zone == "-" { built } else { built.label("topology.kubernetes.io/zone", zone) };
        (built, vec![web("other"); pods])
    };
    zones.iter().enumerate().map(standing).collect()
}

#[test]
fn pods_without_constraints_are_spread_softly_if_something_selects_them() {
    let nodes = zoned(&[("a", 2), ("a", 0), ("b", 1), ("b", 0)]);
    assert_eq!(alone(NAME).totals(&web("p"), &nodes), None, "nothing selects it");
    let scores = alone(NAME).facts(selected).totals(&web("p"), &nodes).expect("scores");
    // A pod weighs ln 6 on its host and ln 4 in its zone. The skews add 6. The rounded scores are 12, 9, 9 and 7.
    assert_eq!(scores, [58, 83, 83, 100]);
    let own = web("p").prefer_spread(1, "none", WEB);
    assert_eq!(alone(NAME).facts(selected).totals(&own, &nodes), Some(vec![0; 4]), "its own take their place");
}

#[test]
fn without_zones_pods_are_still_spread_over_hosts_by_default() {
    let scores = alone(NAME).facts(selected).totals(&web("p"), &zoned(&[("-", 2), ("-", 0), ("-", 1)]));
    assert_eq!(scores, Some(vec![40, 100, 60]));
}

#[test]
fn the_operator_may_give_other_default_constraints() {
    let list = |action: &str| {
        let constraint = serde_json::json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": action});
        vec![serde_json::from_value(constraint).expect("a constraint")]
    };
    let with = |action: &str| {
        let constraints = list(action);
        alone(NAME).facts(selected).args(|args| {
            args.pod_topology_spread.defaulting_type = PodTopologySpreadDefaulting::List;
            args.pod_topology_spread.default_constraints = constraints;
        })
    };
    let nodes = cluster(&[("a", 1), ("b", 0), ("-", 0)]);
    assert_eq!(with("DoNotSchedule").verdicts(&web("p"), &nodes), [skewed(), Ok(()), unlabelled()]);
    assert_eq!(with("DoNotSchedule").totals(&web("p"), &nodes), None);
    assert_eq!(with("ScheduleAnyway").totals(&web("p"), &nodes), Some(vec![0, 100, 0]), "all labels are needed now");
}

#[test]
fn what_services_and_the_controller_select_is_taken_together() {
    let class = |kind: Option<OwnerKind>| {
        let owner = kind.map(|kind| Owner { kind, name: "o".into() });
        web("p").label("tier", "x").class(|class| class.owner = owner).into_class()
    };
    let pair = |key: &str, value: &str| -> (Arc<str>, Arc<str>) { (key.into(), value.into()) };
    let services = [vec![pair("app", "web")], vec![pair("app", "other")], vec![]];
    let select = |kind, controller: Option<&LabelSelector>, count: usize| {
        default_selector(&class(kind), services[..count].iter().map(Vec::as_slice), controller)
    };
    assert!(select(None, None, 0).is_everything());
    assert_eq!(select(None, None, 3), selecting(WEB), "only services that select the pod");
    let set = Some(OwnerKind::ReplicaSet);
    let exists = LabelRequirement { key: "tier".into(), operator: LabelOperator::Exists, values: Vec::new() };
    let controller = LabelSelector::Matching(vec![exists.clone()]);
    assert_eq!(select(set, Some(&controller), 0), controller);
    let both = LabelSelector::Matching(vec![LabelRequirement::equal(&"app".into(), &"web".into()), exists]);
    assert_eq!(select(set, Some(&controller), 1), both);
    assert_eq!(select(set, Some(&LabelSelector::Nothing), 1), selecting(WEB), "a set without a selector");
    let other = selecting(("app", "elsewhere"));
    assert_eq!(select(Some(OwnerKind::ReplicationController), Some(&other), 1), other, "its map takes precedence");
}

#[test]
fn pods_that_come_and_go_wake_those_that_count_them() {
    let waiting = web("p").spread(1, "zone", WEB);
    let class = |pod: PodBuilder| pod.into_class();
    let (same, other, elsewhere) = (class(web("a")), class(pod("b")), class(web("c").namespace("other")));
    let table = [
        ("a counted pod came", ClusterEvent::PodAdded(&same), true),
        ("another came", ClusterEvent::PodAdded(&other), false),
        ("one of another namespace came", ClusterEvent::PodAdded(&elsewhere), false),
        ("a counted pod went", ClusterEvent::PodRemoved(&same), true),
        ("another went", ClusterEvent::PodRemoved(&other), false),
        ("one began to be counted", ClusterEvent::PodUpdated { old: &other, new: &same }, true),
        ("one ceased to be counted", ClusterEvent::PodUpdated { old: &same, new: &other }, true),
        ("nothing changed", ClusterEvent::PodUpdated { old: &same, new: &same }, false),
    ];
    for (case, event, expected) in table {
        assert_eq!(alone(NAME).wakes(event, &waiting), expected, "{case}");
    }
    let dying = class(web("a").terminating());
    assert!(alone(NAME).wakes(ClusterEvent::PodUpdated { old: &same, new: &dying }, &waiting));
    assert!(!alone(NAME).wakes(ClusterEvent::PodAdded(&same), &web("p").prefer_spread(1, "zone", WEB)));
}

#[test]
fn nodes_wake_those_whose_domains_they_make_or_move() {
    let waiting = web("p").spread(1, "zone", WEB).spread(1, "rack", WEB);
    let full = |zone: &str| node("n").label("zone", zone).label("rack", "r");
    let (a, b, bare) = (full("a").build(), full("b").build(), node("n").label("zone", "a").build());
    let tainted = full("a").taint("t", "", "NoSchedule").build();
    let larger = full("a").capacity("cpu", "64").build();
    fn updated<'a>(old: &'a NodeInfo, new: &'a NodeInfo) -> ClusterEvent<'a> {
        ClusterEvent::NodeUpdated { old, new }
    }
    let table = [
        ("a node with all labels came", ClusterEvent::NodeAdded(&a), true),
        ("a node that lacks one came", ClusterEvent::NodeAdded(&bare), false),
        ("a node with all labels went", ClusterEvent::NodeRemoved(&a), true),
        ("a node that lacks one went", ClusterEvent::NodeRemoved(&bare), false),
        ("a node got the labels", updated(&bare, &a), true),
        ("a node lost one", updated(&a, &bare), true),
        ("a node moved", updated(&a, &b), true),
        ("a node was tainted", updated(&a, &tainted), true),
        ("a node grew", updated(&a, &larger), false),
    ];
    for (case, event, expected) in table {
        assert_eq!(alone(NAME).wakes(event, &waiting), expected, "{case}");
    }
    let disk = full("a").label("disk", "ssd").build();
    assert!(!alone(NAME).wakes(updated(&a, &disk), &waiting));
    assert!(
        alone(NAME).wakes(updated(&a, &disk), &waiting.node_selector("disk", "ssd")),
        "the node counts from now on"
    );
}

#[test]
fn without_its_pre_score_every_score_fails_for_every_pod() {
    let error = "running Score plugins: plugin \"PodTopologySpread\" failed with: error reading \
                 \"PreScorePodTopologySpread\" from cycleState: not found";
    for pod in [pod("plain"), web("p").prefer_spread(1, "zone", WEB)] {
        assert_eq!(alone(NAME).without_pre_score().score_error(&pod).as_deref(), Some(error));
        assert_eq!(alone(NAME).score_error(&pod), None);
    }
}
