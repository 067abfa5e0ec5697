//! `cargo xtask perf --upstream`: the workloads of Kubernetes' scheduler_perf, with each scheduler in turn.

mod harness;
mod report;
mod results;
mod workloads;

use std::process::ExitCode;

use anyhow::Context as _;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::Instant,
};

use crate::{
    args::{Args, Output},
    bench::{INCOMPLETE, INTERRUPTED},
};
use harness::Harness;
use report::Report;
use results::Run;
use workloads::{Selection, Workload};

/// Runs the selected workloads and prints the report. An interrupt ends all processes; the report then contains the finished runs.
pub(crate) async fn upstream(args: &Args) -> anyhow::Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let (mut workloads, mut runs) = (Vec::new(), Vec::new());
    // Dropping the unfinished run ends its processes and deletes its folder.
    let outcome = tokio::select! {
        outcome = all(args, &mut workloads, &mut runs) => outcome.map(|()| None),
        _ = tokio::signal::ctrl_c() => Ok(Some(INTERRUPTED)),
        _ = terminate.recv() => Ok(Some(INTERRUPTED)),
    };
    let is_complete = !runs.iter().any(Run::has_failed);
    if !workloads.is_empty() {
        let report = Report::new(&args.schedulers(), &workloads, runs);
        match args.output {
            Output::Table => print!("{}", report.text()),
            Output::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        }
    }
    match outcome? {
        Some(code) => {
            eprintln!("perf: interrupted; all processes have been ended");
            Ok(ExitCode::from(code))
        }
        None => Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) }),
    }
}

async fn all(args: &Args, workloads: &mut Vec<Workload>, runs: &mut Vec<Run>) -> anyhow::Result<()> {
    let selection = Selection::of(args)?;
    let harness = Harness::prepare(args).await?;
    *workloads = harness.list(&selection).await?;
    let (began, schedulers) = (Instant::now(), args.schedulers());
    let chosen: Vec<&Workload> = workloads.iter().filter(|workload| workload.skip.is_empty()).collect();
    for (index, workload) in chosen.iter().enumerate() {
        for scheduler in &schedulers {
            let heading = format!("{} {}, {}", workload.package, workload.workload, scheduler.name());
            let minutes = began.elapsed().as_secs() / 60;
            eprintln!("perf: workload {} of {}, after {minutes} min: {heading}", index + 1, chosen.len());
            let run = harness.run(workload, *scheduler).await.with_context(|| heading.clone())?;
            eprintln!("perf: {heading}: {}", run.line());
            runs.push(run);
        }
    }
    Ok(())
}
