//! Cases of upstream's normalize_score_test.go.

use super::*;

fn all(normalize: fn(i64, Extremes) -> i64, raws: &[i64]) -> Vec<i64> {
    let (min, max) = (raws.iter().min().copied().unwrap_or(0), raws.iter().max().copied().unwrap_or(0));
    raws.iter().map(|&raw| normalize(raw, Extremes { min, max })).collect()
}

type Row<'a> = (&'a str, &'a [i64], &'a [i64], &'a [i64]);

#[test]
fn the_largest_score_becomes_a_hundred_and_division_rounds_down() {
    let table: [Row<'_>; 6] = [
        ("spread", &[1, 2, 3, 4], &[25, 50, 75, 100], &[75, 50, 25, 0]),
        ("all zero", &[0, 0], &[0, 0], &[100, 100]),
        ("all equal", &[7, 7], &[100, 100], &[0, 0]),
        ("thirds", &[1, 2, 3], &[33, 66, 100], &[67, 34, 0]),
        ("larger than a hundred", &[1000, 10, 20], &[100, 1, 2], &[0, 99, 98]),
        ("none above zero", &[-5, -1], &[-5, -1], &[100, 100]),
    ];
    for (case, raws, up, down) in table {
        assert_eq!(all(scaled, raws), up, "{case}");
        assert_eq!(all(reversed, raws), down, "{case}, turned round");
    }
}
