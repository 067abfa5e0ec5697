//! Cases of upstream's filtering_test.go, scoring_test.go and plugin_test.go.

use super::*;
use crate::{
    node::NodeInfo,
    testing::{
        PodBuilder,
        checks::{NodeWithPods, Said, alone, unresolvable, unschedulable},
        node, pod, selecting, term,
    },
};

const NAME: &str = "InterPodAffinity";

const HOST: &str = "kubernetes.io/hostname";

const WEB: (&str, &str) = ("app", "web");

const DB: (&str, &str) = ("app", "db");

fn web(name: &str) -> PodBuilder {
    pod(name).label("app", "web")
}

fn db(name: &str) -> PodBuilder {
    pod(name).label("app", "db")
}

fn affinity() -> Said {
    unresolvable(&["node(s) didn't match pod affinity rules"])
}

fn anti() -> Said {
    unschedulable(&["node(s) didn't match pod anti-affinity rules"])
}

fn existing() -> Said {
    unschedulable(&["node(s) didn't satisfy existing pods anti-affinity rules"])
}

/// Three nodes with pods: two in zone a, one in zone b.
fn zones(pods: [Vec<PodBuilder>; 3]) -> Vec<NodeWithPods> {
    let nodes = [("n0", "a"), ("n1", "a"), ("n2", "b")].map(|(name, zone)| node(name).label("zone", zone));
    nodes.into_iter().zip(pods).collect()
}

#[test]
fn required_affinity_needs_a_matching_pod_in_the_domain() {
    let table = [
        ("by zone", db("p").near("zone", WEB), [Ok(()), Ok(()), affinity()]),
        ("by host", db("p").near(HOST, WEB), [Ok(()), affinity(), affinity()]),
        ("no pod matches", db("p").near("zone", ("app", "none")), [affinity(), affinity(), affinity()]),
        ("a label that no node has", db("p").near("rack", WEB), [affinity(), affinity(), affinity()]),
        ("both terms", db("p").near("zone", WEB).near(HOST, WEB), [Ok(()), affinity(), affinity()]),
    ];
    for (case, pod, expected) in table {
        let nodes = zones([vec![web("w")], vec![], vec![]]);
        assert_eq!(alone(NAME).verdicts(&pod, &nodes), expected, "{case}");
    }
}

#[test]
fn one_pod_has_to_match_all_terms_of_an_affinity() {
    let both = pod("p").near("zone", WEB).near("zone", ("tier", "x"));
    let apart = zones([vec![web("w"), pod("x").label("tier", "x")], vec![], vec![]]);
    assert_eq!(alone(NAME).verdicts(&both, &apart), [affinity(), affinity(), affinity()]);
    let together = zones([vec![web("w").label("tier", "x")], vec![], vec![]]);
    assert_eq!(alone(NAME).verdicts(&both, &together), [Ok(()), Ok(()), affinity()]);
}

#[test]
fn the_first_of_a_series_may_go_wherever_the_labels_are() {
    let first = web("p").near("zone", WEB);
    let mut nodes = zones([vec![], vec![], vec![]]);
    nodes.push((node("n3"), vec![]));
    assert_eq!(alone(NAME).verdicts(&first, &nodes), [Ok(()), Ok(()), Ok(()), affinity()]);
    nodes[2].1.push(web("w"));
    assert_eq!(
        alone(NAME).verdicts(&first, &nodes),
        [affinity(), affinity(), Ok(()), affinity()],
        "now it is the second"
    );
    let elsewhere = zones([vec![web("w").namespace("other")], vec![], vec![]]);
    assert_eq!(alone(NAME).verdicts(&first, &elsewhere), [Ok(()), Ok(()), Ok(())], "that one is of another series");
    let mut hidden = zones([vec![], vec![], vec![]]);
    hidden.push((node("n3"), vec![web("w")]));
    assert_eq!(alone(NAME).verdicts(&first, &hidden)[0], Ok(()), "a pod on a node without the label is in no domain");
    let not_itself = db("p").near("zone", WEB);
    assert_eq!(alone(NAME).verdicts(&not_itself, &zones([vec![], vec![], vec![]]))[0], affinity());
}

