//! Runs all plans and reports.

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    args::{Args, Output},
    cluster::data_folder,
    measured::Measured,
    programs::Programs,
    report::Report,
    run::Plan,
    schedulers::Scheduler,
    shape::{Shape, Size},
};

/// Exit code if some pods were not bound in time.
pub(crate) const INCOMPLETE: u8 = 3;
pub(crate) const INTERRUPTED: u8 = 130;

/// Runs all plans and prints the report. An interrupt ends all processes; the report then contains the finished runs.
pub(crate) async fn bench(args: &Args) -> anyhow::Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut measured = Vec::new();
    // Dropping the unfinished run ends its processes and deletes its folder.
    let outcome = tokio::select! {
        outcome = all(args, &mut measured) => outcome.map(|()| None),
        _ = tokio::signal::ctrl_c() => Ok(Some(INTERRUPTED)),
        _ = terminate.recv() => Ok(Some(INTERRUPTED)),
    };
    let is_complete = measured.iter().all(Measured::is_complete);
    if !measured.is_empty() {
        report(args, measured)?;
    }
    match outcome? {
        Some(code) => {
            eprintln!("perf: interrupted; all processes have been ended");
            Ok(ExitCode::from(code))
        }
        None => Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) }),
    }
}

async fn all(args: &Args, measured: &mut Vec<Measured>) -> anyhow::Result<()> {
    let programs = Programs::find(args.programs.as_deref()).await?;
    let plans = plans(args);
    for (index, plan) in plans.iter().enumerate() {
        eprintln!("perf: run {} of {}: {}", index + 1, plans.len(), plan.heading);
        let run = plan.run(&programs).await.with_context(|| plan.heading.clone())?;
        eprintln!("perf: {}: {}", plan.heading, run.line());
        measured.push(run);
    }
    Ok(())
}

fn report(args: &Args, measured: Vec<Measured>) -> anyhow::Result<()> {
    let report = Report::new(measured);
    match args.output {
        Output::Table => print!("{}", report.tables()),
        Output::Json => println!("{}", serde_json::to_string_pretty(&report)?),
    }
    if let Some(path) = &args.svg {
        fs::write(path, report.picture()?).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// By shape, round and scheduler. The first scheduler rotates between rounds.
fn plans(args: &Args) -> Vec<Plan> {
    let (schedulers, data_in) = (args.schedulers(), data_folder(args.data_in.as_deref()));
    let mut plans = Vec::new();
    for shape in args.shapes() {
        for round in 1..=args.rounds {
            for index in 0..schedulers.len() {
                let scheduler = schedulers[(index + round as usize - 1) % schedulers.len()];
                plans.push(plan(args, shape, round, scheduler, data_in.clone()));
            }
        }
    }
    plans
}

fn plan(args: &Args, shape: Shape, round: u32, scheduler: Scheduler, data_in: Option<PathBuf>) -> Plan {
    let usual = shape.size();
    let size = Size {
        nodes: args.nodes.unwrap_or(usual.nodes),
        standing: args.standing.unwrap_or(usual.standing),
        pods: args.pods.unwrap_or(usual.pods),
        rate: args.rate.unwrap_or(usual.rate),
    };
    Plan {
        shape,
        size,
        round,
        scheduler,
        workers: args.workers,
        timeout: args.timeout,
        data_in,
        heading: format!("{}, round {round} of {}, {}", shape.name(), args.rounds, scheduler.name()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn schedulers_take_turns_within_a_round_and_each_round_begins_with_another() {
        let args = Args::try_parse_from(["perf", "--shape", "basic", "--rounds", "3"]).expect("it is valid");
        let order: Vec<(u32, Scheduler)> = plans(&args).iter().map(|plan| (plan.round, plan.scheduler)).collect();
        let [ceiling, events, theirs, ours] = Scheduler::ALL;
        let expected = [
            [ceiling, events, theirs, ours].map(|scheduler| (1, scheduler)),
            [events, theirs, ours, ceiling].map(|scheduler| (2, scheduler)),
            [theirs, ours, ceiling, events].map(|scheduler| (3, scheduler)),
        ];
        assert_eq!(order, expected.concat());
    }

    #[test]
    fn numbers_of_the_command_line_take_the_place_of_those_of_the_shape() {
        let args = ["perf", "--shape", "spread", "--scheduler", "flotilla", "--nodes", "7", "--standing", "0"];
        let plans = plans(&Args::try_parse_from(args).expect("it is valid"));
        let usual = Shape::Spread.size();
        assert_eq!(plans.len(), 1);
        assert_eq!(plans[0].size, Size { nodes: 7, standing: 0, ..usual });
    }
}
