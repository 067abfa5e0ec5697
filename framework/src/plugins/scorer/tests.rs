//! Cases of upstream's least_allocated, most_allocated, requested_to_capacity_ratio and resource_allocation tests.

use super::*;
use crate::{
    profile::{ScoringStrategy, ScoringStrategyKind, default_resources},
    testing::{
        NodeBuilder, PodBuilder,
        checks::{Alone, NodeWithPods, alone},
        node, pod,
    },
};

fn strategy(kind: ScoringStrategyKind, resources: &[(&str, i64)], shape: &[(i32, i32)]) -> Alone {
    let resources = resources.iter().map(|&(name, weight)| ResourceWeight { name: name.to_owned(), weight });
    let shape = shape.iter().map(|&(utilization, score)| ShapePoint { utilization, score });
    let strategy = ScoringStrategy { kind, resources: resources.collect(), shape: shape.collect() };
    alone("NodeResourcesFit").args(|args| args.node_resources_fit.scoring_strategy = strategy)
}

const STOCK: [(&str, i64); 2] = [("cpu", 1), ("memory", 1)];
const GPU: &str = "example.com/gpu";

fn sized(milli_cpu: i64, memory: i64) -> NodeBuilder {
    node("n").capacity("cpu", &format!("{milli_cpu}m")).capacity("memory", &memory.to_string())
}

fn asks(milli_cpu: i64, memory: i64) -> PodBuilder {
    pod("p").request("cpu", &format!("{milli_cpu}m")).request("memory", &memory.to_string())
}

type Row<'a> = (&'a str, &'a [(&'a str, i64)], PodBuilder, Vec<NodeWithPods>, Vec<i64>);

fn check(kind: ScoringStrategyKind, shape: &[(i32, i32)], table: Vec<Row<'_>>) {
    for (case, resources, pod, nodes, expected) in table {
        assert_eq!(strategy(kind, resources, shape).scores(&pod, &nodes), Some(expected), "{case}");
    }
}

#[test]
fn the_emptier_node_scores_higher_where_least_allocated_is_asked_for() {
    let silent = || asks(0, 0);
    check(
        ScoringStrategyKind::LeastAllocated,
        &[],
        vec![
            ("nothing stands and nothing is asked", &STOCK, silent(), vec![(sized(4000, 10_000), vec![])], vec![100]),
            (
                "nodes of different size",
                &STOCK,
                asks(3000, 5000),
                vec![(sized(4000, 10_000), vec![]), (sized(6000, 10_000), vec![])],
                vec![37, 50],
            ),
            (
                "pods stand",
                &STOCK,
                asks(3000, 5000),
                vec![
                    (sized(10_000, 20_000), vec![asks(3000, 0), asks(3000, 0)]),
                    (sized(10_000, 20_000), vec![asks(3000, 0), asks(3000, 5000)]),
                ],
                vec![42, 30],
            ),
            (
                "more than there is scores nothing for that resource",
                &STOCK,
                asks(5000, 1000),
                vec![(sized(4000, 10_000), vec![])],
                vec![45],
            ),
            ("a node without anything", &STOCK, asks(1, 1), vec![(sized(0, 0), vec![])], vec![0]),
            (
                "a node without cpu is scored by memory",
                &STOCK,
                asks(1, 2500),
                vec![(sized(0, 10_000), vec![])],
                vec![75],
            ),
            ("weights", &[("cpu", 2), ("memory", 1)], asks(3000, 5000), vec![(sized(4000, 10_000), vec![])], vec![33]),
            (
                "a weight beyond a hundred",
                &[("cpu", 200), ("memory", 1)],
                asks(1000, 5000),
                vec![(sized(4000, 10_000), vec![])],
                vec![74],
            ),
        ],
    );
}

#[test]
fn resources_beyond_cpu_and_memory_count_where_the_pod_asks_and_the_node_has_them() {
    let gpus = |amount| sized(4000, 10_000).capacity(GPU, amount);
    let with_gpu = [("cpu", 1), ("memory", 1), (GPU, 1)];
    check(
        ScoringStrategyKind::LeastAllocated,
        &[],
        vec![
            (
                "an extended resource that is not asked for",
                &with_gpu,
                asks(3000, 5000),
                vec![(gpus("4"), vec![])],
                vec![37],
            ),
            (
                "an extended resource that is asked for",
                &with_gpu,
                asks(3000, 5000).request(GPU, "4"),
                vec![(gpus("4"), vec![]), (gpus("10"), vec![])],
                vec![25, 45],
            ),
            (
                "a node that lacks it",
                &with_gpu,
                asks(3000, 5000).request(GPU, "4"),
                vec![(sized(4000, 10_000), vec![])],
                vec![37],
            ),
            (
                "the disk",
                &[("ephemeral-storage", 1)],
                pod("p").request("ephemeral-storage", "30"),
                vec![(node("n").capacity("ephemeral-storage", "100"), vec![])],
                vec![70],
            ),
        ],
    );
}

