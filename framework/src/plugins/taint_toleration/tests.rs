//! Cases of upstream's taint_toleration_test.go. Without the gate of comparison operators, classes have none.

use crate::{
    extension::ClusterEvent,
    testing::{
        NodeBuilder, PodBuilder,
        checks::{NodeWithPods, alone, unresolvable},
        node, pod,
    },
};

const NAME: &str = "TaintToleration";

fn dedicated(value: &str) -> NodeBuilder {
    node("n").taint("dedicated", value, "NoSchedule")
}

fn tolerating(operator: &str, value: &str, effect: &str) -> PodBuilder {
    pod("p").tolerate("dedicated", operator, value, effect)
}

#[test]
fn a_hard_taint_refuses_unless_some_toleration_tolerates_it() {
    let refused = || unresolvable(&["node(s) had untolerated taint(s)"]);
    let two = || dedicated("a").taint("gpu", "", "NoExecute");
    let table = [
        ("no taint, no toleration", pod("p"), node("n"), Ok(())),
        ("no toleration", pod("p"), dedicated("a"), refused()),
        ("equal value and effect", tolerating("Equal", "a", "NoSchedule"), dedicated("a"), Ok(())),
        ("an empty operator means equal", tolerating("", "a", "NoSchedule"), dedicated("a"), Ok(())),
        ("another value", tolerating("Equal", "b", "NoSchedule"), dedicated("a"), refused()),
        ("exists whatever the value", tolerating("Exists", "", "NoSchedule"), dedicated("a"), Ok(())),
        ("another effect", tolerating("Equal", "a", "PreferNoSchedule"), dedicated("a"), refused()),
        ("an empty effect means any", tolerating("Equal", "a", ""), dedicated("a"), Ok(())),
        ("an empty key means any", pod("p").tolerate("", "Exists", "", ""), two(), Ok(())),
        ("one of two taints tolerated", tolerating("Exists", "", ""), two(), refused()),
        ("both taints tolerated", tolerating("Exists", "", "").tolerate("gpu", "Exists", "", ""), two(), Ok(())),
        ("a soft taint does not refuse", pod("p"), node("n").taint("x", "", "PreferNoSchedule"), Ok(())),
        ("evicting taints refuse", pod("p"), node("n").taint("x", "", "NoExecute"), refused()),
        ("a greater taint is tolerated by Gt", tolerating("Gt", "5", "NoSchedule"), dedicated("9"), Ok(())),
        (
            "a taint that is not less is not tolerated by Lt",
            tolerating("Lt", "5", "NoSchedule"),
            dedicated("5"),
            refused(),
        ),
        ("an unknown operator tolerates nothing", tolerating("Near", "a", ""), dedicated("a"), refused()),
        (
            "equal beside greater-than still counts",
            tolerating("Gt", "5", "").tolerate("dedicated", "Equal", "9", ""),
            dedicated("9"),
            Ok(()),
        ),
    ];
    for (case, pod, node, expected) in table {
        assert_eq!(alone(NAME).filter(&pod, &node, &[]), expected, "{case}");
    }
}

fn soft(name: &str, taints: &[(&str, &str)]) -> NodeWithPods {
    let add = |node: NodeBuilder, (key, value): &(&str, &str)| node.taint(key, value, "PreferNoSchedule");
    (taints.iter().fold(node(name), add), Vec::new())
}