#[test]
fn required_anti_affinity_keeps_away_from_matching_pods() {
    let table = [
        ("by zone", db("p").far("zone", WEB), [anti(), anti(), Ok(())]),
        ("by host", db("p").far(HOST, WEB), [anti(), Ok(()), Ok(())]),
        ("a label that no node has", db("p").far("rack", WEB), [Ok(()), Ok(()), Ok(())]),
        ("any term", db("p").far("rack", WEB).far(HOST, WEB), [anti(), Ok(()), Ok(())]),
        ("itself it may meet", web("p").far("zone", DB), [Ok(()), Ok(()), Ok(())]),
    ];
    for (case, pod, expected) in table {
        let nodes = zones([vec![web("w")], vec![], vec![]]);
        assert_eq!(alone(NAME).verdicts(&pod, &nodes), expected, "{case}");
    }
}

#[test]
fn anti_affinity_of_standing_pods_keeps_others_away() {
    let table = [
        ("by zone", db("s").far("zone", WEB), [existing(), existing(), Ok(())]),
        ("by host", db("s").far(HOST, WEB), [existing(), Ok(()), Ok(())]),
        ("means others", db("s").far("zone", DB), [Ok(()), Ok(()), Ok(())]),
        ("terminating pods go on refusing", db("s").far(HOST, WEB).terminating(), [existing(), Ok(()), Ok(())]),
        ("of another namespace", db("s").namespace("other").far("zone", WEB), [Ok(()), Ok(()), Ok(())]),
    ];
    for (case, standing, expected) in table {
        let nodes = zones([vec![standing], vec![], vec![]]);
        assert_eq!(alone(NAME).verdicts(&web("p"), &nodes), expected, "{case}");
    }
}

#[test]
fn affinity_is_looked_at_first_then_the_own_anti_affinity_then_that_of_others() {
    let standing = web("s").far("zone", WEB);
    let nodes = || zones([vec![standing.clone()], vec![], vec![]]);
    let all = web("p").near("rack", DB).far("zone", WEB);
    assert_eq!(alone(NAME).verdicts(&all, &nodes())[0], affinity());
    assert_eq!(alone(NAME).verdicts(&web("p").far("zone", WEB), &nodes())[0], anti());
    assert_eq!(alone(NAME).verdicts(&web("p"), &nodes())[0], existing());
}

fn selecting_namespaces(pod: PodBuilder) -> PodBuilder {
    pod.class(|class| {
        let mut far = term("zone", WEB);
        far.namespace_selector = selecting(("team", "x"));
        class.pod_affinity.required_anti.push(far);
    })
}

#[test]
fn namespaces_may_be_selected_by_their_labels() {
    let other = |pod: PodBuilder| zones([vec![pod.namespace("other")], vec![], vec![]]);
    let own = selecting_namespaces(db("p"));
    assert_eq!(alone(NAME).verdicts(&own, &other(web("w")))[0], Ok(()), "no namespace is known to be selected");
    let resolved = |facts| Facts { term_namespaces: vec![["other".into()].into()], ..facts };
    assert_eq!(alone(NAME).facts(resolved).verdicts(&own, &other(web("w")))[0], anti());
    let labelled = |facts| Facts {
        namespace_labels: vec![("team".into(), "x".into())],
        repelling_keys: vec!["zone".into()],
        ..facts
    };
    let theirs = || other(selecting_namespaces(db("s")));
    assert_eq!(alone(NAME).facts(labelled).verdicts(&web("p"), &theirs())[0], existing());
    assert_eq!(alone(NAME).verdicts(&web("p"), &theirs())[0], Ok(()));
    let everywhere = db("p").class(|class| {
        let mut far = term("zone", WEB);
        far.namespace_selector = LabelSelector::EVERYTHING;
        class.pod_affinity.required_anti.push(far);
    });
    assert_eq!(alone(NAME).verdicts(&everywhere, &other(web("w")))[0], anti(), "every namespace, known or not");
}