#[test]
fn the_fuller_node_scores_higher_where_most_allocated_is_asked_for() {
    check(
        ScoringStrategyKind::MostAllocated,
        &[],
        vec![
            ("nothing stands and nothing is asked", &STOCK, asks(0, 0), vec![(sized(4000, 10_000), vec![])], vec![0]),
            (
                "nodes of different size",
                &STOCK,
                asks(3000, 5000),
                vec![(sized(4000, 10_000), vec![]), (sized(6000, 10_000), vec![])],
                vec![62, 50],
            ),
            ("as much as there is", &STOCK, asks(4000, 10_000), vec![(sized(4000, 10_000), vec![])], vec![100]),
            (
                "more than there is counts as all",
                &STOCK,
                asks(9000, 5000),
                vec![(sized(4000, 10_000), vec![])],
                vec![75],
            ),
            ("pods stand", &STOCK, asks(3000, 5000), vec![(sized(10_000, 20_000), vec![asks(3000, 5000)])], vec![55]),
            (
                "an extended resource that is asked for",
                &[(GPU, 1)],
                asks(1, 1).request(GPU, "3"),
                vec![(node("n").capacity(GPU, "4"), vec![])],
                vec![75],
            ),
            (
                "an extended resource that is not asked for",
                &[(GPU, 1)],
                asks(1, 1),
                vec![(node("n").capacity(GPU, "4"), vec![])],
                vec![0],
            ),
        ],
    );
}

#[test]
fn a_line_of_the_operators_own_scores_by_the_share_in_use() {
    let emptier = [(0, 10), (100, 0)];
    check(
        ScoringStrategyKind::RequestedToCapacityRatio,
        &emptier,
        vec![
            ("nothing stands and nothing is asked", &STOCK, asks(0, 0), vec![(sized(4000, 10_000), vec![])], vec![100]),
            (
                "nodes of different size",
                &STOCK,
                asks(3000, 5000),
                vec![(sized(4000, 10_000), vec![]), (sized(6000, 10_000), vec![])],
                vec![38, 50],
            ),
            (
                "a resource that scores nothing has no weight",
                &STOCK,
                asks(4000, 5000),
                vec![(sized(4000, 10_000), vec![])],
                vec![50],
            ),
            (
                "more than there is counts as all",
                &STOCK,
                asks(5000, 10_000),
                vec![(sized(4000, 10_000), vec![])],
                vec![0],
            ),
        ],
    );
    let fuller = [(0, 0), (100, 1)];
    check(
        ScoringStrategyKind::RequestedToCapacityRatio,
        &fuller,
        vec![
            (
                "one extended resource",
                &[(GPU, 1)],
                pod("p").request(GPU, "2"),
                vec![
                    (node("n").capacity(GPU, "8"), vec![]),
                    (node("n").capacity(GPU, "4"), vec![pod("s").request(GPU, "1")]),
                ],
                vec![2, 7],
            ),
            (
                "the mean is rounded to the nearest, halves up",
                &[("cpu", 1), ("memory", 1)],
                asks(500, 600),
                vec![(sized(1000, 1000), vec![])],
                vec![6],
            ),
        ],
    );
}

#[test]
fn the_line_is_broken_at_the_points_and_level_beyond_them() {
    let shape = [(10, 1), (90, 9), (95, 2)].map(|(utilization, score)| ShapePoint { utilization, score });
    let table = [(0, 10), (10, 10), (11, 11), (50, 50), (90, 90), (92, 62), (95, 20), (100, 20)];
    for (utilization, expected) in table {
        assert_eq!(broken_line(&shape, utilization), expected, "at {utilization}");
    }
    assert_eq!(broken_line(&[], 50), 0, "no line at all");
}

#[test]
fn containers_that_ask_for_nothing_count_with_a_default() {
    let busy = vec![pod("s"), pod("s")];
    let nodes = [(sized(1000, 2000 << 20), busy), (sized(1000, 2000 << 20), vec![])];
    // 100m and 200 MiB each: two existing pods and the new pod, compared with the new pod alone.
    assert_eq!(alone("NodeResourcesFit").scores(&pod("p"), &nodes), Some(vec![70, 90]));
}

#[test]
fn amounts_near_the_end_of_an_integer_wrap_as_upstream_does() {
    assert_eq!(percent(i64::MAX / 100, i64::MAX / 100), 100);
    // leastRequestedScore(0, 1 << 62): (1 << 62) * 100 wraps to 0.
    assert_eq!(percent(1 << 62, 1 << 62), 0);
    // mostRequestedScore: (1<<63 - 1) * 100 wraps to -100.
    assert_eq!(percent(i64::MAX, i64::MAX), 0);
    assert_eq!(percent(1 << 60, 1 << 62), 1);
    assert_eq!(percent(i64::MIN, -1), 0);
}

#[test]
fn a_score_that_wraps_out_of_range_is_the_one_at_its_edge() {
    // (5 << 59) * 100 wraps to a negative number, for which upstream rejects the pod.
    assert!(percent(5 << 59, 5 << 59) < 0);
    let huge = sized(1000, 5 << 59);
    let memory = [("memory", 1)];
    check(ScoringStrategyKind::LeastAllocated, &[], vec![("huge", &memory, asks(0, 1), vec![(huge, vec![])], vec![0])]);
}

#[test]
fn a_resource_that_the_node_lacks_has_no_share() {
    let request = |name: &str| i64::from(name == "cpu");
    let mut resources = default_resources();
    resources.push(ResourceWeight { name: "pods".to_owned(), weight: 1 });
    let holders = Shareholders::new(&resources, false, request);
    let nodes = crate::testing::checks::snapshot(&[(sized(2000, 0), vec![asks(500, 7)])]);
    let shares = holders.on(&nodes, 0);
    assert_eq!(shares.as_slice(), [Share { requested: 501, charged: 500, allocatable: 2000, weight: 1 }]);
}
