//! Functions on lists, sets and maps.

use std::cmp::Ordering;

use flotilla_planted::planted;

use super::{
    operation::{Operation, Singleton},
    operators,
};
use crate::value::{EvalResult, Failure, List, Value, compare, show};

const MAX_RANGE: i64 = 1_000_000;

pub(super) fn singleton(function: &str) -> Option<&'static Singleton> {
    matches!(function, "sort" | "@sortByAssociatedKeys").then_some(&Singleton { takes: is_list, operation: sort })
}

fn is_list(value: &Value) -> bool {
    matches!(value, Value::List(_))
}

pub(super) fn operation(overload: &str) -> Option<Operation> {
    Some(match overload {
        "list_slice" => slice,
        "list_flatten" => |arguments| flatten(&arguments[0], &Value::Int(1)),
        "list_flatten_int" => |arguments| flatten(&arguments[0], &arguments[1]),
        "lists_range" => range,
        "list_reverse" => {
            |arguments| Ok(Value::List(List::new(list(arguments, 0)?.values().iter().rev().cloned().collect())))
        }
        "list_distinct" => distinct,
        "list_first" => |arguments| Ok(optional(list(arguments, 0)?.get(0))),
        "list_last" => |arguments| {
            let list = list(arguments, 0)?;
            Ok(optional(list.len().checked_sub(1).and_then(|last| list.get(last))))
        },
        "optional_unwrap" | "optional_unwrapOpt" => unwrap,
        "@mapInsert_map_key_value" => |arguments| match arguments {
            [Value::Map(map), key, value] => map.insert(key, value).map(Value::Map),
            _ => Err(Failure::no_such_overload()),
        },
        "@mapInsert_map_map" => insert_all,
        "list_sets_contains_list" => |arguments| has_all(list(arguments, 0)?, list(arguments, 1)?).map(Value::Bool),
        "list_sets_equivalent_list" => |arguments| {
            let (left, right) = (list(arguments, 0)?, list(arguments, 1)?);
            Ok(Value::Bool(has_all(left, right)? && has_all(right, left)?))
        },
        "list_sets_intersects_list" => |arguments| {
            let (left, right) = (list(arguments, 0)?, list(arguments, 1)?);
            for value in left.values().iter() {
                if compare::contains(right, value)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        },
        "list_a_index_of_int" => |arguments| index(arguments, false),
        "list_a_last_index_of_int" => |arguments| index(arguments, true),
        "list_includes_dyn_dyn" => includes,
        _ if overload.ends_with("_is_sorted_bool") => is_sorted,
        "list_int_sum_int" => |arguments| sum(arguments, Value::Int(0)),
        "list_uint_sum_uint" => |arguments| sum(arguments, Value::Uint(0)),
        "list_double_sum_double" => |arguments| sum(arguments, Value::Double(0.0)),
        "list_duration_sum_duration" => |arguments| sum(arguments, Value::Duration(0)),
        _ if overload.starts_with("list_") && overload.contains("_max_") => {
            |arguments| extreme(arguments, "max", Ordering::Less)
        }
        _ if overload.starts_with("list_") && overload.contains("_min_") => {
            |arguments| extreme(arguments, "min", Ordering::Greater)
        }
        _ => return None,
    })
}

fn list(arguments: &[Value], at: usize) -> Result<&List, Failure> {
    match arguments.get(at) {
        Some(Value::List(list)) => Ok(list),
        _ => Err(Failure::no_such_overload()),
    }
}

fn optional(value: Option<Value>) -> Value {
    value.map_or(Value::NONE, Value::some)
}

fn slice(arguments: &[Value]) -> EvalResult {
    let list = list(arguments, 0)?;
    let [_, Value::Int(start), Value::Int(end)] = arguments else { return Err(Failure::no_such_overload()) };
    let refused = |why: String| Err(Failure::new(format!("cannot slice({start}, {end}), {why}")));
    if *start < 0 || *end < 0 {
        return refused("negative indexes not supported".to_owned());
    }
    if start > end {
        return refused("start index must be less than or equal to end index".to_owned());
    }
    match (usize::try_from(*start), usize::try_from(*end)) {
        (Ok(start), Ok(end)) if end <= list.len() => Ok(Value::List(List::new(list.values()[start..end].to_vec()))),
        _ => refused(format!("list is length {}", list.len())),
    }
}

fn flatten(value: &Value, depth: &Value) -> EvalResult {
    match (value, depth) {
        (Value::List(_), Value::Int(depth)) if *depth < 0 => Err(Failure::new("level must be non-negative")),
        (Value::List(list), Value::Int(depth)) => {
            let mut flat = Vec::new();
            flatten_into(list, *depth, &mut flat);
            Ok(Value::List(List::new(flat)))
        }
        (value, depth) => {
            let arguments = if *depth.type_name() == *"int" { String::new() } else { depth.type_name().to_owned() };
            Err(Failure::new(format!("no such overload: {}.flatten({arguments})", value.type_name())))
        }
    }
}

fn flatten_into(list: &List, depth: i64, flat: &mut Vec<Value>) {
    for value in list.values().iter() {
        match value {
            Value::List(inner) if depth > 0 => flatten_into(inner, depth - 1, flat),
            other => flat.push(other.clone()),
        }
    }
}

fn range(arguments: &[Value]) -> EvalResult {
    match arguments {
        [Value::Int(count)] if *count < 0 => {
            Err(Failure::new(format!("lists.range: size must be non-negative, got {count}")))
        }
        [Value::Int(count)] if *count > MAX_RANGE => {
            Err(Failure::new(format!("lists.range: size {count} exceeds maximum allowed ({MAX_RANGE})")))
        }
        [Value::Int(count)] => Ok(Value::List(List::new((0..*count).map(Value::Int).collect()))),
        _ => Err(Failure::no_such_overload()),
    }
}

fn distinct(arguments: &[Value]) -> EvalResult {
    let mut unique: Vec<Value> = Vec::new();
    for value in list(arguments, 0)?.values().iter() {
        let mut seen = false;
        for other in &unique {
            seen = seen || compare::is_equal_to(value, other)?;
        }
        if !seen {
            unique.push(value.clone());
        }
    }
    Ok(Value::List(List::new(unique)))
}

fn unwrap(arguments: &[Value]) -> EvalResult {
    let mut values = Vec::new();
    for value in list(arguments, 0)?.values().iter() {
        match value {
            Value::Optional(inner) => values.extend(inner.as_ref().map(|inner| (**inner).clone())),
            other => return Err(Failure::new(format!("value {} is not optional", show::show(other)))),
        }
    }
    Ok(Value::List(List::new(values)))
}

fn insert_all(arguments: &[Value]) -> EvalResult {
    let [Value::Map(map), Value::Map(added)] = arguments else { return Err(Failure::no_such_overload()) };
    let mut map = map.clone();
    for (key, value) in added.entries() {
        map = map.insert(&key, &value)?;
    }
    Ok(Value::Map(map))
}

fn has_all(list: &List, sought: &List) -> Result<bool, Failure> {
    for value in sought.values().iter() {
        if !compare::contains(list, value)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn index(arguments: &[Value], last: bool) -> EvalResult {
    let list = list(arguments, 0)?;
    let values = list.values();
    let mut found = -1;
    for (at, value) in values.iter().enumerate() {
        if compare::is_equal_to(value, &arguments[1])? {
            found = i64::try_from(at).unwrap_or(i64::MAX);
            if !last {
                break;
            }
        }
    }
    Ok(Value::Int(found))
}

fn includes(arguments: &[Value]) -> EvalResult {
    let [target, sought] = arguments else { return Err(Failure::no_such_overload()) };
    let Value::List(list) = target else { return compare::is_equal_to(target, sought).map(Value::Bool) };
    for value in list.values().iter() {
        if compare::is_equal_to(value, sought)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn is_sorted(arguments: &[Value]) -> EvalResult {
    let values = list(arguments, 0)?.values();
    if !values.iter().all(compare::has_order) {
        return Err(Failure::no_such_overload());
    }
    let is_ordered = |pair: &[Value]| !matches!(compare::compare(&pair[0], &pair[1]), Ok(Ordering::Greater));
    Ok(Value::Bool(values.windows(2).all(is_ordered)))
}

fn sum(arguments: &[Value], zero: Value) -> EvalResult {
    let Some(add) = operators::singleton("_+_") else { return Err(Failure::no_such_overload()) };
    let mut total = zero;
    for value in list(arguments, 0)?.values().iter() {
        if !(add.takes)(value) {
            return Err(Failure::no_such_overload());
        }
        total = (add.operation)(&[total, value.clone()])?;
    }
    Ok(total)
}

fn extreme(arguments: &[Value], name: &str, replaced_if: Ordering) -> EvalResult {
    let mut best: Option<Value> = None;
    for value in list(arguments, 0)?.values().iter() {
        if !compare::has_order(value) {
            return Err(Failure::no_such_overload());
        }
        best = Some(match best {
            Some(best) if compare::compare(&best, value).ok() != Some(replaced_if) => best,
            _ => value.clone(),
        });
    }
    best.ok_or_else(|| Failure::new(format!("{name} called on empty list")))
}

/// Go uses insertion sort up to this length.
const MAX_INSERTED: usize = 12;

/// Go's sort for short lists. The result equals Go's even for values without an order, such as NaN.
fn insertion_sort(order: &mut [usize], is_less: impl Fn(usize, usize) -> bool) {
    for end in 1..order.len() {
        let mut at = end;
        while at > 0 && is_less(order[at], order[at - 1]) {
            order.swap(at, at - 1);
            at -= 1;
        }
    }
}

/// A total order: NaN, which upstream does not order, comes last.
fn in_order(left: &Value, right: &Value) -> Ordering {
    let is_nan = |value: &Value| matches!(value, Value::Double(double) if double.is_nan());
    if planted("sorts-without-an-order") {
        return compare::compare(left, right).unwrap_or(Ordering::Equal);
    }
    let ordered = is_nan(left).cmp(&is_nan(right));
    ordered.then_with(|| compare::compare(left, right).unwrap_or(Ordering::Equal))
}

/// Sorts a list, by keys if given. The sort is stable; upstream's need not be.
fn sort(arguments: &[Value]) -> EvalResult {
    let values = list(arguments, 0)?.values();
    let Some(Value::List(keys)) = arguments.last() else { return Err(Failure::no_such_overload()) };
    let keys = keys.values();
    if values.len() != keys.len() {
        let told = format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} \
             elements respectively",
            values.len(),
            keys.len()
        );
        return Err(Failure::new(told));
    }
    let Some(first) = keys.first() else { return Ok(arguments[0].clone()) };
    if !compare::has_order(first) {
        return Err(Failure::new("list elements must be comparable"));
    }
    if keys.len() > 1 && keys.iter().any(|key| key.type_name() != first.type_name()) {
        return Err(Failure::new("list elements must have the same type"));
    }
    let mut order: Vec<usize> = (0..keys.len()).collect();
    if order.len() <= MAX_INSERTED {
        insertion_sort(&mut order, |left, right| {
            matches!(compare::compare(&keys[left], &keys[right]), Ok(Ordering::Less))
        });
    } else {
        order.sort_by(|left, right| in_order(&keys[*left], &keys[*right]));
    }
    Ok(Value::List(List::new(order.into_iter().map(|at| values[at].clone()).collect())))
}
