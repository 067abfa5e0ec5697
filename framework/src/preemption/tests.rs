//! Single cases of preemption. The results of trials are tested in `framework/tests/preemption_trials.rs`.

use std::sync::Arc;

use super::*;
use crate::{
    class::{Class, ClassId},
    extension::Facts,
    labels::LabelSelector,
    matches::Matches,
    node::NodeId,
    prepared::Prepared,
    profile::DefaultPreemptionArgs,
    registry::Registry,
    snapshot::Snapshot,
    status::{Code, Refusal},
    testing::{PodBuilder, node, pod, profile, selecting},
};

const NOW_NS: i64 = 1_000_000_000_000;

fn standing(name: &str, class: u64, priority: i32, started_ns: Option<i64>) -> PlacedPod {
    let (uid, name) = (format!("uid-{name}").into(), name.into());
    PlacedPod { uid, name, class: ClassId(class), priority, started_ns, is_preempted: false }
}

fn budget(namespace: &str, name: &str, allowed: i32, disrupted: &[&str]) -> Budget {
    Budget {
        namespace: namespace.into(),
        name: name.into(),
        selector: selecting(("app", "web")),
        disruptions_allowed: allowed,
        disrupted: disrupted.iter().map(|&name| name.into()).collect(),
    }
}

/// The layout as text: names in order, `!` marks violations.
fn laid(pods: &[PlacedPod], priority: i32, budgets: &[Budget], classes: &[PodBuilder]) -> String {
    let classes: Vec<Arc<Class>> = classes.iter().map(|class| Arc::new(class.clone().into_class())).collect();
    let budgets: Vec<&Budget> = budgets.iter().collect();
    let class = |id: ClassId| classes.get(usize::try_from(id.0).ok()?).map(Arc::clone);
    let layout = lay_out(NodeId(0), pods, Vec::new(), priority, NOW_NS, &budgets, class);
    let told = |(pod, (class, violates)): (&PlacedPod, &(ClassId, bool))| {
        assert_eq!(pod.class, *class);
        format!("{}{}", pod.name, if *violates { "!" } else { "" })
    };
    layout.pods.iter().zip(&layout.trial.victims).map(told).collect::<Vec<_>>().join(" ")
}

#[test]
fn potential_victims_are_of_lower_priority_and_come_by_importance() {
    let plain = [pod("p")];
    let table = [
        ("only lower priorities", vec![standing("a", 0, 5, None), standing("b", 0, 6, None)], "a"),
        ("a higher priority first", vec![standing("a", 0, 1, Some(1)), standing("b", 0, 2, Some(9))], "b a"),
        ("then who started first", vec![standing("a", 0, 1, Some(9)), standing("b", 0, 1, Some(1))], "b a"),
        ("who has not started starts now", vec![standing("a", 0, 1, None), standing("b", 0, 1, Some(9))], "b a"),
        ("then by name", vec![standing("b", 0, 1, None), standing("a", 0, 1, None)], "a b"),
        ("none of an unknown class", vec![standing("a", 7, 1, None), standing("b", 0, 1, None)], "b"),
        ("no pod", vec![], ""),
    ];
    for (case, pods, expected) in table {
        assert_eq!(laid(&pods, 6, &[], &plain), expected, "{case}");
    }
}

