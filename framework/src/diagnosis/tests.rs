//! The cases of kube-scheduler's TestFitError_Error, and the plugins that a refused pod waits for.

use super::*;
use crate::{
    class::{NodeTerm, Requirement},
    extension::Facts,
    registry::Registry,
    testing::{
        PodBuilder,
        checks::{NodeWithPods, evaluate, snapshot},
        node, pod, profile,
    },
};

fn diagnose(pod: &PodBuilder, nodes: &[NodeWithPods]) -> Diagnosis {
    let snapshot = snapshot(nodes);
    let class = pod.clone().build().class;
    let prepared = Prepared::new(Registry::built_in(), &profile(), &class, &Facts::default(), &snapshot);
    of_class(&prepared, nodes.len()).unwrap_or_else(|| {
        let evaluation = evaluate(&prepared, &snapshot);
        assert!(evaluation.strata.is_empty(), "no node is feasible");
        of_nodes(&prepared, &evaluation.refused, nodes.len())
    })
}

fn by_fields(terms: &[&[&str]]) -> PodBuilder {
    let requirement = |names: &&[&str]| Requirement {
        key: "metadata.name".into(),
        operator: "In".into(),
        values: names.iter().map(|&name| name.into()).collect(),
    };
    let fields = terms.iter().map(requirement).collect();
    pod("p").class(|class| class.required_terms = Some(vec![NodeTerm { expressions: Vec::new(), fields }]))
}

#[test]
fn every_reason_is_counted_and_the_counts_are_sorted_as_text() {
    let full = || (node("full").capacity("cpu", "1"), vec![]);
    let tainted = || (node("tainted").taint("k", "v", "NoSchedule"), vec![]);
    let nodes = [full(), tainted(), full(), tainted(), tainted()];
    let said = diagnose(&pod("p").request("cpu", "2"), &nodes);
    assert_eq!(said.message, "0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s).");
    assert_eq!(said.plugins, ["NodeResourcesFit", "TaintToleration"]);
    let many: Vec<NodeWithPods> = (0..10).map(|_| full()).chain([tainted(), tainted()]).collect();
    let said = diagnose(&pod("p").request("cpu", "2"), &many);
    assert_eq!(said.message, "0/12 nodes are available: 10 Insufficient cpu, 2 node(s) had untolerated taint(s).");
}

#[test]
fn a_node_with_several_reasons_counts_under_each() {
    let nodes =
        [(node("a").capacity("cpu", "1").capacity("memory", "1"), vec![]), (node("b").capacity("cpu", "1"), vec![])];
    let said = diagnose(&pod("p").request("cpu", "2").request("memory", "1Gi"), &nodes);
    assert_eq!(said.message, "0/2 nodes are available: 1 Insufficient memory, 2 Insufficient cpu.");
    assert_eq!(said.plugins, ["NodeResourcesFit"]);
}

#[test]
fn one_reason_for_now_and_for_good_is_one_reason() {
    let nodes = [
        (node("busy").capacity("cpu", "2"), vec![pod("s").request("cpu", "1")]),
        (node("small").capacity("cpu", "1"), vec![]),
    ];
    assert_eq!(diagnose(&pod("p").request("cpu", "2"), &nodes).message, "0/2 nodes are available: 2 Insufficient cpu.");
}

#[test]
fn only_the_first_filter_that_refuses_a_node_is_named() {
    let nodes = [(node("n").cordon().taint("k", "", "NoExecute").capacity("cpu", "0"), vec![])];
    let said = diagnose(&pod("p").request("cpu", "2").node_selector("no", "such"), &nodes);
    assert_eq!(said.message, "0/1 nodes are available: 1 node(s) were unschedulable.");
    assert_eq!(said.plugins, ["NodeUnschedulable"]);
}

#[test]
fn nodes_outside_the_names_that_were_left_count_under_the_plugin_that_left_them() {
    let nodes = [(node("a"), vec![]), (node("b"), vec![]), (node("c").capacity("cpu", "1"), vec![])];
    let said = diagnose(&pod("p").require_node("c").request("cpu", "2"), &nodes);
    assert_eq!(
        said.message,
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    );
    assert_eq!(said.plugins, ["NodeAffinity", "NodeResourcesFit"]);
    let gone = diagnose(&pod("p").require_node("gone"), &nodes);
    assert_eq!(gone.message, "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity].");
    assert_eq!(gone.plugins, ["NodeAffinity"]);
}

#[test]
fn plugins_that_left_names_are_waited_for_even_where_no_node_is_outside() {
    let said = diagnose(&pod("p").require_node("c").request("cpu", "2"), &[(node("c").capacity("cpu", "1"), vec![])]);
    assert_eq!(said.message, "0/1 nodes are available: 1 Insufficient cpu.");
    assert_eq!(said.plugins, ["NodeAffinity", "NodeResourcesFit"]);
}

#[test]
fn names_that_contradict_each_other_refuse_the_class() {
    let nodes = [(node("a"), vec![]), (node("b"), vec![])];
    let said = diagnose(&by_fields(&[&["a"], &["b"]]), &nodes);
    assert_eq!(said.message, "0/2 nodes are available: pod affinity terms conflict.");
    assert_eq!(said.plugins, ["NodeAffinity"]);
    let said = diagnose(&pod("p").wants("a").require_node("b"), &nodes);
    let expected = "0/2 nodes are available: node(s) didn't satisfy plugin(s) [NodeAffinity NodeName] simultaneously.";
    assert_eq!(said.message, expected);
    assert_eq!(said.plugins, ["NodeAffinity", "NodeName"]);
}

#[test]
fn two_plugins_that_leave_the_same_name_are_both_named() {
    let nodes = [(node("a").cordon(), vec![]), (node("b"), vec![])];
    let said = diagnose(&pod("p").wants("a").require_node("a"), &nodes);
    assert_eq!(
        said.message,
        "0/2 nodes are available: 1 node(s) didn't satisfy plugin(s) [NodeAffinity NodeName], \
         1 node(s) were unschedulable."
    );
    assert_eq!(said.plugins, ["NodeAffinity", "NodeName", "NodeUnschedulable"]);
}

#[test]
fn without_reasons_only_the_count_is_said() {
    let nodes = snapshot(&[]);
    let class = pod("p").build().class;
    let prepared = Prepared::new(Registry::built_in(), &profile(), &class, &Facts::default(), &nodes);
    assert_eq!(of_class(&prepared, 3), None);
    let said = of_nodes(&prepared, &[], 3);
    assert_eq!((said.message.as_str(), said.plugins.len()), ("0/3 nodes are available:", 0));
}
