//! Minimises cases on which the oracle and Flotilla differ.

use serde_json::Value;

pub(crate) fn differ(case: &Value, oracle: &Value, flotilla: &Value) -> bool {
    let gave_up = |answer: &Value| answer["timedOut"] == true || answer["panicked"] == true;
    let off = |feature: &str| case["features"][feature] == false;
    // Upstream's stable allocator tries devices in every order, and thus takes more steps.
    let is_stable = off("ConsumableCapacity") && off("DeviceBindingAndStatus");
    let compared = |answer: &Value| {
        let mut answer = answer.clone();
        if is_stable {
            answer["steps"] = Value::Null;
        }
        answer
    };
    !gave_up(oracle) && !gave_up(flotilla) && compared(oracle) != compared(flotilla)
}

/// The smallest differing case found by repeatedly removing parts.
pub(crate) fn shrunk(case: &Value, mut differing: impl FnMut(&[Value]) -> Vec<bool>) -> Value {
    let mut case = case.clone();
    loop {
        let smaller = smaller(&case);
        // In small chunks, because the first differing case is often among them.
        let Some(found) = smaller.chunks(64).find_map(|some| {
            let at = differing(some).into_iter().position(|differs| differs)?;
            Some(some[at].clone())
        }) else {
            return case;
        };
        case = found;
    }
}

fn smaller(case: &Value) -> Vec<Value> {
    let mut pointers = Vec::new();
    collect(case, "", &mut pointers);
    pointers.sort_by_key(|pointer| pointer.matches('/').count());
    pointers.iter().filter_map(|pointer| without(case, pointer)).collect()
}

fn collect(value: &Value, at: &str, pointers: &mut Vec<String>) {
    let mut visit = |name: &str, value: &Value| {
        let pointer = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
        collect(value, &pointer, pointers);
        pointers.push(pointer);
    };
    match value {
        Value::Array(list) => list.iter().enumerate().for_each(|(index, value)| visit(&index.to_string(), value)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| visit(name, value)),
        _ => {}
    }
}

fn without(case: &Value, pointer: &str) -> Option<Value> {
    // Fields that the API server requires.
    const NEEDED: [&str; 14] = [
        "/name",
        "/metadata",
        "/spec",
        "/node",
        "/exactly",
        "/deviceClassName",
        "/allocationMode",
        "/driver",
        "/pool",
        "/count",
        "/generation",
        "/resourceSliceCount",
        "/min",
        "/value",
    ];
    if pointer.starts_with("/features")
        || NEEDED.iter().any(|needed| pointer.ends_with(needed))
        || pointer.contains("/node/")
    {
        return None;
    }
    let mut case = case.clone();
    let (parent, last) = pointer.rsplit_once('/')?;
    match case.pointer_mut(parent)? {
        Value::Array(list) => drop(list.remove(last.parse().ok()?)),
        Value::Object(fields) => drop(fields.remove(&last.replace("~1", "/").replace("~0", "~"))),
        _ => return None,
    }
    Some(case)
}
