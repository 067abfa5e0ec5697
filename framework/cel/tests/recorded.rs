//! Selectors return the verdicts, texts and costs of upstream's own code, recorded in `tests/selectors`.
//!
//! `devices.json` holds devices by name, `cases.jsonl` the expressions, `answers.jsonl` the output of `integration-tests/oracle/cel`. Costs
//! that vary between runs, because Go's map order is random, are not recorded. To record again: `FLOTILLA_RECORD=1 cargo test -p
//! flotilla-integration-tests --test integration selectors::`.

use std::collections::BTreeMap;

use flotilla_selectors::{Answer, Case, DeviceObject, answer, difference, lines};

#[test]
fn recorded_selectors_get_upstreams_answers() {
    let devices: BTreeMap<String, DeviceObject> =
        serde_json::from_str(include_str!("selectors/devices.json")).expect("devices");
    let cases: Vec<Case<String>> =
        lines(include_str!("selectors/cases.jsonl")).unwrap_or_else(|error| panic!("{error:#}"));
    let answers: Vec<Answer> =
        lines(include_str!("selectors/answers.jsonl")).unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(cases.len(), answers.len(), "one answer for each case");
    assert!(cases.len() >= 600, "{} cases", cases.len());
    let mut wrong = Vec::new();
    for (case, upstream) in cases.into_iter().zip(&answers) {
        let device = devices.get(&case.device).unwrap_or_else(|| panic!("no device is called {}", case.device)).clone();
        let case = Case { expression: case.expression, device };
        let ours = answer(&case).unwrap_or_else(|error| panic!("{}: {error:#}", case.expression));
        if let Some(told) = difference(upstream, &ours) {
            wrong.push(format!("{told}: {}\n  upstream {upstream:?}\n  ours     {ours:?}", case.expression));
        }
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}
