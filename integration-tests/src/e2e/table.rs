//! Table of results.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{Scheduler, SpecResult};

const MESSAGE_LENGTH: usize = 200;

/// One line per spec with each scheduler's verdict and seconds, then the reasons of failures.
#[must_use]
pub fn table(runs: &BTreeMap<Scheduler, Vec<SpecResult>>) -> String {
    let mut rows: BTreeMap<&str, BTreeMap<Scheduler, &SpecResult>> = BTreeMap::new();
    for (&scheduler, outcomes) in runs {
        for outcome in outcomes {
            rows.entry(&outcome.spec).or_default().insert(scheduler, outcome);
        }
    }
    let names = runs.keys().map(|scheduler| format!(" {} |", scheduler.name())).collect::<String>();
    let mut text = format!("| spec |{names} seconds |\n|---|{}---|\n", "---|".repeat(runs.len()));
    for (spec, row) in &rows {
        let of = |scheduler: &Scheduler| row.get(scheduler);
        let verdicts = runs.keys().map(|scheduler| of(scheduler).map_or("not run", |outcome| outcome.verdict.name()));
        let seconds: Vec<String> = runs
            .keys()
            .map(|scheduler| of(scheduler).map_or_else(|| "-".to_owned(), |outcome| outcome.seconds.to_string()))
            .collect();
        let verdicts: String = verdicts.map(|verdict| format!(" {verdict} |")).collect();
        _ = writeln!(text, "| {spec} |{verdicts} {} |", seconds.join(" / "));
    }
    for (scheduler, outcomes) in runs {
        for outcome in outcomes.iter().filter(|outcome| !outcome.message.is_empty()) {
            let line: String =
                outcome.message.lines().next().unwrap_or_default().chars().take(MESSAGE_LENGTH).collect();
            _ = write!(text, "\n{} {} with {}: {line}", outcome.spec, outcome.verdict.name(), scheduler.name());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::e2e::SpecVerdict;

    fn outcome(spec: &str, verdict: SpecVerdict, seconds: u64, message: &str) -> SpecResult {
        SpecResult { spec: spec.into(), verdict, seconds, message: message.into() }
    }

    #[test]
    fn schedulers_stand_side_by_side_and_reasons_below() {
        let runs = BTreeMap::from([
            (
                Scheduler::KubeScheduler,
                vec![outcome("a", SpecVerdict::Passed, 3, ""), outcome("b", SpecVerdict::Passed, 4, "")],
            ),
            (Scheduler::Flotilla, vec![outcome("a", SpecVerdict::Failed, 60, "timed out\nat line 3")]),
        ]);
        let expected = "\
            | spec | kube-scheduler | flotilla | seconds |\n\
            |---|---|---|---|\n\
            | a | passed | failed | 3 / 60 |\n\
            | b | passed | not run | 4 / - |\n\
            \n\
            a failed with flotilla: timed out";
        assert_eq!(table(&runs), expected);
    }
}
