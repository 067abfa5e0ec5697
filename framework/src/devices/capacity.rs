//! Capacity of a device that a request consumes.
//!
//! Source: `structured/internal/incubating/consumable_capacity.go`, with whole numbers, because FractionalCapacityRange is off by default.

#[cfg(test)]
mod tests;

use super::{
    amount::{Amount, Format},
    model::slice::{Capacity, CapacityPolicy, CapacityRange},
};

#[derive(Debug, Clone, Copy)]
pub(super) enum Consumed<'a> {
    As(&'a Amount),
    /// Whole units and their suffix family.
    Rounded(i64, Format),
}

const UNREPRESENTABLE: &str = "capacity request cannot be represented in the device's range arithmetic";

impl Consumed<'_> {
    pub(super) const fn nano(&self) -> i128 {
        match self {
            Self::As(amount) => amount.nano(),
            Self::Rounded(units, _) => *units as i128 * 1_000_000_000,
        }
    }

    const fn units(&self) -> i64 {
        match self {
            Self::As(amount) => amount.units(),
            Self::Rounded(units, _) => *units,
        }
    }

    pub(super) fn amount(&self) -> Amount {
        match self {
            Self::As(amount) => (*amount).clone(),
            Self::Rounded(units, format) => Amount::from_units(*units, *format),
        }
    }
}

/// Consumption of a request, or of one without a requested amount.
///
/// # Errors
/// It is negative or cannot be represented.
pub(super) fn consumed<'a>(requested: Option<&'a Amount>, capacity: &'a Capacity) -> Result<Consumed<'a>, String> {
    let consumed = calculate(requested, capacity)?;
    if consumed.nano() < 0 { Err("capacity value is negative".to_owned()) } else { Ok(consumed) }
}

fn calculate<'a>(requested: Option<&'a Amount>, capacity: &'a Capacity) -> Result<Consumed<'a>, String> {
    let policy = capacity.policy.as_deref();
    let Some(requested) = requested else {
        return Ok(Consumed::As(policy.and_then(|policy| policy.default.as_ref()).unwrap_or(&capacity.value)));
    };
    let Some(policy) = policy else { return Ok(Consumed::As(requested)) };
    if let Some(range) = policy.valid_range.as_ref()
        && let Some(min) = &range.min
    {
        return round_up(requested, min, range.step.as_ref());
    }
    let values = policy.valid_values.iter().flatten();
    let next = values.into_iter().find(|value| requested.nano() <= value.nano());
    Ok(Consumed::As(next.unwrap_or(requested)))
}

fn round_up<'a>(requested: &'a Amount, min: &'a Amount, step: Option<&'a Amount>) -> Result<Consumed<'a>, String> {
    if requested.nano() < min.nano() {
        return Ok(Consumed::As(min));
    }
    let Some(step) = step else { return Ok(Consumed::As(requested)) };
    if requested.nano() > i128::from(i64::MAX) * 1_000_000_000 {
        return Err(format!("{UNREPRESENTABLE}: request {} exceeds MaxInt64", requested.text()));
    }
    // The API server rejects a step of zero. It would crash upstream.
    let (least, by) = (min.units(), step.units().max(1));
    let added = requested.units().wrapping_sub(least);
    let steps = added / by + i64::from(added % by != 0);
    if least >= 0 && steps > (i64::MAX - least) / by {
        return Err(format!(
            "{UNREPRESENTABLE}: rounding request {} up to the next step passes MaxInt64",
            requested.text()
        ));
    }
    Ok(Consumed::Rounded(least.wrapping_add(by.wrapping_mul(steps)), step.format()))
}

pub(super) fn violates(consumed: &Consumed<'_>, policy: Option<&CapacityPolicy>) -> bool {
    let Some(policy) = policy else { return false };
    if policy.default.as_ref().is_some_and(|default| default.nano() == consumed.nano()) {
        return false;
    }
    if let Some(range) = &policy.valid_range {
        return violates_range(consumed, range);
    }
    let values = policy.valid_values.as_deref().unwrap_or_default();
    !values.is_empty() && values.iter().all(|value| value.nano() != consumed.nano())
}

fn violates_range(consumed: &Consumed<'_>, range: &CapacityRange) -> bool {
    if range.max.as_ref().is_some_and(|max| consumed.nano() > max.nano()) {
        return true;
    }
    range.step.as_ref().is_some_and(|step| {
        let least = range.min.as_ref().map_or(0, Amount::units);
        consumed.units().wrapping_sub(least) % step.units().max(1) != 0
    })
}