#[test]
fn soft_taints_that_are_not_tolerated_cost_score() {
    let both =
        || pod("p").tolerate("a", "Equal", "1", "PreferNoSchedule").tolerate("b", "Equal", "1", "PreferNoSchedule");
    let table = [
        ("no taint anywhere", pod("p"), vec![soft("x", &[]), soft("y", &[])], vec![100, 100]),
        ("no toleration", pod("p"), vec![soft("x", &[]), soft("y", &[("a", "1")])], vec![100, 0]),
        (
            "a tolerated taint costs nothing",
            both(),
            vec![soft("x", &[("a", "1")]), soft("y", &[("a", "2")])],
            vec![100, 0],
        ),
        (
            "tolerated taints cost nothing however many there are",
            both(),
            vec![soft("x", &[]), soft("y", &[("a", "1")]), soft("z", &[("a", "1"), ("b", "1")])],
            vec![100, 100, 100],
        ),
        (
            "each taint that is not tolerated costs its share",
            both(),
            vec![soft("x", &[]), soft("y", &[("c", "1")]), soft("z", &[("c", "1"), ("d", "1")])],
            vec![100, 50, 0],
        ),
        (
            "thirds are rounded down before they are turned round",
            pod("p"),
            vec![soft("x", &[("c", "1")]), soft("y", &[("c", "1"), ("d", "1"), ("e", "1")])],
            vec![67, 0],
        ),
    ];
    for (case, pod, nodes, expected) in table {
        assert_eq!(alone(NAME).scores(&pod, &nodes), Some(expected), "{case}");
    }
}

#[test]
fn only_soft_effects_take_part_in_the_score() {
    let hard = (node("hard").taint("a", "1", "NoSchedule").taint("b", "1", "NoExecute"), Vec::new());
    let nodes = [hard, soft("soft", &[("a", "1")])];
    let never = pod("p").tolerate("a", "Exists", "", "NoSchedule");
    assert_eq!(alone(NAME).scores(&never, &nodes), Some(vec![100, 0]), "a toleration of another effect");
    let any = pod("p").tolerate("a", "Exists", "", "");
    assert_eq!(alone(NAME).scores(&any, &nodes), Some(vec![100, 100]), "a toleration of every effect");
}

#[test]
fn a_node_wakes_the_pod_once_its_hard_taints_are_tolerated() {
    let (free, taken) = (node("n").build(), dedicated("a").build());
    let moved = dedicated("b").build();
    let table = [
        ("an untolerated node appears", ClusterEvent::NodeAdded(&taken), false),
        ("a free node appears", ClusterEvent::NodeAdded(&free), true),
        ("the taint goes", ClusterEvent::NodeUpdated { old: &taken, new: &free }, true),
        ("the taint changes to one as bad", ClusterEvent::NodeUpdated { old: &taken, new: &moved }, false),
        ("a taint comes", ClusterEvent::NodeUpdated { old: &free, new: &taken }, false),
        ("the node was free before", ClusterEvent::NodeUpdated { old: &free, new: &free }, false),
    ];
    for (case, event, expected) in table {
        assert_eq!(alone(NAME).wakes(event, &pod("p")), expected, "{case}");
    }
    assert!(
        alone(NAME).wakes(ClusterEvent::NodeAdded(&taken), &tolerating("Equal", "a", "")),
        "a tolerated node appears"
    );
}

#[test]
fn taints_that_came_after_the_plugin_was_prepared_are_judged_too() {
    use crate::{
        extension::Facts,
        node::NodeId,
        prepared::{NodeResult, Prepared},
        registry::Registry,
        snapshot::Snapshot,
        testing::profile,
    };
    let mut nodes = Snapshot::new(0);
    let class = pod("p").build().class;
    let prepared = Prepared::new(Registry::built_in(), &profile(), &class, &Facts::default(), &nodes);
    let hard = nodes.upsert_node(NodeId(0), &dedicated("a").build());
    let soft = nodes.upsert_node(NodeId(1), &node("s").taint("x", "", "PreferNoSchedule").build());
    assert!(matches!(prepared.judge(&nodes, hard), NodeResult::Refused(3, _)));
    let NodeResult::Feasible(feasible) = prepared.judge(&nodes, soft) else { panic!("a soft taint does not refuse") };
    assert_eq!(feasible.raws.as_slice(), [1]);
}

#[test]
fn without_its_pre_score_nothing_is_scored() {
    let error = alone("TaintToleration").without_pre_score().score_error(&pod("p"));
    let expected = "running Score plugins: plugin \"TaintToleration\" failed with: failed to read \
                    \"PreScoreTaintToleration\" from cycleState: not found";
    assert_eq!(error.as_deref(), Some(expected));
    assert_eq!(alone("TaintToleration").score_error(&pod("p")), None);
}
