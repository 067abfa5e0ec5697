//! Cases on which the oracle and Flotilla differ, made small.
//!
//! Knows: how two answers are compared, and how a case is made smaller. Must not know: who gives the answers.

use serde_json::Value;

/// Whether two answers differ where upstream has an answer.
pub(crate) fn differ(oracle: &Value, flotilla: &Value) -> bool {
    let gave_up = |answer: &Value| answer["timedOut"] == true || answer["panicked"] == true;
    !gave_up(oracle) && !gave_up(flotilla) && oracle != flotilla
}

/// The smallest case that is found by leaving parts out, again and again, such that it still differs.
pub(crate) fn shrunk(case: &Value, mut differing: impl FnMut(&[Value]) -> Vec<bool>) -> Value {
    let mut case = case.clone();
    loop {
        let smaller = smaller(&case);
        // A few at a time: the first that differs is often among them.
        let Some(found) = smaller.chunks(64).find_map(|some| {
            let at = differing(some).into_iter().position(|differs| differs)?;
            Some(some[at].clone())
        }) else {
            return case;
        };
        case = found;
    }
}

/// The case without one part of it, the largest parts first.
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
    // What no API server lets be absent.
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
    if NEEDED.iter().any(|needed| pointer.ends_with(needed)) || pointer.contains("/node/") {
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