#[test]
fn a_victim_violates_where_a_budget_has_nothing_left() {
    let classes = [
        pod("p").label("app", "web"),
        pod("p").label("app", "db"),
        pod("p"),
        pod("p").namespace("other").label("app", "web"),
    ];
    let web = |names: &[&str]| names.iter().map(|name| standing(name, 0, 1, Some(1))).collect::<Vec<_>>();
    let everything = Budget { selector: LabelSelector::EVERYTHING, ..budget("default", "x", 0, &[]) };
    let nothing = Budget { selector: LabelSelector::Nothing, ..budget("default", "x", 0, &[]) };
    let table = [
        ("no budget", web(&["a"]), vec![], "a"),
        ("none may go", web(&["a", "b"]), vec![budget("default", "x", 0, &[])], "a! b!"),
        (
            "one may go, and the most important is counted first",
            web(&["a", "b"]),
            vec![budget("default", "x", 1, &[])],
            "a b!",
        ),
        (
            "who is on his way out does not count",
            web(&["a", "b", "c"]),
            vec![budget("default", "x", 1, &["b"])],
            "a b c!",
        ),
        ("of another kind", vec![standing("a", 1, 1, None)], vec![budget("default", "x", 0, &[])], "a"),
        ("without labels", vec![standing("a", 2, 1, None)], vec![budget("default", "x", 0, &[])], "a"),
        ("in another namespace", vec![standing("a", 3, 1, None)], vec![budget("default", "x", 0, &[])], "a"),
        ("a selector for everything is for nothing", web(&["a"]), vec![everything], "a"),
        ("no selector", web(&["a"]), vec![nothing], "a"),
        (
            "once one is violated, those after it are not used",
            web(&["a", "b"]),
            vec![
                Budget { disrupted: vec!["b".into()], ..budget("default", "x", 0, &[]) },
                budget("default", "y", 1, &[]),
            ],
            "a! b",
        ),
    ];
    for (case, pods, budgets, expected) in table {
        assert_eq!(laid(&pods, 6, &budgets, &classes), expected, "{case}");
    }
}

#[test]
fn the_candidate_with_the_least_harm_is_taken() {
    let candidate = |node: u32, rank: u64, violations: u32, victims: &[(i32, Option<i64>)]| Candidate {
        node: NodeId(node),
        rank,
        violations,
        victims: victims.iter().map(|&(priority, started)| standing("v", 0, priority, started)).collect(),
    };
    let table = [
        ("no pod", vec![], None, vec![]),
        ("without victims there is no candidate", vec![candidate(0, 0, 0, &[])], None, vec![]),
        (
            "fewest violations",
            vec![candidate(0, 0, 1, &[(1, None)]), candidate(1, 1, 0, &[(9, None), (9, None)])],
            Some(1),
            vec![1],
        ),
        (
            "lowest priority of the most important victim",
            vec![candidate(0, 0, 0, &[(5, None)]), candidate(1, 1, 0, &[(4, None), (4, None)])],
            Some(1),
            vec![1],
        ),
        (
            "lowest sum, in which each victim counts, of a negative priority too",
            vec![candidate(0, 0, 0, &[(-1, None), (-1, None)]), candidate(1, 1, 0, &[(-1, None)])],
            Some(1),
            vec![1],
        ),
        (
            "latest start of the most important victims, by the earliest of them",
            vec![
                candidate(0, 0, 0, &[(5, Some(3)), (5, Some(9)), (1, Some(9))]),
                candidate(1, 1, 0, &[(5, Some(4)), (5, Some(4)), (1, Some(1))]),
            ],
            Some(1),
            vec![1],
        ),
        (
            "who has not started is the latest",
            vec![candidate(0, 0, 0, &[(5, Some(3))]), candidate(1, 1, 0, &[(5, None)])],
            Some(1),
            vec![1],
        ),
        (
            "the rank decides between those that are alike",
            vec![candidate(0, 9, 0, &[(5, None)]), candidate(1, 3, 0, &[(5, None)]), candidate(2, 1, 1, &[(5, None)])],
            Some(1),
            vec![0, 1],
        ),
    ];
    for (case, candidates, chosen, alike) in table {
        assert_eq!(pick_one(&candidates, NOW_NS), chosen, "{case}");
        assert_eq!(tied(&candidates, NOW_NS), alike, "{case}");
    }
}

