//! Cases of upstream's priority_sort_test.go.

use super::*;

#[test]
fn the_higher_priority_goes_first_and_then_the_longer_wait() {
    let table = [
        ("a higher priority", (100, 2), (50, 1), Ordering::Less),
        ("a lower priority", (50, 1), (100, 2), Ordering::Greater),
        ("equal priority, longer wait", (100, 1), (100, 2), Ordering::Less),
        ("equal priority, shorter wait", (100, 2), (100, 1), Ordering::Greater),
        ("priorities at both ends", (i32::MAX, 2), (i32::MIN, 1), Ordering::Less),
        ("equal in all", (7, 7), (7, 7), Ordering::Equal),
    ];
    for (case, left, right, expected) in table {
        assert_eq!(order(left, right), expected, "{case}");
    }
}
