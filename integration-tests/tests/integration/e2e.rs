//! Kubernetes' specs of scheduling pass with Flotilla if they pass with kube-scheduler. `cargo xtask e2e` runs the ignored test with
//! `FLOTILLA_E2E_SCHEDULER`, `FLOTILLA_E2E_FOCUS` and `FLOTILLA_E2E_GATES`. `FLOTILLA_RECORD=1` records the results of both schedulers
//! instead of checking them.

use std::{collections::BTreeMap, env, path::Path, time::Duration};

use flotilla_integration_tests::e2e::{self, Entry, Record, Request, Scheduler, SpecResult, SpecVerdict};

#[tokio::test(flavor = "multi_thread")]
async fn the_quick_specs_pass_with_flotilla() -> anyhow::Result<()> {
    let program = e2e::build()?;
    let record = Record::read()?;
    passes(&program, &record, Entry::is_quick, None).await
}

/// Runs the specs of the record that are selected with Flotilla, and checks that all of them passed.
pub(crate) async fn passes(
    program: &Path,
    record: &Record,
    is_selected: impl Fn(&Entry) -> bool,
    version: Option<String>,
) -> anyhow::Result<()> {
    let focus = record.focus(&is_selected);
    let request = Request { focus, gates: None, version, patience: Duration::from_secs(900) };
    let outcomes = e2e::run(program, Scheduler::Flotilla, &request).await?;
    let selected = record.entries().filter(|entry| is_selected(entry)).count();
    let runs = BTreeMap::from([(Scheduler::Flotilla, outcomes)]);
    let passed = |outcome: &&SpecResult| outcome.verdict == SpecVerdict::Passed;
    let passes = runs[&Scheduler::Flotilla].iter().filter(passed).count();
    anyhow::ensure!(passes == selected, "{passes} of {selected} specs were run and passed:\n{}", e2e::table(&runs));
    println!("{passes} specs passed");
    Ok(())
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes half an hour; cargo xtask e2e runs it"]
async fn every_spec_fares_as_recorded() -> anyhow::Result<()> {
    let schedulers = match variable("FLOTILLA_E2E_SCHEDULER").as_deref() {
        None | Some("both") => vec![Scheduler::KubeScheduler, Scheduler::Flotilla],
        Some("kube-scheduler") => vec![Scheduler::KubeScheduler],
        Some("flotilla") => vec![Scheduler::Flotilla],
        Some(other) => anyhow::bail!("FLOTILLA_E2E_SCHEDULER is {other:?}; set it to kube-scheduler, flotilla or both"),
    };
    let gates = variable("FLOTILLA_E2E_GATES");
    let all = if gates.is_some() { e2e::SCHEDULING_OFF_BY_DEFAULT } else { e2e::SCHEDULING };
    let request = Request {
        focus: variable("FLOTILLA_E2E_FOCUS").unwrap_or_else(|| all.to_owned()),
        gates,
        version: None,
        patience: Duration::from_secs(2 * 60 * 60),
    };
    let records = variable("FLOTILLA_RECORD").as_deref() == Some("1");
    anyhow::ensure!(!records || schedulers.len() == 2, "a record is of both schedulers; run both, or do not record");
    let program = e2e::build()?;
    let mut record = Record::read()?;
    let mut runs: BTreeMap<Scheduler, Vec<SpecResult>> = BTreeMap::new();
    let mut not_run = Vec::new();
    for scheduler in schedulers {
        println!("running {} with {}", request.focus, scheduler.name());
        let outcomes = e2e::run(&program, scheduler, &request).await;
        let outcomes = outcomes.inspect_err(|error| not_run.push(format!("{error:#}")));
        runs.insert(scheduler, outcomes.unwrap_or_default());
    }
    println!("{}\n{}", e2e::table(&runs), not_run.join("\n"));
    if records {
        record.take(&runs);
        return record.write();
    }
    assert!(not_run.is_empty(), "{}", not_run.join("\n"));
    let worse = record.worse(&runs);
    assert!(
        worse.is_empty(),
        "worse than integration-tests/e2e/specs.jsonl says; where that is right, record it with FLOTILLA_RECORD=1:\n{}",
        worse.join("\n")
    );
    Ok(())
}