#[test]
fn so_many_candidates_are_looked_for() {
    let args = |percentage, absolute| DefaultPreemptionArgs {
        min_candidate_nodes_percentage: percentage,
        min_candidate_nodes_absolute: absolute,
    };
    let table = [
        ("all of few nodes", 50, args(10, 100), 50),
        ("a hundred of some", 500, args(10, 100), 100),
        ("a tenth of many", 5_000, args(10, 100), 500),
        ("the part is rounded down", 199, args(1, 0), 1),
        ("none of none", 0, args(10, 100), 0),
    ];
    for (case, potential, args, wanted) in table {
        assert_eq!(Shortlist::new(potential, &args).wanted(), wanted, "{case}");
    }
}

#[test]
fn the_search_goes_on_while_every_candidate_violates_a_budget() {
    let mut shortlist = Shortlist::new(
        10,
        &DefaultPreemptionArgs { min_candidate_nodes_percentage: 0, min_candidate_nodes_absolute: 2 },
    );
    let steps = [(1, true, false), (2, true, false), (1, false, false), (0, true, true)];
    for (violations, is_kept, is_enough) in steps {
        assert_eq!((shortlist.add(violations), shortlist.is_enough()), (is_kept, is_enough), "{violations}");
    }
    let first = shortlist.first("uid", 7);
    assert!(first < 10 && first == shortlist.first("uid", 7));
    assert_eq!(Shortlist::new(0, &DefaultPreemptionArgs::default()).first("uid", 7), 0);
}

#[test]
fn a_pod_may_preempt_unless_it_never_does_or_its_victims_are_still_going() {
    let going = |priority| vec![PlacedPod { is_preempted: true, ..standing("v", 0, priority, None) }];
    let table = [
        ("not nominated", pod("p").priority(5), None, None),
        ("never", pod("p").priority(5).never_preempts(), None, Some(words::NEVER)),
        ("a victim is going", pod("p").priority(5), Some((Code::Unschedulable, going(1))), Some(words::TERMINATING)),
        ("one that is no victim is going", pod("p").priority(5), Some((Code::Unschedulable, going(5))), None),
        ("no pod is going", pod("p").priority(5), Some((Code::Unschedulable, vec![standing("v", 0, 1, None)])), None),
        ("the node will never do", pod("p").priority(5), Some((Code::UnschedulableAndUnresolvable, going(1))), None),
    ];
    for (case, pod, nominated, expected) in table {
        let nominated = nominated.as_ref().map(|(code, pods)| NominatedNode { code: *code, pods });
        assert_eq!(why_ineligible(&pod.build(), nominated), expected, "{case}");
    }
}

/// A node of 2 CPU with pods of 1 CPU on it, and a pod that requests `cpu`.
fn crowded(cpu: &str, pods: usize) -> (Snapshot, Prepared, Matches) {
    let mut nodes = Snapshot::new(0);
    nodes.upsert_node(NodeId(0), &node("n").capacity("cpu", "2").build());
    nodes.register_class(ClassId(0), Arc::new(pod("v").request("cpu", "1").into_class()));
    (0..pods).for_each(|_| assert!(nodes.add_pod(NodeId(0), ClassId(0))));
    let class = pod("p").request("cpu", cpu).into_class();
    let prepared = Prepared::new(Registry::built_in(), &profile(), &class, &Facts::default(), &nodes);
    (nodes, prepared, Matches::default())
}

fn trial(victims: &[bool], beside: usize) -> Trial {
    let victims = victims.iter().map(|&violates| (ClassId(0), violates)).collect();
    Trial { node: NodeId(0), victims, units: Vec::new(), beside: vec![ClassId(0); beside] }
}

