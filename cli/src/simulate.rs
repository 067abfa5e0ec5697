//! `flotilla simulate`: pods placed on nodes that are only written down.
//!
//! Knows: the order of reading, running and printing, and which exit code each failure has. Must not know: how any of
//! them is done.

use std::{io, process::ExitCode, time::Duration};

use flotilla_framework::{config, features::FeatureGates, profile::Profile};
use indicatif::{ProgressBar, ProgressStyle};
use tracing_subscriber::EnvFilter;

use crate::{
    args::SimulateArgs,
    input,
    output::{Failure, has_colours, tell},
};

mod decode;
mod defaults;
mod generate;
mod kinds;
mod ledger;
mod load;
mod locate;
mod objects;
mod output;
mod place;
mod problem;
mod run;
mod source;
mod tree;
mod usage;

use load::Loader;
use objects::{Cluster, Gatherer};
use output::Answer;
use place::Place;
use problem::Problems;
use run::Settings;
use source::Sources;

/// Runs `flotilla simulate`.
pub(crate) fn command(args: &SimulateArgs) -> ExitCode {
    crate::output::end(simulate(args).map(|()| ExitCode::SUCCESS))
}

fn simulate(args: &SimulateArgs) -> Result<(), Failure> {
    log(args.verbose);
    let profiles = profiles(args)?;
    let cluster = cluster(args, &profiles)?;
    let settings = Settings { profiles, workers: args.workers, tie_break_seed: args.tie_break_seed };
    let progress = progress("{bar:40} {pos}/{len} pods decided, {eta} left");
    let outcome = run::run(&cluster, &settings, &progress);
    progress.finish_and_clear();
    let outcome = outcome.map_err(Failure::run)?;
    let answer = Answer::new(&cluster, &outcome, args.workers);
    crate::output::print(|out| answer.print(args.output, out))
}

/// The profiles of the configuration file, or of kube-scheduler.
fn profiles(args: &SimulateArgs) -> Result<Vec<Profile>, Failure> {
    let Some(path) = &args.config else { return Ok(config::Configuration::default().profiles) };
    let (name, text) = input::read(path).map_err(|error| Failure::input(vec![error]))?;
    let configuration = config::load(&text, &name, &FeatureGates::default());
    let configuration = configuration.map_err(|errors| Failure::input(vec![errors.to_string()]))?;
    tell(&configuration.warnings);
    Ok(configuration.profiles)
}

/// The cluster of the files and of `--generate`.
fn cluster(args: &SimulateArgs, profiles: &[Profile]) -> Result<Cluster, Failure> {
    let (mut sources, mut gatherer, mut problems) = (Sources::default(), Gatherer::default(), Problems::default());
    if let Some(words) = &args.generate {
        generate::nodes(words, |node| gatherer.add_node(node, Place::nowhere(), &mut problems));
        generate::pods(words, |pod| gatherer.add_pod(pod, Place::nowhere(), &mut problems));
    }
    let progress = progress("{spinner} {pos} objects read");
    let mut loader = Loader::new(&mut sources, &mut gatherer, &mut problems, &progress);
    loader.load(&args.files);
    let ignored = loader.summary();
    progress.finish_and_clear();
    let schedulers: Vec<&str> = profiles.iter().map(|profile| &*profile.scheduler_name).collect();
    let cluster = gatherer.finish(&schedulers, &mut problems);
    if problems.error_count() == 0 && cluster == Cluster::default() && args.generate.is_none() {
        problems.error_said("the input holds no Node and no Pod; expected some of both");
    }
    let mut lines = problems.render(&sources);
    lines.extend(ignored);
    if problems.error_count() > 0 {
        return Err(Failure::input(lines));
    }
    tell(&lines);
    Ok(cluster)
}

/// A bar or a count on the standard error, drawn only on a terminal.
fn progress(template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let progress = ProgressBar::new(0).with_style(style);
    progress.enable_steady_tick(Duration::from_millis(100));
    progress
}

/// Logs to the standard error, if that is asked for.
fn log(verbose: u8) {
    let filter = match verbose {
        0 => return,
        1 => "warn,flotilla_coordinator=info,flotilla_machine=info,flotilla_worker=info",
        _ => "info,flotilla_coordinator=trace,flotilla_machine=trace,flotilla_worker=trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(filter));
    // Only a second one would fail, and there is none.
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(has_colours(&io::stderr()));
    _ = lines.with_writer(io::stderr).try_init();
}
