//! Cases of upstream's node_affinity_test.go, and terms that the API server rejects.

use k8s_openapi::api::core::v1::NodeAffinity as Affinity;
use serde_json::{Value, json};

use crate::{
    class::{NodeTerm, Requirement},
    extension::ClusterEvent,
    testing::{
        PodBuilder,
        checks::{Alone, Said, alone, unresolvable},
        node, pod,
    },
};

const NAME: &str = "NodeAffinity";

type Spelled<'a> = (&'a str, &'a str, &'a [&'a str]);

fn spelled((key, operator, values): &Spelled<'_>) -> Requirement {
    Requirement {
        key: (*key).into(),
        operator: (*operator).into(),
        values: values.iter().map(|&value| value.into()).collect(),
    }
}

fn term(expressions: &[Spelled<'_>], fields: &[Spelled<'_>]) -> NodeTerm {
    NodeTerm { expressions: expressions.iter().map(spelled).collect(), fields: fields.iter().map(spelled).collect() }
}

fn requiring(terms: Vec<NodeTerm>) -> PodBuilder {
    pod("p").class(|class| class.required_terms = Some(terms))
}

fn one(key: &str, operator: &str, values: &[&str]) -> Vec<NodeTerm> {
    vec![term(&[(key, operator, values)], &[])]
}

fn by_pod() -> Said {
    unresolvable(&["node(s) didn't match Pod's node affinity/selector"])
}

fn by_operator() -> Said {
    unresolvable(&["node(s) didn't match scheduler-enforced node affinity"])
}

fn added(affinity: Value) -> Alone {
    let affinity: Affinity = serde_json::from_value(affinity).expect("a node affinity");
    alone(NAME).args(|args| args.node_affinity.added_affinity = Some(affinity))
}

fn check(plugin: &Alone, table: Vec<(&str, PodBuilder, Said)>) {
    let node = node("n1").label("disk", "ssd").label("size", "20").label("zone", "a");
    for (case, pod, expected) in table {
        assert_eq!(plugin.clone().without_pre_filter().filter(&pod, &node, &[]), expected, "{case}");
    }
}

#[test]
fn every_label_of_the_node_selector_must_be_equal() {
    check(
        &alone(NAME),
        vec![
            ("no selector", pod("p"), Ok(())),
            ("a label that the node lacks", pod("p").node_selector("gpu", "yes"), by_pod()),
            ("an equal label", pod("p").node_selector("disk", "ssd"), Ok(())),
            ("another value", pod("p").node_selector("disk", "hdd"), by_pod()),
            ("one of two labels", pod("p").node_selector("disk", "ssd").node_selector("zone", "b"), by_pod()),
            ("both labels", pod("p").node_selector("disk", "ssd").node_selector("zone", "a"), Ok(())),
            ("a selector is never parsed, only compared", pod("p").node_selector("a b", "c d"), by_pod()),
        ],
    );
}

#[test]
fn each_operator_has_its_own_idea_of_an_absent_label() {
    check(
        &alone(NAME),
        vec![
            ("in", requiring(one("disk", "In", &["hdd", "ssd"])), Ok(())),
            ("in, not among them", requiring(one("disk", "In", &["hdd"])), by_pod()),
            ("in, absent", requiring(one("gpu", "In", &["hdd"])), by_pod()),
            ("not in", requiring(one("disk", "NotIn", &["hdd"])), Ok(())),
            ("not in, among them", requiring(one("disk", "NotIn", &["ssd"])), by_pod()),
            ("not in, absent", requiring(one("gpu", "NotIn", &["ssd"])), Ok(())),
            ("exists", requiring(one("disk", "Exists", &[])), Ok(())),
            ("exists, absent", requiring(one("gpu", "Exists", &[])), by_pod()),
            ("does not exist", requiring(one("gpu", "DoesNotExist", &[])), Ok(())),
            ("does not exist, present", requiring(one("disk", "DoesNotExist", &[])), by_pod()),
            ("greater", requiring(one("size", "Gt", &["19"])), Ok(())),
            ("not greater than itself", requiring(one("size", "Gt", &["20"])), by_pod()),
            ("less", requiring(one("size", "Lt", &["21"])), Ok(())),
            ("not less than itself", requiring(one("size", "Lt", &["20"])), by_pod()),
            ("greater, no number on the node", requiring(one("disk", "Gt", &["1"])), by_pod()),
            ("greater, absent", requiring(one("gpu", "Gt", &["1"])), by_pod()),
        ],
    );
}

#[test]
fn terms_are_ored_and_their_requirements_anded() {
    let (ssd, hdd): (Spelled<'_>, Spelled<'_>) = (("disk", "In", &["ssd"]), ("disk", "In", &["hdd"]));
    let zone: Spelled<'_> = ("zone", "In", &["a"]);
    check(
        &alone(NAME),
        vec![
            ("both requirements hold", requiring(vec![term(&[ssd, zone], &[])]), Ok(())),
            ("one of two does not hold", requiring(vec![term(&[hdd, zone], &[])]), by_pod()),
            ("the second term matches", requiring(vec![term(&[hdd], &[]), term(&[zone], &[])]), Ok(())),
            ("no term matches", requiring(vec![term(&[hdd], &[]), term(&[("gpu", "Exists", &[])], &[])]), by_pod()),
            ("no terms at all match nothing", requiring(Vec::new()), by_pod()),
            ("an empty term matches nothing", requiring(vec![NodeTerm::default()]), by_pod()),
            ("an empty term beside one that matches", requiring(vec![NodeTerm::default(), term(&[ssd], &[])]), Ok(())),
            ("affinity and selector hold", requiring(one("disk", "Exists", &[])).node_selector("zone", "a"), Ok(())),
            ("only the affinity holds", requiring(one("disk", "Exists", &[])).node_selector("zone", "b"), by_pod()),
            ("only the selector holds", requiring(one("gpu", "Exists", &[])).node_selector("zone", "a"), by_pod()),
        ],
    );
}

#[test]
fn a_term_that_cannot_be_read_matches_nothing() {
    check(
        &alone(NAME),
        vec![
            ("a value that is no label value", requiring(one("disk", "NotIn", &["in valid"])), by_pod()),
            ("a value with a sign", requiring(one("size", "Gt", &["-5"])), by_pod()),
            ("a bound that is no number", requiring(one("size", "Gt", &["ten"])), by_pod()),
            ("a key that is no label key", requiring(one("a/b/c", "DoesNotExist", &[])), by_pod()),
            ("an operator that is none", requiring(one("disk", "Equals", &["ssd"])), by_pod()),
            ("in without values", requiring(one("disk", "In", &[])), by_pod()),
            ("exists with values", requiring(one("disk", "Exists", &["ssd"])), by_pod()),
            ("two bounds", requiring(one("size", "Gt", &["1", "2"])), by_pod()),
            (
                "a field that must be one of two",
                requiring(vec![term(&[], &[("metadata.name", "In", &["n1", "n2"])])]),
                by_pod(),
            ),
            ("a field that must exist", requiring(vec![term(&[], &[("metadata.name", "Exists", &[])])]), by_pod()),
            (
                "another term still counts",
                requiring(vec![term(&[("a/b/c", "Exists", &[])], &[]), term(&[("disk", "Exists", &[])], &[])]),
                Ok(()),
            ),
        ],
    );
}

#[test]
fn the_only_field_is_the_name() {
    let named = |operator, name| term(&[], &[("metadata.name", operator, name)]);
    let labelled = |key| term(&[(key, "Exists", &[])], &[]);
    let both = |key, name| term(&[(key, "Exists", &[])], &[("metadata.name", "In", name)]);
    check(
        &alone(NAME),
        vec![
            ("its name", requiring(vec![named("In", &["n1"])]), Ok(())),
            ("another name", requiring(vec![named("In", &["n2"])]), by_pod()),
            ("any but another name", requiring(vec![named("NotIn", &["n2"])]), Ok(())),
            ("any but its name", requiring(vec![named("NotIn", &["n1"])]), by_pod()),
            ("another name, or a label that it has", requiring(vec![named("In", &["n2"]), labelled("disk")]), Ok(())),
            ("another name and a label that it has", requiring(vec![both("disk", &["n2"])]), by_pod()),
            ("its name and a label that it has", requiring(vec![both("disk", &["n1"])]), Ok(())),
            (
                "another name, or a label that it lacks",
                requiring(vec![named("In", &["n2"]), labelled("gpu")]),
                by_pod(),
            ),
            (
                "a field that a node does not have is empty",
                requiring(vec![term(&[], &[("metadata.namespace", "In", &[""])])]),
                Ok(()),
            ),
            (
                "a field that a node does not have is not full",
                requiring(vec![term(&[], &[("metadata.namespace", "In", &["x"])])]),
                by_pod(),
            ),
            ("nor is it anything else", requiring(vec![term(&[], &[("metadata.namespace", "NotIn", &["x"])])]), Ok(())),
        ],
    );
}

#[test]
fn pre_filter_reads_node_names_where_every_term_names_some() {
    let named = |names| term(&[], &[("metadata.name", "In", names)]);
    let twice = |left, right| term(&[], &[("metadata.name", "In", left), ("metadata.name", "In", right)]);
    let table = [
        ("nothing required", pod("p"), "skip"),
        ("only preferred", pod("p").prefer(1, "disk", "Exists", &[]), "skip"),
        ("a node selector", pod("p").node_selector("disk", "ssd"), "continue"),
        ("required without a name", requiring(one("disk", "Exists", &[])), "continue"),
        ("required without terms", requiring(Vec::new()), "continue"),
        ("one name", requiring(vec![named(&["n1"])]), "only n1"),
        ("two terms, two names", requiring(vec![named(&["n2"]), named(&["n1"])]), "only n1 n2"),
        ("two values in one term", requiring(vec![named(&["n1", "n2"])]), "only n1 n2"),
        (
            "one term without a name frees all",
            requiring(vec![named(&["n1"]), term(&[("disk", "Exists", &[])], &[])]),
            "continue",
        ),
        ("requirements of one term intersect", requiring(vec![twice(&["n1", "n2"], &["n2", "n3"])]), "only n2"),
        ("a conflict", requiring(vec![twice(&["n1"], &["n2"])]), "refuse pod affinity terms conflict"),
        ("a conflict beside a name", requiring(vec![twice(&["n1"], &["n2"]), named(&["n3"])]), "only n3"),
        (
            "any but a name does not restrict",
            requiring(vec![term(&[], &[("metadata.name", "NotIn", &["n1"])])]),
            "continue",
        ),
    ];
    for (case, pod, expected) in table {
        assert_eq!(alone(NAME).pre_filter(&pod), expected, "{case}");
    }
    let enforced = added(json!({"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]}}));
    assert_eq!(enforced.pre_filter(&pod("p")), "continue", "the operator requires something");
}

#[test]
fn what_the_operator_adds_is_asked_first() {
    let enforce = |value: &str| {
        added(json!({"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [value]}]}]}}))
    };
    check(
        &enforce("a"),
        vec![
            ("added alone", pod("p"), Ok(())),
            ("added and the pod's own", requiring(one("disk", "In", &["ssd"])), Ok(())),
            ("added but not the pod's own", requiring(one("disk", "In", &["hdd"])), by_pod()),
        ],
    );
    check(
        &enforce("b"),
        vec![
            ("not added", pod("p"), by_operator()),
            ("neither added nor the pod's own", requiring(one("disk", "In", &["hdd"])), by_operator()),
        ],
    );
}

fn bare(name: &str, labels: &[(&str, &str)]) -> (crate::testing::NodeBuilder, Vec<PodBuilder>) {
    (labels.iter().fold(node(name), |node, (key, value)| node.label(key, value)), Vec::new())
}

#[test]
fn preferred_terms_add_their_weights() {
    let nodes = [bare("a", &[("disk", "ssd")]), bare("b", &[("disk", "ssd"), ("zone", "z")]), bare("c", &[])];
    let prefer = |weight, key, value: &str| pod("p").prefer(weight, key, "In", &[value]);
    let table = [
        ("no node has it", prefer(2, "gpu", "yes"), vec![0, 0, 0]),
        ("one node has it", prefer(2, "zone", "z"), vec![0, 100, 0]),
        ("nodes have it in parts", prefer(2, "disk", "ssd").prefer(5, "zone", "In", &["z"]), vec![28, 100, 0]),
        (
            "a weight of zero counts for nothing",
            prefer(0, "disk", "ssd").prefer(1, "zone", "Exists", &[]),
            vec![0, 100, 0],
        ),
    ];
    for (case, pod, expected) in table {
        assert_eq!(alone(NAME).scores(&pod, &nodes), Some(expected), "{case}");
    }
    let empty = pod("p").class(|class| class.preferred_terms = vec![(9, NodeTerm::default())]);
    assert_eq!(alone(NAME).scores(&empty, &nodes), Some(vec![0, 0, 0]), "an empty term matches nothing");
    assert_eq!(alone(NAME).scores(&pod("p"), &nodes), None, "nothing preferred");
}

#[test]
fn preferences_that_the_operator_adds_count_too() {
    let nodes = [bare("a", &[("disk", "ssd")]), bare("b", &[("zone", "z")])];
    let plugin = added(json!({"preferredDuringSchedulingIgnoredDuringExecution":
        [{"weight": 3, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}}]}));
    assert_eq!(plugin.scores(&pod("p"), &nodes), Some(vec![100, 0]), "alone");
    let own = pod("p").prefer(9, "zone", "In", &["z"]);
    assert_eq!(plugin.scores(&own, &nodes), Some(vec![33, 100]), "beside the pod's own");
}

#[test]
fn a_preference_that_cannot_be_read_is_an_error_unless_it_weighs_nothing() {
    let broken = |weight| pod("p").prefer(weight, "disk", "In", &["in valid"]);
    let error = alone(NAME).score_error(&broken(1)).expect("an error");
    assert!(error.starts_with("running PreScore plugin \"NodeAffinity\": "), "{error}");
    assert_eq!(alone(NAME).score_error(&broken(0)), None);
}

#[test]
fn a_node_wakes_the_pod_once_it_matches() {
    let (ssd, hdd) = (node("n").label("disk", "ssd").build(), node("n").label("disk", "hdd").build());
    let cordoned = node("n").label("disk", "hdd").cordon().build();
    let wanting = requiring(one("disk", "In", &["ssd"]));
    let table = [
        ("a node that matches appears", ClusterEvent::NodeAdded(&ssd), true),
        ("a node that does not match appears", ClusterEvent::NodeAdded(&hdd), false),
        ("a node comes to match", ClusterEvent::NodeUpdated { old: &hdd, new: &ssd }, true),
        ("a node ceases to match", ClusterEvent::NodeUpdated { old: &ssd, new: &hdd }, false),
        ("a change that is not about labels", ClusterEvent::NodeUpdated { old: &hdd, new: &cordoned }, false),
    ];
    for (case, event, expected) in table {
        assert_eq!(alone(NAME).wakes(event, &wanting), expected, "{case}");
    }
    let matched = node("n").label("disk", "ssd").label("x", "y").build();
    assert!(!alone(NAME).wakes(ClusterEvent::NodeUpdated { old: &ssd, new: &matched }, &wanting), "it matched before");
    let unreadable = requiring(one("a/b/c", "Exists", &[]));
    assert!(alone(NAME).wakes(ClusterEvent::NodeAdded(&hdd), &unreadable), "terms that cannot be read");
    assert!(!alone(NAME).wakes(ClusterEvent::PodRemoved(&pod("gone").build().class), &wanting));
}

#[test]
fn only_the_pods_own_affinity_decides_whether_an_old_node_matched() {
    let plugin = added(json!({"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]}}));
    let (ssd, hdd) = (node("n").label("disk", "ssd").build(), node("n").label("disk", "hdd").build());
    assert!(plugin.wakes(ClusterEvent::NodeAdded(&ssd), &pod("p")));
    assert!(!plugin.wakes(ClusterEvent::NodeAdded(&hdd), &pod("p")));
    assert!(!plugin.wakes(ClusterEvent::NodeUpdated { old: &hdd, new: &ssd }, &pod("p")));
}