#[test]
fn a_trial_takes_no_more_pods_away_than_it_must() {
    let victims = |indexes: &[u32], violations| DryRunResult::Victims { indexes: indexes.to_vec(), violations };
    let table = [
        ("one of two goes, the least important", "1", 2, trial(&[false, false], 0), victims(&[1], 0)),
        ("who has a budget against it is spared first", "1", 2, trial(&[false, true], 0), victims(&[0], 0)),
        ("both go", "2", 2, trial(&[true, false], 0), victims(&[0, 1], 1)),
        ("a nominated pod takes the room of one", "1", 2, trial(&[false, false], 1), victims(&[0, 1], 0)),
        ("no pod is in the way", "1", 1, trial(&[false], 0), DryRunResult::Needless),
        ("no pod may go", "1", 2, trial(&[], 0), DryRunResult::NoVictims),
        ("a pod is not there any more", "1", 1, trial(&[false, false], 0), DryRunResult::Stale),
        ("the node is not there", "1", 1, Trial { node: NodeId(7), ..trial(&[false], 0) }, DryRunResult::Stale),
    ];
    for (case, cpu, pods, trial, expected) in table {
        let (mut nodes, prepared, matches) = crowded(cpu, pods);
        let before = (nodes.stamp(), nodes.tenants(0).to_vec());
        assert_eq!(dry_run(&prepared, &mut nodes, &matches, &trial), expected, "{case}");
        assert_eq!((nodes.stamp(), nodes.tenants(0).to_vec()), before, "{case}");
    }
}

#[test]
fn what_is_told_where_no_trial_helped() {
    let (mut nodes, prepared, matches) = crowded("3", 2);
    let refused = dry_run(&prepared, &mut nodes, &matches, &trial(&[false, false], 0));
    assert!(matches!(refused, DryRunResult::Refused(_, Refusal { code: Code::UnschedulableAndUnresolvable, .. })));
    let table = [
        (
            "nothing was tried",
            vec![],
            Ok("preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."),
        ),
        (
            "some were tried",
            vec![("a", DryRunResult::NoVictims), ("b", refused.clone())],
            Ok("preemption: 0/3 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming \
                pod, 1 Preemption is not helpful for scheduling."),
        ),
        (
            "no pod was in the way",
            vec![("a", DryRunResult::Needless), ("b", refused)],
            Err("preemption: expected at least one victim pod on node \"a\""),
        ),
        (
            "more than once",
            vec![("a", DryRunResult::Needless), ("b", DryRunResult::Needless)],
            Err(
                "preemption: [expected at least one victim pod on node \"a\", expected at least one victim pod on node \
                 \"b\"]",
            ),
        ),
    ];
    for (case, outcomes, expected) in table {
        let told = words::fruitless(&prepared, outcomes.iter().map(|(node, outcome)| (*node, outcome)), 3);
        assert_eq!(told.as_deref().map_err(String::as_str), expected, "{case}");
    }
    assert_eq!(words::found("n", 2), "preemption: found a potential placement for pod on node n, preempting 2 victims");
}

#[test]
fn trials_end_when_there_are_enough_candidates_and_those_without_violations_come_first() {
    let (mut nodes, prepared, matches) = crowded("1", 2);
    let layout = |violates: &[bool]| Layout {
        trial: trial(violates, 0),
        pods: vec![standing("a", 0, 1, None), standing("b", 0, 1, None)],
        wholes: Vec::new(),
    };
    let layouts = [layout(&[true, true]), layout(&[false, false]), layout(&[false, false])];
    let args = DefaultPreemptionArgs { min_candidate_nodes_percentage: 0, min_candidate_nodes_absolute: 2 };
    let Evaluated { candidates, outcomes } =
        evaluate(&prepared, &mut nodes, &matches, layouts, Shortlist::new(3, &args));
    let told: Vec<(u32, Vec<&str>)> = candidates
        .iter()
        .map(|candidate| (candidate.violations, candidate.victims.iter().map(|pod| &*pod.name).collect()))
        .collect();
    assert_eq!((told, outcomes.len()), (vec![(0, vec!["b"]), (1, vec!["b"])], 2));
}