#[test]
fn which_namespaces_and_keys_matter_is_found_once_for_all_nodes() {
    let class = selecting_namespaces(db("p").near("rack", WEB)).into_class();
    let x: Vec<(Arc<str>, Arc<str>)> = vec![("team".into(), "x".into())];
    let (one, two): (Arc<str>, Arc<str>) = ("one".into(), "two".into());
    let namespaces = [(&two, x.as_slice()), (&one, x.as_slice()), (&one, &[][..])];
    let found = term_namespaces(&class, namespaces.into_iter());
    assert_eq!(
        found,
        [[].into(), [Arc::clone(&one), two].into()],
        "required affinity first; only selectors are resolved"
    );
    let others = [
        web("a").far("zone", DB).far("zone", DB).near("rack", DB).into_class(),
        web("b").prefer_far(1, HOST, DB).prefer_near(1, "zone", WEB).into_class(),
    ];
    let (repelling, scoring) = keys_in_play(&class, &[], others.iter());
    assert_eq!((repelling, scoring), (vec!["zone".into()], vec![HOST.into(), "rack".into()]));
}

#[test]
fn a_pod_that_cannot_be_read_is_refused_with_the_reason() {
    let bad = web("p").class(|class| class.pod_affinity.error = Some("requiredAffinityTerms: it is bad".into()));
    assert_eq!(alone(NAME).pre_filter(&bad), "refuse parsing pod: requiredAffinityTerms: it is bad");
    assert_eq!(alone(NAME).pre_filter(&web("p")), "continue");
}

