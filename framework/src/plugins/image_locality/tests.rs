//! Cases of upstream's image_locality_test.go.

use super::{MIB, contribution};
use crate::testing::{
    NodeBuilder, PodBuilder,
    checks::{NodeWithPods, alone},
    node, pod,
};

const NAME: &str = "ImageLocality";

fn images(names: &[&str]) -> PodBuilder {
    pod("p").class(|class| class.images = names.iter().map(|&name| name.into()).collect())
}

fn holding(name: &str, images: &[(&str, i64)]) -> NodeWithPods {
    let add = |node: NodeBuilder, (image, mib): &(&str, i64)| node.image(image, mib * MIB);
    (images.iter().fold(node(name), add), Vec::new())
}

type Row<'a> = (&'a str, &'a [&'a str], Vec<NodeWithPods>, Vec<i64>);

#[test]
fn nodes_that_hold_more_of_the_images_score_higher() {
    let left = || holding("left", &[("small:latest", 40), ("middle:latest", 140), ("large:latest", 2000)]);
    let right = || holding("right", &[("other:latest", 250), ("ten:latest", 10)]);
    let table: [Row<'_>; 8] = [
        ("the larger image is worth more", &["small:latest", "other:latest"], vec![left(), right()], vec![0, 5]),
        (
            "two images on one node",
            &["small:latest", "other:latest"],
            vec![holding("both", &[("small:latest", 40), ("other:latest", 250)]), holding("none", &[])],
            vec![6, 0],
        ),
        (
            "no more than the limit",
            &["large:latest", "large:latest"],
            vec![holding("a", &[("large:latest", 3000)]), holding("b", &[("large:latest", 3000)])],
            vec![100, 100],
        ),
        ("half of the nodes hold it", &["large:latest"], vec![left(), right()], vec![100, 0]),
        ("too small to count", &["ten:latest"], vec![left(), right()], vec![0, 0]),
        ("more images raise the limit", &["large:latest", "other:latest"], vec![left(), right()], vec![49, 5]),
        (
            "an image that no node holds raises it too",
            &["large:latest", "gone:latest", "gone:latest"],
            vec![left(), right()],
            vec![32, 0],
        ),
        ("no image anywhere", &["gone:latest"], vec![left(), right()], vec![0, 0]),
    ];
    for (case, names, nodes, expected) in table {
        assert_eq!(alone(NAME).scores(&images(names), &nodes), Some(expected), "{case}");
    }
}

#[test]
fn a_contribution_is_the_size_times_the_share_of_nodes_rounded_down() {
    let table = [
        ("all nodes", 1000, 4, 4, 1000),
        ("one of three", 1000, 1, 3, 333),
        ("no node has it", 1000, 0, 3, 0),
        ("no node at all", 1000, 0, 0, 0),
        ("in floating point", 10, 3, 10, 3),
        ("a size beyond what a double holds exactly", (1 << 53) + 1, 1, 1, 1 << 53),
    ];
    for (case, size, with, all, expected) in table {
        assert_eq!(contribution(size, with, all), expected, "{case}");
    }
}