/// A unit with pods on node 0 and `elsewhere` on node 1.
fn unit(priority: i32, is_of_group: bool, pods: Vec<PlacedPod>, elsewhere: Vec<PlacedPod>) -> Unit<NodeId> {
    let at = |id, pods: Vec<PlacedPod>| pods.into_iter().map(move |pod| (pod, NodeId(id)));
    let kind = if is_of_group { UnitKind::PodGroup } else { UnitKind::Pod };
    Unit { priority, kind, pods: at(0, pods).chain(at(1, elsewhere)).collect() }
}

/// The layout as text: units in order, each with its pods here, `+` and those on other nodes, and `!` for each violation.
fn laid_units(units: Vec<Unit<NodeId>>, budgets: &[Budget]) -> String {
    let class = Arc::new(pod("p").label("app", "web").into_class());
    let budgets: Vec<&Budget> = budgets.iter().collect();
    let known = |id: ClassId| (id.0 == 0).then(|| Arc::clone(&class));
    let layout = lay_out_units(NodeId(0), units, Vec::new(), 6, NOW_NS, &budgets, known);
    assert!(layout.trial.is_sound());
    let told = |(span, whole): (std::ops::Range<usize>, &Whole)| {
        let violates = &layout.trial.victims[span.clone()];
        assert!(violates.iter().all(|(_, violates)| *violates == (whole.violations > 0)));
        let names = |pods: Vec<&PlacedPod>| pods.iter().map(|pod| pod.name.to_string()).collect::<Vec<_>>().join("");
        let here = names(layout.pods[span].iter().collect());
        let elsewhere = names(whole.elsewhere.iter().map(|(_, pod)| pod).collect());
        let plus = if elsewhere.is_empty() { "" } else { "+" };
        format!("{here}{plus}{elsewhere}{}", "!".repeat(whole.violations as usize))
    };
    layout.trial.spans().into_iter().zip(&layout.wholes).map(told).collect::<Vec<_>>().join(" ")
}

#[test]
fn units_come_by_priority_then_groups_first_then_the_larger_then_the_older() {
    let at = |name: &str, started| standing(name, 0, 1, started);
    let single = |priority, name| unit(priority, false, vec![at(name, None)], vec![]);
    let table = [
        ("only lower priorities", vec![single(5, "a"), single(6, "b")], "a"),
        ("the unit's priority counts, not its pods'", vec![unit(7, true, vec![at("a", None)], vec![])], ""),
        ("a higher priority first", vec![single(1, "a"), single(2, "b")], "b a"),
        ("a group before a pod", vec![single(1, "a"), unit(1, true, vec![at("b", None)], vec![])], "b a"),
        (
            "a larger one before a smaller one, wherever its pods are",
            vec![
                unit(1, true, vec![at("a", Some(1))], vec![]),
                unit(1, true, vec![at("b", None)], vec![at("c", None), at("d", None)]),
            ],
            "b+cd a",
        ),
        (
            "then whose first pod started first",
            vec![
                unit(1, true, vec![at("a", Some(5)), at("b", Some(9))], vec![]),
                unit(1, true, vec![at("c", Some(7))], vec![at("d", Some(2))]),
            ],
            "c+d ab",
        ),
        (
            "none with a pod of an unknown class",
            vec![unit(1, true, vec![at("a", None)], vec![standing("b", 7, 1, None)])],
            "",
        ),
    ];
    for (case, units, expected) in table {
        assert_eq!(laid_units(units, &[]), expected, "{case}");
    }
}

#[test]
fn a_unit_violates_a_budget_as_often_as_its_pods_do_wherever_they_are() {
    let at = |name: &str| standing(name, 0, 1, None);
    let units = || vec![unit(2, true, vec![at("a")], vec![at("b"), at("c")]), unit(1, true, vec![at("d")], vec![])];
    for (allowed, expected) in [(4, "a+bc d"), (3, "a+bc d!"), (2, "a+bc! d!"), (1, "a+bc!! d!"), (0, "a+bc!!! d!")] {
        assert_eq!(laid_units(units(), &[budget("default", "x", allowed, &[])]), expected, "{allowed}");
    }
}

