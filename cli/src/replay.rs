//! `flotilla replay`: feeds recorded events to the scheduler again, or compares the decisions with another configuration.

use std::{path::Path, process::ExitCode, sync::Arc};

use flotilla_framework::registry::Registry;
use flotilla_machine::event;
use flotilla_recording::{BadRecording, Entry, Follower, Replayer, Rerun};

mod anonymise;
mod args;
mod files;
mod output;

pub(crate) use args::ReplayArgs;

use files::{Chain, Ended, Recording};
use output::{Answer, Exact};

use crate::{
    cluster,
    comparison::{DecisionSource, Report},
    output::{Failure, end, print, print_notes},
    progress::progress,
};

/// The exit code if a decision differs from the recorded one.
const DIFFERS: u8 = 3;

/// Turns between two updates of the progress bar.
const LOOK: u64 = 256;

pub(crate) fn command(args: &ReplayArgs, registry: Registry) -> ExitCode {
    end(replay(args, registry))
}

fn replay(args: &ReplayArgs, registry: Registry) -> Result<ExitCode, Failure> {
    let configuration = args.config.as_deref().map(|path| configuration(path, args, registry)).transpose()?;
    let recording = Recording::open(&args.files, registry)?;
    let mut answer = Answer::new(&recording);
    let stopped = match (&args.anonymise, args.workers, configuration) {
        (Some(path), ..) => anonymise::write(&recording, path, registry, &mut answer)?,
        (None, Some(workers), _) => rerun(&recording, workers, args, registry, &mut answer)?,
        (None, None, Some(configuration)) => {
            judge_all(&recording.chains, Some(Arc::new(configuration)), args, registry, &mut answer)
        }
        (None, None, None) => again(&recording, args, registry, &mut answer),
    };
    print_notes(&answer.notices);
    print(|out| answer.print(args.output, out))?;
    // The report covers the events before the error.
    if let Some(error) = stopped {
        return Err(Failure::input(vec![error.to_string()]));
    }
    let may_differ = args.config.is_some() || args.workers.is_some();
    Ok(if may_differ || answer.is_same() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERS) })
}

/// The configuration that replaces the recorded one.
fn configuration(path: &Path, args: &ReplayArgs, registry: Registry) -> Result<event::Configuration, Failure> {
    let gates = cluster::gates(&args.feature_gates)?;
    let read = cluster::configuration(Some(path), &gates, registry)?;
    if !read.extenders.is_empty() {
        let why = "flotilla replay calls no extenders, because their answers may change; leave `extenders` out of \
        --config";
        return Err(Failure::input(vec![why.to_owned()]));
    }
    let generic_workload = gates.enabled("GenericWorkload");
    Ok(event::Configuration { generic_workload, ..event::Configuration::new(1, read.profiles) })
}

/// Replays a chain from the recording's start exactly, and compares single decisions of later chains.
fn again(recording: &Recording, args: &ReplayArgs, registry: Registry, answer: &mut Answer) -> Option<BadRecording> {
    let (first, later) = match recording.chains.split_first() {
        Some((first, later)) if first.is_from_beginning() => (Some(first), later),
        _ => (None, &recording.chains[..]),
    };
    let stopped = first.and_then(|chain| exact(chain, args, registry, answer));
    if stopped.is_some() || later.is_empty() || !answer.is_same() {
        return stopped;
    }
    answer.notices.push(
        "parts without the coordinator's start are compared decision by decision, each in the cluster of that moment"
            .to_owned(),
    );
    judge_all(later, None, args, registry, answer)
}

/// Feeds the recorded events to a machine, up to the first difference.
fn exact(chain: &Chain, args: &ReplayArgs, registry: Registry, answer: &mut Answer) -> Option<BadRecording> {
    let bar = progress("{elapsed_precise}  {msg}");
    let mut replayer = Replayer::new(registry);
    let mut difference = None;
    let told = chain.tell(args.speed, |entry, outcome| {
        difference = replayer.replay(entry, outcome)?;
        if replayer.turns.is_multiple_of(LOOK) {
            bar.set_message(format!("{} events, {} decisions", replayer.turns, replayer.decisions));
        }
        Ok(difference.is_none())
    });
    bar.finish_and_clear();
    let Replayer { turns, decisions, now_ms, .. } = replayer;
    answer.exact = Some(Exact::new(turns, decisions, now_ms, difference));
    answer.take(told)
}

/// Evaluates each decision separately.
fn judge_all(
    chains: &[Chain],
    configuration: Option<Arc<event::Configuration>>,
    args: &ReplayArgs,
    registry: Registry,
    answer: &mut Answer,
) -> Option<BadRecording> {
    let bar = progress("{elapsed_precise}  {msg}");
    let mut report = Report::new(DecisionSource::Recording, vec!["the recorded coordinator".to_owned()]);
    let mut stopped = None;
    for chain in chains {
        let mut follower = Follower::new(registry, configuration.clone());
        let told = chain.tell(args.speed, |entry, outcome| {
            let is_turn = matches!(entry, Entry::Turn { .. });
            let judged = follower.replay(entry, outcome)?;
            judged.compared.iter().for_each(|compared| _ = report.add(compared));
            report.missed += judged.unjudged;
            if is_turn && !judged.compared.is_empty() {
                bar.set_message(report.headline());
            }
            Ok(true)
        });
        stopped = answer.take(told);
        if stopped.is_some() {
            break;
        }
    }
    bar.finish_and_clear();
    answer.compared = Some(report);
    stopped
}

/// Replays with workers in this process instead of the recorded answers.
fn rerun(
    recording: &Recording,
    workers: u16,
    args: &ReplayArgs,
    registry: Registry,
    answer: &mut Answer,
) -> Result<Option<BadRecording>, Failure> {
    let Some(chain) = recording.chains.first().filter(|chain| chain.is_from_beginning()) else {
        let why =
            "--workers needs a recording from its beginning, and the first part of this one is not there any more";
        return Err(Failure::input(vec![why.to_owned()]));
    };
    let bar = progress("{elapsed_precise}  {msg}");
    let mut rerun = Rerun::new(registry, workers);
    let told = chain.tell(args.speed, |entry, outcome| {
        rerun.replay(entry, outcome)?;
        Ok(true)
    });
    bar.finish_and_clear();
    answer.placed = Some(rerun.placed().into());
    Ok(answer.take(told))
}

impl Answer {
    /// Records how reading ended; returns the error that stopped it.
    fn take(&mut self, told: Result<Ended, BadRecording>) -> Option<BadRecording> {
        match told {
            Ok(Ended::Over(notices)) => self.notices.extend(notices),
            Ok(Ended::Enough) => {}
            Err(error) => return Some(error),
        }
        None
    }
}
