//! Capacity of a device that a request consumes.
//!
//! Source: `structured/internal/incubating/consumable_capacity.go`.

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
    /// Milli-units and their suffix family.
    Milli(i64, Format),
}

const NANO: i128 = 1_000_000_000;
const NANO_PER_MILLI: i128 = 1_000_000;

const UNREPRESENTABLE: &str = "capacity request cannot be represented in the device's range arithmetic";

impl Consumed<'_> {
    pub(super) const fn nano(&self) -> i128 {
        match self {
            Self::As(amount) => amount.nano(),
            Self::Rounded(units, _) => *units as i128 * NANO,
            Self::Milli(milli, _) => *milli as i128 * NANO_PER_MILLI,
        }
    }

    fn units(&self) -> i64 {
        match self {
            Self::As(amount) => amount.units(),
            Self::Rounded(units, _) => *units,
            Self::Milli(..) => self.amount().units(),
        }
    }

    fn milli(&self) -> Option<i64> {
        match self {
            Self::Milli(milli, _) => Some(*milli),
            _ => self.amount().milli(),
        }
    }

    pub(super) fn amount(&self) -> Amount {
        match self {
            Self::As(amount) => (*amount).clone(),
            Self::Rounded(units, format) => Amount::from_units(*units, *format),
            Self::Milli(_, format) => Amount::of(self.nano(), *format),
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
        return round_up(requested, min, range);
    }
    let values = policy.valid_values.iter().flatten();
    let next = values.into_iter().find(|value| requested.nano() <= value.nano());
    Ok(Consumed::As(next.unwrap_or(requested)))
}

fn round_up<'a>(requested: &'a Amount, min: &'a Amount, range: &'a CapacityRange) -> Result<Consumed<'a>, String> {
    if requested.nano() < min.nano() {
        return Ok(Consumed::As(min));
    }
    let Some(step) = &range.step else { return Ok(Consumed::As(requested)) };
    if range.is_fractional {
        return round_up_milli(requested, min, step);
    }
    if requested.nano() > i128::from(i64::MAX) * NANO {
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

fn round_up_milli<'a>(requested: &Amount, min: &Amount, step: &Amount) -> Result<Consumed<'a>, String> {
    let Some(requested_milli) = requested.milli() else {
        return Err(format!("{UNREPRESENTABLE}: request {} is not a representable milli value", requested.text()));
    };
    let (least, by) = (min.milli().unwrap_or_default(), step.milli().unwrap_or_default().max(1));
    let added = requested_milli.wrapping_sub(least);
    let steps = added / by + i64::from(added % by != 0);
    if steps > i64::MAX.wrapping_sub(least) / by {
        return Err(format!(
            "{UNREPRESENTABLE}: rounding request {} up to the next step passes the milli-value range",
            requested.text()
        ));
    }
    Ok(Consumed::Milli(least.wrapping_add(by.wrapping_mul(steps)), step.format()))
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
    if range.is_fractional
        && let Some(step) = &range.step
    {
        let Some(milli) = consumed.milli() else { return true };
        let least = range.min.as_ref().and_then(Amount::milli).unwrap_or_default();
        return milli.wrapping_sub(least) % step.milli().unwrap_or_default().max(1) != 0;
    }
    range.step.as_ref().is_some_and(|step| {
        let least = range.min.as_ref().map_or(0, Amount::units);
        consumed.units().wrapping_sub(least) % step.units().max(1) != 0
    })
}
