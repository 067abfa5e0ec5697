//! Requests for capacity are rounded as upstream does.

use std::sync::Arc;

use super::*;

fn amount(text: &str) -> Amount {
    Amount::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

fn ranged(least: &str, step: Option<&str>, most: Option<&str>) -> Capacity {
    let range =
        CapacityRange { min: Some(amount(least)), max: most.map(amount), step: step.map(amount), is_fractional: false };
    let policy = CapacityPolicy { default: Some(amount(least)), valid_values: None, valid_range: Some(range) };
    Capacity { value: amount("16Gi"), policy: Some(Arc::new(policy)) }
}

fn fractional(least: &str, step: &str) -> Capacity {
    let mut capacity = ranged(least, Some(step), Some("4"));
    let policy = capacity.policy.as_mut().and_then(|policy| Arc::make_mut(policy).valid_range.as_mut());
    policy.expect("a range").is_fractional = true;
    capacity
}

/// The consumption or the error, with ` !` if the policy forbids it.
fn shown(requested: Option<&str>, capacity: &Capacity) -> String {
    let requested = requested.map(amount);
    match consumed(requested.as_ref(), capacity) {
        Ok(consumed) => {
            let violates = if violates(&consumed, capacity.policy.as_deref()) { " !" } else { "" };
            format!("{}{violates}", consumed.amount().text())
        }
        Err(error) => error,
    }
}

#[test]
fn a_range_rounds_up_to_its_steps() {
    let range = ranged("1Gi", Some("512Mi"), Some("4Gi"));
    assert_eq!(shown(None, &range), "1Gi");
    assert_eq!(shown(Some("1"), &range), "1Gi");
    assert_eq!(shown(Some("1025Mi"), &range), "1536Mi");
    assert_eq!(shown(Some("5Gi"), &range), "5Gi !");
    assert_eq!(shown(Some("1500m"), &ranged("1", None, None)), "1500m");
    assert_eq!(shown(Some("1500m"), &ranged("1", Some("1"), None)), "2");
}

#[test]
fn values_that_are_valid_are_rounded_up_to() {
    let values = Some(vec![amount("1"), amount("4")]);
    let policy = CapacityPolicy { default: Some(amount("1")), valid_values: values, valid_range: None };
    let capacity = Capacity { value: amount("8"), policy: Some(Arc::new(policy)) };
    assert_eq!(shown(Some("2"), &capacity), "4");
    assert_eq!(shown(Some("5"), &capacity), "5 !");
    assert_eq!(shown(None, &capacity), "1");
    assert_eq!(shown(None, &Capacity { value: amount("8"), policy: None }), "8");
}

#[test]
fn what_cannot_be_represented_is_an_error() {
    let range = ranged("1", Some("2"), None);
    let error = "capacity request cannot be represented in the device's range arithmetic";
    assert_eq!(
        shown(Some("9223372036854775808"), &range),
        format!("{error}: request 9223372036854775808 exceeds MaxInt64")
    );
    assert_eq!(
        shown(Some("9223372036854775807"), &ranged("0", Some("2"), None)),
        format!("{error}: rounding request 9223372036854775807 up to the next step passes MaxInt64")
    );
    assert_eq!(shown(Some("-1"), &Capacity { value: amount("8"), policy: None }), "capacity value is negative");
}

#[test]
fn fractional_ranges_round_in_milli_units() {
    assert_eq!(shown(Some("600m"), &fractional("500m", "250m")), "750m");
    assert_eq!(shown(Some("600m"), &ranged("500m", Some("250m"), Some("4"))), "1");
    assert_eq!(shown(Some("1"), &fractional("500m", "250m")), "1");
    assert_eq!(shown(Some("5"), &fractional("1", "1500m")), "5500m !");
    assert_eq!(shown(Some("1025Mi"), &fractional("1Gi", "512Mi")), "1536Mi !");
    let error = "capacity request cannot be represented in the device's range arithmetic";
    assert_eq!(
        shown(Some("1500500u"), &fractional("1", "1500m")),
        format!("{error}: request 1500500u is not a representable milli value")
    );
    assert_eq!(
        shown(Some("9223372036854775807m"), &fractional("0", "2m")),
        format!("{error}: rounding request 9223372036854775807m up to the next step passes the milli-value range")
    );
}
