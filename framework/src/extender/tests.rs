//! The effects of extenders' answers.

use super::*;
use crate::{
    extension::Facts,
    profile::duration::GoDuration,
    registry::Registry,
    select::View,
    snapshot::Snapshot,
    testing::{self, node, pod},
};

fn extender(url: &str) -> Extender {
    Extender {
        url_prefix: url.to_owned(),
        filter_verb: "filter".to_owned(),
        prioritize_verb: "prioritize".to_owned(),
        weight: 1,
        node_cache_capable: true,
        ..Extender::default()
    }
}

fn asked(names: &[&str]) -> Extended {
    Extended::new(names.iter().map(|&name| name.into()).collect())
}

fn strings(names: &[&str]) -> Option<Vec<String>> {
    Some(names.iter().map(|&name| name.to_owned()).collect())
}

fn messages(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|&(name, message)| (name.to_owned(), message.to_owned())).collect()
}

fn left(extended: &Extended) -> Vec<&str> {
    extended.nodes.iter().map(|node| &**node).collect()
}

#[test]
fn extenders_that_can_be_ignored_are_asked_last() {
    let ignorable = |url: &str| Extender { ignorable: true, ..extender(url) };
    let order = in_order(&[ignorable("a"), extender("b"), ignorable("c"), extender("d")]);
    let urls: Vec<&str> = order.iter().map(|extender| extender.url_prefix.as_str()).collect();
    assert_eq!(urls, ["b", "d", "a", "c"]);
}

#[test]
fn an_extender_is_asked_about_pods_that_name_what_it_manages_and_one_that_manages_nothing_about_all() {
    let resource = ExtenderManagedResource { name: "example.com/gpu".to_owned(), ignored_by_scheduler: false };
    let managing = Extender { managed_resources: vec![resource], ..extender("a") };
    let with = pod("with").request("example.com/gpu", "0").build();
    let without = pod("without").request("cpu", "1").request("example.com/nic", "1").build();
    assert!(managing.is_interested(&with));
    assert!(!managing.is_interested(&without));
    assert!(extender("b").is_interested(&without));
}

#[test]
fn each_extender_sees_what_the_one_before_has_left() {
    let mut extended = asked(&["a", "b", "c"]);
    let answer = FilterAnswer {
        node_names: strings(&["c", "a", "a"]),
        failed_nodes: messages(&[("b", "no b")]),
        ..FilterAnswer::default()
    };
    assert_eq!(extended.filter(&extender("one"), Ok(answer)), Ok(None));
    assert_eq!(left(&extended), ["a", "c"]);
    let answer = FilterAnswer { node_names: strings(&["b"]), ..FilterAnswer::default() };
    let error = extended.filter(&extender("http://two"), Ok(answer)).expect_err("b is not there any more");
    assert_eq!(error, "extender \"http://two\" claims a filtered node \"b\" which is not found in the input node list");
}

#[test]
fn whole_nodes_count_by_their_names_and_names_only_from_those_who_know_the_nodes() {
    let both = || FilterAnswer { nodes: strings(&["a"]), node_names: strings(&["b"]), ..FilterAnswer::default() };
    let stranger = Extender { node_cache_capable: false, ..extender("u") };
    for (extender, expected) in [(extender("u"), "b"), (stranger, "a")] {
        let mut extended = asked(&["a", "b"]);
        extended.filter(&extender, Ok(both())).expect("an answer");
        assert_eq!(left(&extended), [expected]);
    }
    let mut extended = asked(&["a", "b"]);
    let whole = FilterAnswer { nodes: strings(&["a"]), ..FilterAnswer::default() };
    extended.filter(&extender("u"), Ok(whole)).expect("an answer");
    assert_eq!(left(&extended), ["a"], "whole nodes will do for one who knows the nodes");
    extended.filter(&extender("u"), Ok(FilterAnswer::default())).expect("an answer");
    assert_eq!(left(&extended), [""; 0], "neither names nor nodes are no nodes");
}

#[test]
fn an_error_fails_the_pod_unless_the_extender_can_be_ignored() {
    let refused = || Ok(FilterAnswer { error: "out of order".to_owned(), ..FilterAnswer::default() });
    let silent = || Err("no answer".to_owned());
    let ignorable = Extender { ignorable: true, ..extender("u") };
    let mut extended = asked(&["a", "b"]);
    assert_eq!(extended.filter(&extender("u"), refused()), Err("out of order".to_owned()));
    assert_eq!(extended.filter(&extender("u"), silent()), Err("no answer".to_owned()));
    assert_eq!(extended.filter(&ignorable, refused()), Ok(Some("out of order".to_owned())));
    assert_eq!(extended.filter(&ignorable, silent()), Ok(Some("no answer".to_owned())));
    assert_eq!(left(&extended), ["a", "b"]);
    assert!(extended.objections.is_empty());
}

