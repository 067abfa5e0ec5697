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
    let number = |name: &str, otherwise: u64| env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(otherwise);
    let (first, count) = (number("FLOTILLA_SEED", 1), number("FLOTILLA_CASES", 2_000));
    let (mut allocated, mut refused, mut failed, mut unsteady) = (0, 0, 0, 0);
    for start in (first..first + count).step_by(usize::try_from(BATCH).unwrap_or(1)) {
        let cases: Vec<Value> = (start..(start + BATCH).min(first + count)).map(generate::case).collect();
        for (case, [wanted, said]) in both(&cases) {
            if compare::differ(&wanted, &said) && is_unsteady(&case, &said) {
                unsteady += 1;
                println!(
                    "kube-scheduler has several answers to {case}, of which Flotilla's is one: {said}\n  another: {wanted}"
                );
            } else if compare::differ(&wanted, &said) {
                let small = compare::shrunk(&case, differing);
                let both = both(std::slice::from_ref(&small));
                let [wanted, said] = both.first().map_or([&Value::Null; 2], |(_, answers)| answers.each_ref());
                panic!("{small}\n  kube-scheduler {wanted}\n  Flotilla       {said}");
            }
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
    (0..TIMES).any(|_| asked(std::slice::from_ref(case)).iter().any(|wanted| !compare::differ(wanted, said)))
}

fn differing(cases: &[Value]) -> Vec<bool> {
    let both = both(cases);
    let differs =
        |case: &Value| both.iter().any(|(known, [wanted, said])| known == case && compare::differ(wanted, said));
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
