//! Device selectors evaluate as in upstream's code, on random cases, and recorded results are current. `FLOTILLA_SEED` and `FLOTILLA_CASES`
//! select random cases. `FLOTILLA_RECORD=1` writes the records instead of checking them.

use std::{
    env, fs,
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
};

use flotilla_selectors::{Answer, Generator, answer, difference, lines};
use flotilla_test_programs::oracle;

/// Fixed default, so that a failure is reproducible.
const SEED: u64 = 1;
const CASES: usize = 20_000;
/// Runs per case; varying costs are not recorded.
const RUNS: usize = 4;
/// Runs of upstream for a differing case. A map of four entries has at most 24 orders, few of which differ in cost. A cost of one in eight
/// runs is missed by all 64 once in 5,000.
const RUNS_OF_DIFFERING: usize = 64;
/// Number of differences printed in full.
const MOST_TOLD: usize = 10;

fn variable<T: std::str::FromStr>(name: &str, default: T) -> T {
    let Ok(text) = env::var(name) else { return default };
    text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}; expected a whole number"))
}

fn ask(arguments: &[&str], cases: String) -> Vec<Answer> {
    let program = oracle("cel").unwrap_or_else(|error| panic!("{error:#}"));
    let mut command = Command::new(program);
    let mut child =
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the oracle starts");
    let mut input = child.stdin.take().expect("its input");
    let writer = thread::spawn(move || input.write_all(cases.as_bytes()));
    let output = child.wait_with_output().expect("the oracle ends");
    writer.join().expect("the writer ends").expect("the oracle reads all");
    assert!(output.status.success(), "the oracle failed");
    lines(&String::from_utf8(output.stdout).expect("text")).unwrap_or_else(|error| panic!("{error:#}"))
}

#[test]
fn fresh_selectors_get_the_same_answers() {
    let (seed, count) = (variable("FLOTILLA_SEED", SEED), variable("FLOTILLA_CASES", CASES));
    println!("{count} selectors from seed {seed}");
    let mut generator = Generator::new(seed);
    let cases: Vec<_> = (0..count).map(|_| generator.case()).collect();
    let asked: Vec<String> = cases.iter().map(|case| serde_json::to_string(case).expect("JSON")).collect();
    let upstream = ask(&[], asked.join("\n"));
    assert_eq!(upstream.len(), count);
    let mut differing = Vec::new();
    for ((case, line), upstream) in cases.iter().zip(&asked).zip(upstream) {
        let ours = answer(case).unwrap_or_else(|error| panic!("{}: {error:#}", case.expression));
        if let Some(told) = difference(&upstream, &ours) {
            differing.push((told, line, upstream, ours));
        }
    }
    // Upstream iterates over maps in random order: any of its results is accepted.
    let again: Vec<&str> = differing.iter().flat_map(|(_, line, ..)| [line.as_str(); RUNS_OF_DIFFERING]).collect();
    let again = if again.is_empty() { Vec::new() } else { ask(&[], again.join("\n")) };
    assert_eq!(again.len(), differing.len() * RUNS_OF_DIFFERING);
    let wrong: Vec<String> = differing
        .iter()
        .zip(again.chunks(RUNS_OF_DIFFERING))
        .filter(|((.., ours), again)| again.iter().all(|upstream| difference(upstream, ours).is_some()))
        .map(|((told, line, upstream, ours), _)| {
            format!("{told}: {line}\n  upstream {upstream:?}\n  ours     {ours:?}")
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of {count} selectors from seed {seed} differ:\n{}",
        wrong.len(),
        wrong.iter().take(MOST_TOLD).cloned().collect::<Vec<_>>().join("\n")
    );
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../framework/cel/tests/selectors")
}

#[test]
fn the_record_is_what_upstream_says_today() {
    let cases = fs::read_to_string(folder().join("cases.jsonl")).expect("the cases");
    let devices = folder().join("devices.json");
    let arguments = ["--devices", devices.to_str().expect("a path in UTF-8")];
    let mut answers = ask(&arguments, cases.clone());
    for _ in 1..RUNS {
        for (first, again) in answers.iter_mut().zip(ask(&arguments, cases.clone())) {
            if first.cost != again.cost {
                first.cost = None;
            }
            assert_eq!((&first.verdict, &first.text), (&again.verdict, &again.text));
        }
    }
    let line = |answer: &Answer| serde_json::to_string(answer).expect("JSON") + "\n";
    let file = folder().join("answers.jsonl");
    if env::var_os("FLOTILLA_RECORD").is_some() {
        fs::write(file, answers.iter().map(line).collect::<String>()).expect("the record is written");
        return;
    }
    let recorded: Vec<Answer> =
        lines(&fs::read_to_string(file).expect("the record")).unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(recorded.len(), answers.len());
    for (recorded, today) in recorded.iter().zip(&answers) {
        assert_eq!((&recorded.verdict, &recorded.text), (&today.verdict, &today.text));
        assert!(recorded.cost.is_none() || today.cost.is_none() || recorded.cost == today.cost, "{today:?}");
    }
}
