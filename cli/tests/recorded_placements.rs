//! Compares `flotilla explain` on recorded clusters with the answers of kube-scheduler's own code. `flotilla_placements` defines equality,
//! and `placements/README.md` describes the recording.

use std::{collections::BTreeMap, fs, path::PathBuf, process::Command, thread};

use flotilla_placements::{Case, CaseOutcome, differences, outcomes};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/placements")
}

fn recorded() -> BTreeMap<String, CaseOutcome> {
    let text = fs::read_to_string(folder().join("answers.jsonl")).expect("the record");
    outcomes(&text).unwrap_or_else(|error| panic!("answers.jsonl: {error:#}"))
}

fn explained(workers: &str) -> BTreeMap<String, CaseOutcome> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flotilla"));
    let command = command.args(["explain", "--workers", workers, "--cases"]).arg(folder().join("cases"));
    let output = command.env_remove("RUST_LOG").output().expect("flotilla runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    outcomes(&String::from_utf8_lossy(&output.stdout)).unwrap_or_else(|error| panic!("{error:#}"))
}

#[test]
fn every_recorded_placement_is_the_same_with_any_number_of_workers() {
    let recorded = recorded();
    let runs = ["1", "2", "7"].map(|workers| thread::spawn(move || (workers, explained(workers))));
    let mut wrong = Vec::new();
    for run in runs {
        let (workers, explained) = run.join().expect("a run that ended");
        for (name, expected) in &recorded {
            let found = explained.get(name).unwrap_or_else(|| panic!("{name} was not explained"));
            let told: Vec<String> =
                differences(expected, found).iter().map(|one| format!("{name}, {workers} workers: {one}")).collect();
            wrong.push(told);
        }
    }
    let wrong = wrong.concat();
    assert!(
        wrong.is_empty(),
        "{} differences:\n{}",
        wrong.len(),
        wrong.iter().take(20).cloned().collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn the_record_is_of_the_cases_that_are_there_and_there_are_many() {
    let names = Case::names(&folder().join("cases")).unwrap_or_else(|error| panic!("{error:#}"));
    let recorded = recorded();
    let refused: Vec<&String> =
        recorded.iter().filter(|(_, said)| matches!(said, CaseOutcome::Refused(_))).map(|(name, _)| name).collect();
    assert!(refused.is_empty(), "kube-scheduler's side refuses {refused:?}");
    let recorded: Vec<String> = recorded.into_keys().collect();
    assert_eq!(recorded, names, "record with FLOTILLA_RECORD=1, as in README.md there");
    assert!(names.len() >= 300, "{} cases", names.len());
}
