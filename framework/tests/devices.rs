//! Devices are allocated as by kube-scheduler's allocator.
//!
//! `devices/cases.jsonl` has the cases of kube-scheduler's own tests (`structured/internal/allocatortesting` of
//! `k8s.io/dynamic-resource-allocation`) and past differences. `devices/answers.jsonl` has the results of kube-scheduler's allocator. In
//! `integration-tests/tests/integration`, `oracle.rs` verifies that they are current, and `allocations.rs` compares new cases.

#[path = "devices/language.rs"]
mod language;
#[path = "devices/read.rs"]
mod read;

use std::sync::Arc;

use serde_json::Value;

#[test]
fn recorded_cases_are_allocated_as_kube_scheduler_does() {
    let (cases, answers) = (lines(include_str!("devices/cases.jsonl")), lines(include_str!("devices/answers.jsonl")));
    assert_eq!(cases.len(), answers.len(), "there is one answer per case");
    assert!(cases.len() > 200, "only {} cases", cases.len());
    let mut wrong = Vec::new();
    for (case, wanted) in cases.iter().zip(&answers) {
        let said = read::answer(case, Arc::new(language::Part));
        if said != *wanted {
            wrong.push(format!("{}\n  wanted {wanted}\n  said   {said}", case["name"]));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}