#[test]
fn what_is_unresolvable_counts_before_what_is_not_and_later_words_before_earlier_ones() {
    let mut extended = asked(&["a", "b", "c"]);
    let answer = FilterAnswer {
        node_names: strings(&["b", "c"]),
        failed_nodes: messages(&[("a", "full"), ("b", "busy"), ("nowhere", "?")]),
        failed_and_unresolvable_nodes: messages(&[("a", "broken")]),
        ..FilterAnswer::default()
    };
    extended.filter(&extender("one"), Ok(answer)).expect("an answer");
    let answer = FilterAnswer { failed_nodes: messages(&[("b", "gone")]), ..FilterAnswer::default() };
    extended.filter(&extender("two"), Ok(answer)).expect("an answer");
    let words: Vec<(&str, Code, &str)> =
        extended.objections.iter().map(|(name, said)| (&**name, said.code, said.message.as_str())).collect();
    assert_eq!(words, [("a", Code::UnschedulableAndUnresolvable, "broken"), ("b", Code::Unschedulable, "gone")]);
    assert_eq!(extended.wordless(), 1, "c is gone without a word");
}

#[test]
fn scores_are_multiplied_by_the_weight_and_by_ten_and_added_up() {
    let mut extended = asked(&["a", "b"]);
    let score = |host: &str, score| HostPriority { host: host.to_owned(), score };
    extended.prioritize(&Extender { weight: 3, ..extender("one") }, vec![score("a", 2), score("nowhere", 9)]);
    extended.prioritize(&extender("two"), vec![score("a", 1), score("b", -4), score("a", 1)]);
    assert_eq!((extended.bonus("a"), extended.bonus("b"), extended.bonus("c")), (3 * 2 * 10 + 20, -40, 0));
    let mut wild = asked(&["a"]);
    wild.prioritize(&Extender { weight: i64::MAX, ..extender("one") }, vec![score("a", i64::MAX)]);
    assert_eq!(wild.bonus("a"), i64::MAX.wrapping_mul(i64::MAX).wrapping_mul(10));
}

#[test]
fn timeouts_add_up_for_filters_and_go_side_by_side_for_scores() {
    let of = |ms: i64| Arc::new(Extender { http_timeout: GoDuration { nanoseconds: ms * 1_000_000 }, ..extender("u") });
    let silent = Arc::new(Extender { filter_verb: String::new(), ..(*of(50)).clone() });
    assert_eq!(patience_ms(&[of(5), of(7), silent]), 5 + 7 + 50);
    assert_eq!(of(-1).timeout_ms(), UNLIMITED_MS);
    assert_eq!(Extender { url_prefix: "http://u//".to_owned(), ..extender("") }.url("v"), "http://u/v");
}

#[test]
fn the_diagnosis_counts_extenders_words_beside_those_of_plugins() {
    let mut nodes = Snapshot::new(0);
    let names = ["tainted", "a", "b", "c"];
    for (id, name) in (0..).zip(names) {
        let built = if name == "tainted" { node(name).taint("t", "", "NoSchedule") } else { node(name) };
        nodes.upsert_node(crate::node::NodeId(id), &built.build());
    }
    let diagnose = |class: &crate::class::Class, nodes: &mut Snapshot| {
        let prepared = Prepared::new(Registry::built_in(), &testing::profile(), class, &Facts::default(), nodes);
        let mut columns = crate::evaluate::Columns::default();
        let mut scratch = crate::evaluate::Scratch::default();
        columns.refresh(&prepared, nodes, &mut scratch);
        let view = View::new(&prepared, vec![columns.answer_all(&prepared, nodes, 10, &mut scratch)]);
        let mut extended = asked(&names[1..]);
        let answer = FilterAnswer { failed_nodes: messages(&[("a", "no"), ("b", "no")]), ..FilterAnswer::default() };
        extended.filter(&extender("u"), Ok(answer)).expect("an answer");
        extended.diagnosis(&prepared, view.refused(), view.covered() as usize)
    };
    let any = diagnose(&pod("p").build().class, &mut nodes);
    assert_eq!(any.message, "0/4 nodes are available: 1 node(s) had untolerated taint(s), 2 no.");
    assert_eq!(any.plugins, ["Extender", "TaintToleration"]);
}
