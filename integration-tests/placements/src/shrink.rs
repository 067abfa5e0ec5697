//! Minimises a case while a predicate holds. A required part is detected because the predicate does not hold without it.

use serde_json::{Value, json};

use crate::case::Case;

/// Maximum number of predicate calls, each with many cases; far more than small cases need.
const MOST_ROUNDS: usize = 300;
const MOST_AT_ONCE: usize = 250;

type Path = Vec<Step>;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Key(String),
    Index(usize),
}

/// The smallest case found by repeatedly removing objects, then fields and elements, then their contents, so that `holds` is true. `holds`
/// must be true of `case`.
///
/// # Errors
/// Those of `holds`.
pub fn shrunk(case: &Case, holds: impl FnMut(&[Case]) -> anyhow::Result<Vec<bool>>) -> anyhow::Result<Case> {
    let whole = json!({ "objects": case.objects, "configuration": case.configuration });
    let mut shrinking = Shrinking { name: &case.name, holds, whole, rounds: MOST_ROUNDS };
    loop {
        let before = shrinking.whole.clone();
        // Removes the configuration first if possible, because objects are one level below their list.
        let mut depth = 1;
        while !paths(&shrinking.whole, depth).is_empty() {
            shrinking.leave_out_at(depth)?;
            depth += 1;
        }
        if shrinking.whole == before || shrinking.rounds == 0 {
            return Ok(shrinking.case(&shrinking.whole));
        }
    }
}

struct Shrinking<'a, F> {
    name: &'a str,
    holds: F,
    whole: Value,
    rounds: usize,
}

impl<F: FnMut(&[Case]) -> anyhow::Result<Vec<bool>>> Shrinking<'_, F> {
    /// Removes as many parts at a depth as possible: first many at once, then fewer.
    fn leave_out_at(&mut self, depth: usize) -> anyhow::Result<()> {
        let mut size = paths(&self.whole, depth).len();
        while size > 0 && self.rounds > 0 {
            let parts = paths(&self.whole, depth);
            let chunks: Vec<&[Path]> = parts.chunks(size).collect();
            let mut removable = Vec::new();
            for chunks in chunks.chunks(MOST_AT_ONCE) {
                let held = self.ask(&chunks.iter().map(|chunk| without(&self.whole, chunk)).collect::<Vec<_>>())?;
                removable.extend(chunks.iter().zip(held).filter(|(_, held)| *held).map(|(chunk, _)| *chunk));
            }
            let Some(first) = removable.first() else {
                size /= 2;
                continue;
            };
            let together = without(&self.whole, &removable.concat());
            let does_hold = removable.len() == 1 || self.ask(std::slice::from_ref(&together))? == [true];
            self.whole = if does_hold { together } else { without(&self.whole, first) };
            size = size.min(paths(&self.whole, depth).len());
        }
        Ok(())
    }

    fn ask(&mut self, wholes: &[Value]) -> anyhow::Result<Vec<bool>> {
        self.rounds = self.rounds.saturating_sub(1);
        let cases: Vec<Case> = wholes.iter().map(|whole| self.case(whole)).collect();
        (self.holds)(&cases)
    }

    fn case(&self, whole: &Value) -> Case {
        Case {
            name: self.name.to_owned(),
            objects: whole["objects"].as_array().cloned().unwrap_or_default(),
            configuration: whole.get("configuration").filter(|configuration| !configuration.is_null()).cloned(),
        }
    }
}

fn paths(value: &Value, depth: usize) -> Vec<Path> {
    if depth == 0 {
        return vec![Path::new()];
    }
    let below = |step: Step, value: &Value| {
        paths(value, depth - 1).into_iter().map(move |path| [vec![step.clone()], path].concat()).collect::<Vec<_>>()
    };
    match value {
        Value::Object(fields) => fields.iter().flat_map(|(key, value)| below(Step::Key(key.clone()), value)).collect(),
        Value::Array(items) => {
            items.iter().enumerate().flat_map(|(index, value)| below(Step::Index(index), value)).collect()
        }
        _ => Vec::new(),
    }
}

fn without(value: &Value, parts: &[Path]) -> Value {
    let mut value = value.clone();
    let mut parts: Vec<&Path> = parts.iter().collect();
    // From the back, so that the remaining indices stay valid.
    parts.sort_unstable_by(|left, right| right.cmp(left));
    for path in parts {
        remove(&mut value, path);
    }
    value
}

fn remove(value: &mut Value, path: &[Step]) {
    match (path, value) {
        ([Step::Key(key)], Value::Object(fields)) => _ = fields.remove(key),
        ([Step::Index(index)], Value::Array(items)) if *index < items.len() => _ = items.remove(*index),
        ([Step::Key(key), rest @ ..], Value::Object(fields)) => {
            if let Some(value) = fields.get_mut(key) {
                remove(value, rest);
            }
        }
        ([Step::Index(index), rest @ ..], Value::Array(items)) => {
            if let Some(value) = items.get_mut(*index) {
                remove(value, rest);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_matter_is_left_out_down_to_the_fields() {
        let object = |name: &str| {
            let metadata = json!({ "name": name, "labels": { "a": "1", "b": "2" } });
            json!({ "kind": "Node", "metadata": metadata, "spec": { "taints": [{ "key": "x" }, { "key": name }] } })
        };
        let case = Case {
            name: "c".to_owned(),
            objects: ["a", "b", "c", "d", "e"].map(object).to_vec(),
            configuration: Some(json!({ "profiles": [{ "schedulerName": "s" }] })),
        };
        // Needs the taint of one object and the name of another.
        let holds = |cases: &[Case]| {
            let has_taint = |object: &Value| {
                object["spec"]["taints"].as_array().is_some_and(|taints| taints.contains(&json!({ "key": "d" })))
            };
            let has_name = |object: &Value| object["metadata"]["name"] == "b";
            Ok(cases
                .iter()
                .map(|case| case.objects.iter().any(has_taint) && case.objects.iter().any(has_name))
                .collect())
        };
        let small = shrunk(&case, holds).expect("it holds");
        let expected = [json!({ "metadata": { "name": "b" } }), json!({ "spec": { "taints": [{ "key": "d" }] } })];
        assert_eq!((small.objects.as_slice(), small.configuration), (&expected[..], None));
    }

    #[test]
    fn a_case_of_which_nothing_can_be_left_out_stays_as_it_is() {
        let case = Case { name: "c".to_owned(), objects: vec![json!({ "kind": "Pod" })], configuration: None };
        let asked = shrunk(&case, |cases| Ok(vec![false; cases.len()])).expect("no error");
        assert_eq!(asked, case);
    }
}
