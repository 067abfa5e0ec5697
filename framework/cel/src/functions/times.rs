//! Parts of timestamps and durations.

use super::operation::Operation;
use crate::{
    time::{self, Civil},
    value::{EvalResult, Failure, Value},
};

pub(super) fn operation(overload: &str) -> Option<Operation> {
    Some(match overload {
        "timestamp_to_year" | "timestamp_to_year_with_tz" => |arguments| part(arguments, |civil| civil.year),
        "timestamp_to_month" | "timestamp_to_month_with_tz" => |arguments| part(arguments, |civil| civil.month),
        "timestamp_to_day_of_year" | "timestamp_to_day_of_year_with_tz" => {
            |arguments| part(arguments, |civil| civil.day_of_year)
        }
        "timestamp_to_day_of_month" | "timestamp_to_day_of_month_with_tz" => {
            |arguments| part(arguments, |civil| civil.day - 1)
        }
        "timestamp_to_day_of_month_1_based" | "timestamp_to_day_of_month_1_based_with_tz" => {
            |arguments| part(arguments, |civil| civil.day)
        }
        "timestamp_to_day_of_week" | "timestamp_to_day_of_week_with_tz" => {
            |arguments| part(arguments, |civil| civil.day_of_week)
        }
        "timestamp_to_hours" | "timestamp_to_hours_with_tz" => |arguments| part(arguments, |civil| civil.hour),
        "timestamp_to_minutes" | "timestamp_to_minutes_with_tz" => |arguments| part(arguments, |civil| civil.minute),
        "timestamp_to_seconds" | "timestamp_to_seconds_tz" => |arguments| part(arguments, |civil| civil.second),
        "timestamp_to_milliseconds" | "timestamp_to_milliseconds_with_tz" => {
            |arguments| part(arguments, |civil| civil.millisecond)
        }
        "duration_to_hours" => |arguments| whole(arguments, 3_600_000_000_000),
        "duration_to_minutes" => |arguments| whole(arguments, 60_000_000_000),
        "duration_to_seconds" => |arguments| match arguments {
            [Value::Duration(nanoseconds)] => Ok(Value::Int(time::seconds(*nanoseconds) as i64)),
            _ => Err(Failure::no_such_overload()),
        },
        "duration_to_milliseconds" => |arguments| whole(arguments, 1_000_000),
        _ => return None,
    })
}

fn part(arguments: &[Value], part: fn(Civil) -> i64) -> EvalResult {
    let civil = match arguments {
        [Value::Timestamp(time)] => time.civil("UTC")?,
        [Value::Timestamp(time), Value::String(zone)] => time.civil(zone)?,
        _ => return Err(Failure::no_such_overload()),
    };
    Ok(Value::Int(part(civil)))
}

fn whole(arguments: &[Value], unit: i64) -> EvalResult {
    match arguments {
        [Value::Duration(nanoseconds)] => Ok(Value::Int(nanoseconds / unit)),
        _ => Err(Failure::no_such_overload()),
    }
}