/// A unit of two pods of a small class on node 0 and `elsewhere` on node 1, and one pod without a group.
fn layout_of_two(elsewhere: Vec<PlacedPod>) -> Layout {
    let at = |name: &str| standing(name, 0, 1, None);
    let units = vec![unit(2, true, vec![at("a"), at("b")], elsewhere), unit(1, false, vec![at("c")], vec![])];
    let class = Arc::new(pod("p").label("app", "web").into_class());
    let zero = budget("default", "x", 0, &[]);
    lay_out_units(NodeId(0), units, Vec::new(), 6, NOW_NS, &[&zero], |_| Some(Arc::clone(&class)))
}

type Units = (&'static [u32], Option<(&'static str, u32)>);

#[test]
fn a_candidate_is_made_of_whole_units() {
    let (nodes, _, _) = crowded("1", 1);
    let layout = layout_of_two(vec![standing("far", 0, 1, None)]);
    let table: [Units; 6] = [
        (&[0, 1], Some(("a b far", 3))),
        (&[2], Some(("c", 1))),
        (&[0, 1, 2], Some(("a b far c", 4))),
        (&[0], None),
        (&[1, 2], None),
        (&[0, 1, 3], None),
    ];
    for (indexes, expected) in table {
        let outcome = DryRunResult::Victims { indexes: indexes.to_vec(), violations: 0 };
        let told = |candidate: Candidate| {
            let names: Vec<&str> = candidate.victims.iter().map(|pod| &*pod.name).collect();
            (names.join(" "), candidate.violations)
        };
        let expected = expected.map(|(names, violations)| (names.to_owned(), violations));
        assert_eq!(layout.candidate(&outcome, &nodes).map(told), expected, "{indexes:?}");
    }
}

#[test]
fn what_goes_elsewhere_along_with_a_victim_is_not_counted_there_any_more() {
    // Web pods spread over zones. Zone a has two, zone b has one, and one pod of each zone form a unit.
    let mut nodes = Snapshot::new(0);
    for (id, zone) in [(0, "a"), (1, "b")] {
        nodes.upsert_node(NodeId(id), &node(zone).label("zone", zone).capacity("cpu", "2").build());
    }
    nodes.register_class(ClassId(0), Arc::new(pod("p").label("app", "web").request("cpu", "1").into_class()));
    for id in [0, 0, 1] {
        assert!(nodes.add_pod(NodeId(id), ClassId(0)));
    }
    let wishes = pod("p").label("app", "web").request("cpu", "1").spread(1, "zone", ("app", "web")).into_class();
    let prepared = Prepared::new(Registry::built_in(), &profile(), &wishes, &Facts::default(), &nodes);
    let mut matches = Matches::default();
    matches.refresh(&prepared, &nodes);
    let layout = |elsewhere| {
        let units = vec![unit(1, true, vec![standing("a", 0, 1, None)], elsewhere)];
        let class = Arc::clone(nodes.class(ClassId(0)).expect("it is registered"));
        lay_out_units(NodeId(0), units, Vec::new(), 6, NOW_NS, &[], |_| Some(Arc::clone(&class)))
    };
    let (alone, together) = (layout(vec![]), layout(vec![standing("b", 0, 1, None)]));
    let mut dry_run = DryRun::new(&prepared, &nodes, &matches);
    for _ in 0..2 {
        let outcome = dry_run.dry_run_whole(&prepared, &mut nodes, &alone);
        assert_eq!(outcome, DryRunResult::Victims { indexes: vec![0], violations: 0 }, "one on each side is left");
        let outcome = dry_run.dry_run_whole(&prepared, &mut nodes, &together);
        assert!(matches!(outcome, DryRunResult::Refused(..)), "none on the other side: {outcome:?}");
    }
}