#[test]
fn preferences_add_up_by_weight_and_domain() {
    type Row = (&'static str, PodBuilder, [Vec<PodBuilder>; 3], Option<[i64; 3]>);
    let table: [Row; 9] = [
        ("none", web("p"), [vec![db("s")], vec![], vec![]], None),
        ("near by zone", db("p").prefer_near(5, "zone", WEB), [vec![web("s")], vec![], vec![]], Some([100, 100, 0])),
        ("near by host", db("p").prefer_near(5, HOST, WEB), [vec![web("s")], vec![], vec![]], Some([100, 0, 0])),
        ("far", db("p").prefer_far(5, "zone", WEB), [vec![web("s")], vec![], vec![]], Some([0, 0, 100])),
        (
            "weights add up",
            db("p").prefer_near(8, "zone", WEB).prefer_near(2, HOST, WEB),
            [vec![web("s")], vec![], vec![]],
            Some([100, 80, 0]),
        ),
        (
            "each pod counts",
            db("p").prefer_near(1, HOST, WEB),
            [vec![web("s"); 4], vec![web("s")], vec![]],
            Some([100, 25, 0]),
        ),
        ("no pod matches", db("p").prefer_near(1, HOST, WEB), [vec![db("s")], vec![], vec![]], Some([0, 0, 0])),
        (
            "standing pods prefer too",
            web("p"),
            [vec![db("s").prefer_near(3, "zone", WEB)], vec![], vec![db("t").prefer_far(2, HOST, WEB)]],
            Some([100, 100, 0]),
        ),
        (
            "a standing pod's required affinity counts one",
            web("p"),
            [vec![db("s").near("zone", WEB)], vec![], vec![db("t").prefer_near(4, "zone", WEB)]],
            Some([0, 0, 100]),
        ),
    ];
    for (case, pod, pods, expected) in table {
        let scores = alone(NAME).totals(&pod, &zones(pods));
        assert_eq!(scores, expected.map(|scores| scores.to_vec()), "{case}");
    }
}

#[test]
fn the_operator_sets_what_required_affinity_of_standing_pods_counts() {
    let nodes = || zones([vec![db("s").near("zone", WEB)], vec![], vec![db("t").prefer_near(4, "zone", WEB)]]);
    let with = |weight| alone(NAME).args(|args| args.inter_pod_affinity.hard_pod_affinity_weight = weight);
    assert_eq!(with(8).totals(&web("p"), &nodes()), Some(vec![100, 100, 0]));
    assert_eq!(with(0).totals(&web("p"), &nodes()), Some(vec![0, 0, 100]));
}

#[test]
fn preferences_of_standing_pods_may_be_ignored_for_pods_that_have_none() {
    let nodes = || zones([vec![db("s").prefer_near(4, HOST, WEB)], vec![], vec![]]);
    let ignoring = || alone(NAME).args(|args| args.inter_pod_affinity.ignore_preferred_terms_of_existing_pods = true);
    assert_eq!(ignoring().totals(&web("p"), &nodes()), None);
    let preferring = web("p").prefer_near(4, "zone", DB);
    assert_eq!(ignoring().totals(&preferring, &nodes()), Some(vec![100, 50, 0]), "its own open the door to theirs");
}

#[test]
fn pods_that_come_and_go_wake_those_that_wait_for_it() {
    let near = db("p").near("zone", WEB).near("zone", ("tier", "x"));
    let far = db("p").far("zone", WEB);
    let class = |pod: PodBuilder| pod.into_class();
    let (one, both, other) = (class(web("a")), class(web("b").label("tier", "x")), class(pod("c")));
    let hates = class(pod("d").far("zone", DB));
    let table = [
        ("one that matches a term came", ClusterEvent::PodAdded(&one), false, false),
        ("one that matches all terms came", ClusterEvent::PodAdded(&both), true, false),
        ("one matches all from now on", ClusterEvent::PodUpdated { old: &one, new: &both }, true, false),
        ("one does not match any more", ClusterEvent::PodUpdated { old: &one, new: &other }, false, true),
        ("one that matches went", ClusterEvent::PodRemoved(&one), false, true),
        ("one that has nothing to do with it went", ClusterEvent::PodRemoved(&other), false, false),
        ("one that hates it went", ClusterEvent::PodRemoved(&hates), true, true),
    ];
    for (case, event, wakes_near, wakes_far) in table {
        assert_eq!(alone(NAME).wakes(event, &near), wakes_near, "{case}");
        assert_eq!(alone(NAME).wakes(event, &far), wakes_far, "{case}");
    }
    let elsewhere = class(web("a").namespace("other"));
    assert!(
        alone(NAME).wakes(ClusterEvent::PodRemoved(&elsewhere), &selecting_namespaces(db("p"))),
        "it may be selected"
    );
}

#[test]
fn nodes_wake_those_whose_domains_they_make_or_move() {
    let (near, far) = (db("p").near("zone", WEB), db("p").far("zone", WEB));
    let (a, b, bare) = (node("n").label("zone", "a").build(), node("n").label("zone", "b").build(), node("n").build());
    fn updated<'a>(old: &'a NodeInfo, new: &'a NodeInfo) -> ClusterEvent<'a> {
        ClusterEvent::NodeUpdated { old, new }
    }
    let table = [
        ("a node with the label came", ClusterEvent::NodeAdded(&a), true, true),
        ("a node without the label came", ClusterEvent::NodeAdded(&bare), false, true),
        ("a node got the label", updated(&bare, &a), true, true),
        ("a node moved", updated(&a, &b), true, true),
        ("nothing changed", updated(&a, &a), false, false),
    ];
    for (case, event, wakes_near, wakes_far) in table {
        assert_eq!(alone(NAME).wakes(event, &near), wakes_near, "{case}");
        assert_eq!(alone(NAME).wakes(event, &far), wakes_far, "{case}");
    }
    assert!(!alone(NAME).wakes(updated(&a, &bare), &near), "a node that lost the label is no domain any more");
    assert!(alone(NAME).wakes(ClusterEvent::NodeAdded(&bare), &web("p")), "others may refuse it everywhere else");
    assert!(alone(NAME).wakes(ClusterEvent::NamespaceChanged("x"), &selecting_namespaces(db("p"))));
    assert!(!alone(NAME).wakes(ClusterEvent::NamespaceChanged("x"), &near));
}

#[test]
fn without_its_pre_score_every_score_fails_for_every_pod() {
    let error = "running Score plugins: plugin \"InterPodAffinity\" failed with: failed to read \
                 \"PreScoreInterPodAffinity\" from cycleState: not found";
    for pod in [pod("plain"), db("p").prefer_near(1, "zone", WEB)] {
        assert_eq!(alone(NAME).without_pre_score().score_error(&pod).as_deref(), Some(error));
        assert_eq!(alone(NAME).score_error(&pod), None);
    }
}
