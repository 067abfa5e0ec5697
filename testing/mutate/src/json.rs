//! Mutates values of a JSON text.

use rand::{Rng as _, rngs::StdRng, seq::IndexedRandom as _};
use serde_json::{Value, json};

use crate::{MAX_BYTES, long_count, often};

/// Nesting depths beyond 64 and 128, the limits of the YAML and JSON readers.
const DEPTHS: [usize; 5] = [1, 60, 70, 126, 130];

/// The text with one value changed at any depth; `None` if it is not JSON.
pub(crate) fn changed(text: &[u8], rng: &mut StdRng) -> Option<Vec<u8>> {
    let mut value: Value = serde_json::from_slice(text).ok()?;
    change_within(&mut value, rng);
    let mut text = serde_json::to_vec(&value).ok()?;
    text.truncate(MAX_BYTES.max(text.len() / 2));
    Some(text)
}

/// The text once per list and short element, with the maximum number of elements; empty if it is not JSON.
pub(crate) fn long(text: &[u8]) -> Vec<Vec<u8>> {
    let Ok(mut value) = serde_json::from_slice::<Value>(text) else { return Vec::new() };
    let mut lists = Vec::new();
    find_lists(&value, "", &mut lists);
    let mut texts = Vec::new();
    for (list, element) in lists.iter().flat_map(|list| short().map(|element| (list, element))) {
        let count = long_count(element.to_string().len() + 1);
        let Some(place) = value.pointer_mut(list) else { continue };
        let before = std::mem::replace(place, Value::Array(vec![element; count]));
        texts.extend(serde_json::to_vec(&value));
        value.pointer_mut(list).into_iter().for_each(|place| *place = before.clone());
    }
    texts
}

/// Paths of the lists in a value, as in RFC 6901.
fn find_lists(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Array(list) => {
            found.push(at.to_owned());
            list.iter().enumerate().for_each(|(index, value)| find_lists(value, &format!("{at}/{index}"), found));
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                find_lists(value, &format!("{at}/{name}"), found);
            }
        }
        _ => {}
    }
}

fn short() -> [Value; 5] {
    [json!({}), json!([]), json!(null), json!(0), json!("")]
}

fn change_within(value: &mut Value, rng: &mut StdRng) {
    if rng.random_bool(0.8) {
        match value {
            Value::Array(list) if !list.is_empty() => {
                let index = rng.random_range(0..list.len());
                return change_within(&mut list[index], rng);
            }
            Value::Object(fields) if !fields.is_empty() => {
                let index = rng.random_range(0..fields.len());
                return fields.values_mut().skip(index).take(1).for_each(|value| change_within(value, rng));
            }
            _ => {}
        }
    }
    change(value, rng);
}

fn change(value: &mut Value, rng: &mut StdRng) {
    match value {
        Value::Array(list) if rng.random_bool(0.7) => fill(list, rng),
        Value::Object(fields) if rng.random_bool(0.7) => {
            let index = rng.random_range(0..=fields.len());
            let name = fields.keys().nth(index).cloned();
            match name {
                Some(name) if rng.random() => drop(fields.remove(&name)),
                Some(name) => drop(fields.insert(name, other(rng))),
                None => {
                    let count = often(rng).min(MAX_BYTES / 8);
                    fields.extend((0..count).map(|number| (format!("k{number}"), json!(""))));
                }
            }
        }
        _ => *value = other(rng),
    }
}

/// Fills the list with the shortest elements, or copies of an existing one, up to the maximum size.
fn fill(list: &mut Vec<Value>, rng: &mut StdRng) {
    let element = match list.choose(rng) {
        Some(element) if rng.random() => element.clone(),
        _ => short().choose(rng).cloned().unwrap_or_default(),
    };
    let room = MAX_BYTES / (element.to_string().len() + 1);
    list.resize(list.len() + often(rng).min(room), element);
}

fn other(rng: &mut StdRng) -> Value {
    let simple = [
        json!(null),
        json!(true),
        json!(-1),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1e308),
        json!(0.1),
        json!(""),
        json!([]),
        json!({}),
        json!([{}]),
        json!([null]),
        json!({ "": null }),
        json!("\u{0}"),
        json!("9".repeat(100)),
        json!("-1"),
        json!("9223372036854775807Ei"),
        json!("0.000000001n"),
        json!("9999-12-31T23:59:59.999999999Z"),
        json!("Exists"),
    ];
    let value = simple.choose(rng).cloned().unwrap_or_default();
    if !rng.random_ratio(1, 8) {
        return value;
    }
    let depth = DEPTHS.choose(rng).copied().unwrap_or_default();
    let is_list: bool = rng.random();
    (0..depth).fold(value, |value, _| if is_list { json!([value]) } else { json!({ "a": value }) })
}
