//! Operators, and standard functions that upstream implements by traits of the types.

use std::{cmp::Ordering, sync::Arc};

use super::{operation::Singleton, text};
use crate::{
    time,
    value::{EvalResult, Failure, Value, compare},
};

pub(super) fn singleton(function: &str) -> Option<&'static Singleton> {
    Some(match function {
        "!_" => &Singleton {
            takes: |_| true,
            operation: |arguments| match arguments {
                [Value::Bool(value)] => Ok(Value::Bool(!value)),
                _ => Err(Failure::no_such_overload()),
            },
        },
        // Only comprehensions call this. The evaluation handles errors among its arguments.
        "@not_strictly_false" => &Singleton { takes: |_| true, operation: |arguments| Ok(arguments[0].clone()) },
        "-_" => &Singleton {
            takes: |value| matches!(value, Value::Bool(_) | Value::Double(_) | Value::Duration(_) | Value::Int(_)),
            operation: negate,
        },
        "_+_" => &Singleton {
            takes: |value| {
                use Value::{Bytes, Double, Duration, Int, List, String, Timestamp, Uint};
                matches!(
                    value,
                    Bytes(_) | Double(_) | Duration(_) | Int(_) | List(_) | String(_) | Timestamp(_) | Uint(_)
                )
            },
            operation: add,
        },
        "_-_" => &Singleton {
            takes: |value| {
                use Value::{Double, Duration, Int, Timestamp, Uint};
                matches!(value, Double(_) | Duration(_) | Int(_) | Timestamp(_) | Uint(_))
            },
            operation: subtract,
        },
        "_*_" => &Singleton { takes: is_number, operation: multiply },
        "_/_" => &Singleton { takes: is_number, operation: divide },
        "_%_" => &Singleton { takes: |value| matches!(value, Value::Int(_) | Value::Uint(_)), operation: modulo },
        "_<_" => &Singleton { takes: compare::has_order, operation: |arguments| order(arguments, Ordering::is_lt) },
        "_<=_" => &Singleton { takes: compare::has_order, operation: |arguments| order(arguments, Ordering::is_le) },
        "_>_" => &Singleton { takes: compare::has_order, operation: |arguments| order(arguments, Ordering::is_gt) },
        "_>=_" => &Singleton { takes: compare::has_order, operation: |arguments| order(arguments, Ordering::is_ge) },
        "@in" => &Singleton { takes: |_| true, operation: is_in },
        "size" => &Singleton {
            takes: |value| value.size().is_some(),
            operation: |arguments| {
                let size = arguments[0].size().ok_or_else(Failure::no_such_overload)?;
                Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
            },
        },
        "matches" => &Singleton { takes: |value| matches!(value, Value::String(_)), operation: text::not_searched },
        "type" => {
            &Singleton { takes: |_| true, operation: |arguments| Ok(Value::Type(Arc::from(arguments[0].type_name()))) }
        }
        "dyn" => &Singleton { takes: |_| true, operation: |arguments| Ok(arguments[0].clone()) },
        _ => return None,
    })
}

fn is_number(value: &Value) -> bool {
    matches!(value, Value::Double(_) | Value::Int(_) | Value::Uint(_))
}

fn int(value: Option<i64>) -> EvalResult {
    value.map(Value::Int).ok_or_else(|| Failure::new("integer overflow"))
}

fn uint(value: Option<u64>) -> EvalResult {
    value.map(Value::Uint).ok_or_else(|| Failure::new("unsigned integer overflow"))
}

fn duration(value: Option<i64>) -> EvalResult {
    value.map(Value::Duration).ok_or_else(time::duration_overflow)
}

fn negate(arguments: &[Value]) -> EvalResult {
    match arguments {
        [Value::Double(value)] => Ok(Value::Double(-value)),
        [Value::Int(value)] => int(value.checked_neg()),
        [Value::Duration(value)] => duration(value.checked_neg()),
        _ => Err(Failure::no_such_overload()),
    }
}

fn add(arguments: &[Value]) -> EvalResult {
    use Value::{Bytes, Double, Duration, Int, List, String, Timestamp, Uint};
    match arguments {
        [Int(a), Int(b)] => int(a.checked_add(*b)),
        [Uint(a), Uint(b)] => uint(a.checked_add(*b)),
        [Double(a), Double(b)] => Ok(Double(a + b)),
        [String(a), String(b)] => Ok(Value::string(&format!("{a}{b}"))),
        [Bytes(a), Bytes(b)] => Ok(Bytes([&**a, &**b].concat().into())),
        [List(a), List(b)] => Ok(List(a.join(b))),
        [Duration(a), Duration(b)] => duration(a.checked_add(*b)),
        [Timestamp(time), Duration(by)] | [Duration(by), Timestamp(time)] => time.add(*by).map(Timestamp),
        _ => Err(Failure::no_such_overload()),
    }
}

fn subtract(arguments: &[Value]) -> EvalResult {
    use Value::{Double, Duration, Int, Timestamp, Uint};
    match arguments {
        [Int(a), Int(b)] => int(a.checked_sub(*b)),
        [Uint(a), Uint(b)] => uint(a.checked_sub(*b)),
        [Double(a), Double(b)] => Ok(Double(a - b)),
        [Duration(a), Duration(b)] => duration(a.checked_sub(*b)),
        [Timestamp(time), Duration(by)] => {
            let by = by.checked_neg().ok_or_else(time::duration_overflow)?;
            time.add(by).map(Timestamp)
        }
        [Timestamp(a), Timestamp(b)] => a.since(*b).map(Duration),
        _ => Err(Failure::no_such_overload()),
    }
}

fn multiply(arguments: &[Value]) -> EvalResult {
    match arguments {
        [Value::Int(a), Value::Int(b)] => int(a.checked_mul(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_mul(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a * b)),
        _ => Err(Failure::no_such_overload()),
    }
}

fn divide(arguments: &[Value]) -> EvalResult {
    match arguments {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => Err(Failure::new("division by zero")),
        [Value::Int(a), Value::Int(b)] => int(a.checked_div(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_div(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a / b)),
        _ => Err(Failure::no_such_overload()),
    }
}

fn modulo(arguments: &[Value]) -> EvalResult {
    match arguments {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => Err(Failure::new("modulus by zero")),
        [Value::Int(a), Value::Int(b)] => int(a.checked_rem(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_rem(*b)),
        _ => Err(Failure::no_such_overload()),
    }
}

fn order(arguments: &[Value], holds: fn(Ordering) -> bool) -> EvalResult {
    compare::compare(&arguments[0], &arguments[1]).map(|order| Value::Bool(holds(order)))
}

fn is_in(arguments: &[Value]) -> EvalResult {
    match arguments {
        [sought, Value::List(list)] => compare::contains(list, sought).map(Value::Bool),
        [sought, Value::Map(map)] => Ok(Value::Bool(map.find_entry(sought)?.is_some())),
        _ => Err(Failure::no_such_overload()),
    }
}
