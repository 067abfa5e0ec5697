//! Percentiles, medians and rates.

/// Percentile by nearest rank; `None` without values.
pub(crate) fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

/// Median, or the mean of the middle two; `None` without values.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// Number of instants (microseconds) per window. The last window contains the last instant, and may be incomplete.
pub(crate) fn windows(instants_us: &[u64], window_us: u64) -> Vec<u64> {
    let Some(last) = instants_us.iter().max() else { return Vec::new() };
    let mut counts = vec![0; usize::try_from(last / window_us).unwrap_or(usize::MAX).saturating_add(1)];
    for instant in instants_us {
        counts[usize::try_from(instant / window_us).unwrap_or(0)] += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_of_the_nearest_rank() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&values, 0.5), Some(50.0));
        assert_eq!(percentile(&values, 0.99), Some(99.0));
        assert_eq!(percentile(&values, 1.0), Some(100.0));
        assert_eq!(percentile(&[7.0], 0.01), Some(7.0));
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn a_median_of_an_even_count_is_between_the_two_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn windows_count_every_instant_once_and_keep_the_empty_ones() {
        assert_eq!(windows(&[0, 999_999, 1_000_000, 3_500_000], 1_000_000), [2, 1, 0, 1]);
        assert!(windows(&[], 1_000_000).is_empty());
    }
}
