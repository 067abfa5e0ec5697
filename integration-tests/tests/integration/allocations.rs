//! Compares device allocations of random cases with kube-scheduler's allocator. `FLOTILLA_SEED` is the seed of the first case (default 1),
//! `FLOTILLA_CASES` the number of cases (default 2,000). Differing cases are minimised and printed; record them in
//! `framework/tests/devices/cases.jsonl`.

mod compare;
mod generate;
#[path = "../../../framework/tests/devices/language.rs"]
mod language;
#[path = "../../../framework/tests/devices/read.rs"]
mod read;

use std::{env, fs, sync::Arc};

use flotilla_integration_tests::oracle;
use serde_json::Value;

/// Maximum number of oracle runs for a differing case.
const TIMES: usize = 8;
const BATCH: u64 = 2_000;

#[test]
fn made_up_cases_are_allocated_as_kube_scheduler_does() {
    let (first, count) = (number("FLOTILLA_SEED", 1), number("FLOTILLA_CASES", 2_000));
    let (mut allocated, mut refused, mut failed, mut unsteady) = (0, 0, 0, 0);
    for start in (first..first + count).step_by(usize::try_from(BATCH).unwrap_or(1)) {
        let cases: Vec<Value> = (start..(start + BATCH).min(first + count)).map(generate::case).collect();
        for (case, [wanted, said]) in both(&cases) {
            unsteady += u64::from(assert_same(&case, &wanted, &said));
            match wanted {
                _ if wanted["error"].is_string() => failed += 1,
                _ if wanted["allocations"].is_array() => allocated += 1,
                _ => refused += 1,
            }
        }
    }
    let given_up = count - allocated - refused - failed;
    println!("{unsteady} to which kube-scheduler has several answers");
    println!(
        "{allocated} allocated, {refused} not, {failed} with an error, {given_up} not asked: the search is too long"
    );
    let is_mixed =
        count < 1_000 || allocated > count / 5 && refused > count / 10 && failed > count / 50 && given_up < count / 50;
    assert!(is_mixed, "the cases are too much of one kind");
}

/// Features that differ from kube-scheduler's default, in the names of `structured.Features`.
const FEATURES: [&str; 14] = [
    r#"{ "FractionalCapacityRange": true }"#,
    r#"{ "ConsumableCapacity": false }"#,
    r#"{ "DeviceBindingAndStatus": false }"#,
    r#"{ "PartitionableDevices": false }"#,
    r#"{ "DeviceTaints": false }"#,
    r#"{ "ConsumableCapacity": false, "DeviceBindingAndStatus": false }"#,
    r#"{ "ConsumableCapacity": false, "DeviceBindingAndStatus": false, "PartitionableDevices": false, "DeviceTaints": false }"#,
    r#"{ "ConsumableCapacity": false, "PartitionableDevices": false }"#,
    r#"{ "ListTypeAttributes": true }"#,
    r#"{ "CompatibilityGroups": true }"#,
    r#"{ "OptionalNodeOperations": true }"#,
    r#"{ "DerivedAttributes": true }"#,
    r#"{ "ListTypeAttributes": true, "CompatibilityGroups": true, "OptionalNodeOperations": true, "DerivedAttributes": true, "FractionalCapacityRange": true }"#,
    r#"{ "DerivedAttributes": true, "ListTypeAttributes": true, "ConsumableCapacity": false, "DeviceBindingAndStatus": false }"#,
];
/// Cases for each of them.
const GATED: u64 = 150;

#[test]
fn made_up_cases_are_allocated_as_kube_scheduler_does_with_other_features() {
    let (first, count) = (number("FLOTILLA_SEED", 1), number("FLOTILLA_CASES", GATED));
    for features in FEATURES {
        let features: Value = serde_json::from_str(features).unwrap_or_else(|error| panic!("{error}: {features}"));
        let cases: Vec<Value> = (first..first + count).map(|seed| generate::gated(seed, &features)).collect();
        let (mut allocated, mut failed, mut changed) = (0, 0, 0);
        for (case, [wanted, said]) in both(&cases) {
            assert_same(&case, &wanted, &said);
            allocated += u64::from(wanted["allocations"].is_array());
            failed += u64::from(wanted["error"].is_string());
            changed += u64::from(read::answer(&without_features(&case), Arc::new(language::Part)) != said);
        }
        println!("{features}: {count} cases, {allocated} allocated, {failed} failed; the features change {changed}");
        assert!(changed > count / 50 && allocated > count / 10, "{features}: the cases do not depend on the features");
    }
}

fn without_features(case: &Value) -> Value {
    let mut case = case.clone();
    case["features"] = Value::Null;
    case
}

fn number(name: &str, otherwise: u64) -> u64 {
    env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(otherwise)
}

/// Whether kube-scheduler has several answers, of which Flotilla's is one.
///
/// # Panics
/// The answers differ.
fn assert_same(case: &Value, wanted: &Value, said: &Value) -> bool {
    if !compare::differ(case, wanted, said) {
        return false;
    }
    if is_unsteady(case, said) {
        println!(
            "kube-scheduler has several answers to {case}, of which Flotilla's is one: {said}\n  another: {wanted}"
        );
        return true;
    }
    let small = compare::shrunk(case, differing);
    let both = both(std::slice::from_ref(&small));
    let [wanted, said] = both.first().map_or([&Value::Null; 2], |(_, answers)| answers.each_ref());
    panic!("{small}\n  kube-scheduler {wanted}\n  Flotilla       {said}");
}

/// Cases with a short enough search, with the answers of the oracle and Flotilla.
fn both(cases: &[Value]) -> Vec<(Value, [Value; 2])> {
    let said = cases.iter().map(|case| (case, read::answer(case, Arc::new(language::Part))));
    let (cases, said): (Vec<Value>, Vec<Value>) =
        said.filter(|(_, said)| said["timedOut"] != true).map(|(case, said)| (case.clone(), said)).unzip();
    let wanted = asked(&cases);
    cases.into_iter().zip(wanted.into_iter().zip(said).map(|(wanted, said)| [wanted, said])).collect()
}

/// Whether another run of kube-scheduler's allocator, which iterates over maps in random order, returns Flotilla's answer.
fn is_unsteady(case: &Value, said: &Value) -> bool {
    (0..TIMES).any(|_| asked(std::slice::from_ref(case)).iter().any(|wanted| !compare::differ(case, wanted, said)))
}

fn differing(cases: &[Value]) -> Vec<bool> {
    let both = both(cases);
    let differs =
        |case: &Value| both.iter().any(|(known, [wanted, said])| known == case && compare::differ(case, wanted, said));
    cases.iter().map(differs).collect()
}

fn asked(cases: &[Value]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("a folder for cases: {error}"));
    let path = folder.path().join("cases.jsonl");
    let lines: Vec<String> = cases.iter().map(Value::to_string).collect();
    fs::write(&path, lines.join("\n")).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let said = oracle::ask("devices", &[&path]).unwrap_or_else(|error| panic!("{error:#}"));
    said.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}
