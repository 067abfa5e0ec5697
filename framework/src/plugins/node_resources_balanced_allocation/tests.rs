//! Cases of upstream's balanced_allocation_test.go.

use crate::testing::{
    NodeBuilder, PodBuilder,
    checks::{Alone, alone},
    node, pod,
};

const NAME: &str = "NodeResourcesBalancedAllocation";

fn sized(name: &str, milli_cpu: i64, memory: i64) -> NodeBuilder {
    node(name).capacity("cpu", &format!("{milli_cpu}m")).capacity("memory", &memory.to_string())
}

fn asks(milli_cpu: i64, memory: i64) -> PodBuilder {
    pod("p").request("cpu", &format!("{milli_cpu}m")).request("memory", &memory.to_string())
}

fn with_gpus() -> Alone {
    let gpu = crate::profile::ResourceWeight { name: "example.com/gpu".to_owned(), weight: 1 };
    alone(NAME).args(|args| args.node_resources_balanced_allocation.resources.push(gpu))
}

#[test]
fn a_pod_that_asks_for_nothing_is_passed_over() {
    let nodes = [(sized("a", 4000, 10_000), vec![]), (sized("b", 4000, 10_000), vec![])];
    assert_eq!(alone(NAME).scores(&pod("p"), &nodes), None);
    assert_eq!(alone(NAME).scores(&asks(0, 0), &nodes), None);
    // Ephemeral storage is not among the configured resources.
    assert_eq!(alone(NAME).scores(&pod("p").request("ephemeral-storage", "5"), &nodes), None);
}

#[test]
fn the_score_is_how_much_more_alike_the_shares_become() {
    let table = [
        (
            "nothing stands on nodes of different size",
            asks(3000, 5000),
            vec![(sized("a", 4000, 10_000), vec![]), (sized("b", 6000, 10_000), vec![])],
            vec![68, 75],
        ),
        (
            "pods stand on equal nodes",
            asks(3000, 5000),
            vec![
                (sized("a", 10_000, 20_000), vec![asks(3000, 0), asks(3000, 0)]),
                (sized("b", 10_000, 20_000), vec![asks(3000, 0), asks(3000, 5000)]),
            ],
            vec![73, 74],
        ),
        (
            "from one end to the other",
            asks(0, 10_000),
            vec![(sized("even", 10_000, 10_000), vec![asks(10_000, 0)]), (sized("uneven", 10_000, 10_000), vec![])],
            vec![100, 50],
        ),
        (
            "as much as there is",
            asks(4000, 10_000),
            vec![(sized("a", 4000, 10_000), vec![]), (sized("b", 8000, 10_000), vec![])],
            vec![75, 62],
        ),
        (
            "more than there is counts as all",
            asks(9000, 50),
            vec![(sized("a", 6000, 100), vec![]), (sized("b", 9000, 100), vec![])],
            vec![62, 62],
        ),
        (
            "one resource is always even",
            asks(1000, 1),
            vec![(sized("a", 4000, 0), vec![]), (sized("b", 4000, 0), vec![asks(3000, 0)])],
            vec![75, 75],
        ),
    ];
    for (case, pod, nodes, expected) in table {
        assert_eq!(alone(NAME).scores(&pod, &nodes), Some(expected), "{case}");
    }
}

#[test]
fn an_extended_resource_takes_part_only_if_the_pod_asks_for_it() {
    let gpus = |name, amount| sized(name, 10_000, 20_000).capacity("example.com/gpu", amount);
    let nodes = [(gpus("a", "5"), vec![asks(3000, 5000)]), (gpus("b", "20"), vec![asks(3000, 5000)])];
    let asking = asks(3000, 5000).request("example.com/gpu", "3");
    assert_eq!(with_gpus().scores(&asking, &nodes), Some(vec![79, 72]));
    assert_eq!(with_gpus().scores(&asks(3000, 5000), &nodes), alone(NAME).scores(&asks(3000, 5000), &nodes));
}

#[test]
fn what_pods_really_ask_for_counts_and_no_default() {
    let silent = (sized("silent", 10_000, 1 << 30), vec![pod("s"), pod("s"), pod("s")]);
    let empty = (sized("empty", 10_000, 1 << 30), vec![]);
    assert_eq!(alone(NAME).scores(&asks(5000, 1), &[silent, empty]), Some(vec![62, 62]));
}

#[test]
fn without_its_pre_score_a_pod_that_asks_for_nothing_scores_nothing_instead_of_being_skipped() {
    let nodes = [(node("n").capacity("cpu", "4").capacity("memory", "8Gi"), vec![])];
    assert_eq!(alone("NodeResourcesBalancedAllocation").scores(&pod("p"), &nodes), None);
    let scores = alone("NodeResourcesBalancedAllocation").without_pre_score().scores(&pod("p"), &nodes);
    assert_eq!(scores, Some(vec![0]));
}
