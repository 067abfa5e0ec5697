//! `flotilla simulate`: pods placed on nodes that are only written down.
//!
//! Knows: the order of reading, running and printing, and which exit code each failure has. Must not know: how any of
//! them is done.

use std::process::ExitCode;

use flotilla_configuration::{Configuration, features::FeatureGates};
use flotilla_framework::{profile::Profile, registry::Registry};

use crate::{
    args::SimulateArgs,
    cluster::{self, Cluster, Gatherer, Place, Problems},
    output::Failure,
    progress::{log, progress},
};

mod claims;
mod generate;
mod ledger;
mod output;
mod rest;
mod run;
mod usage;
mod volumes;

use output::Answer;
use run::Settings;

/// Runs `flotilla simulate`.
pub(crate) fn command(args: &SimulateArgs, registry: Registry) -> ExitCode {
    crate::output::end(simulate(args, registry).map(|()| ExitCode::SUCCESS))
}

fn simulate(args: &SimulateArgs, registry: Registry) -> Result<(), Failure> {
    log(args.verbose);
    let gates = cluster::gates(&args.feature_gates)?;
    let (configuration, refusal) =
        cluster::configuration_without_calls(args.config.as_deref(), &gates, "flotilla simulate")?;
    let cluster = read(args, &configuration.profiles, &gates)?;
    if let Some(refusal) = cluster.pending.iter().find_map(|pod| refusal(pod)) {
        return Err(refusal);
    }
    let Configuration { profiles, extenders, .. } = configuration;
    let (workers, tie_break_seed) = (args.workers, args.tie_break_seed);
    let settings = Settings { registry, profiles, extenders, workers, tie_break_seed };
    let progress = progress("{bar:40} {pos}/{len} pods decided, {eta} left");
    let outcome = run::run(&cluster, &settings, &progress);
    progress.finish_and_clear();
    let outcome = outcome.map_err(Failure::run)?;
    let answer = Answer::new(&cluster, &outcome, args.workers);
    crate::output::print(|out| answer.print(args.output, out))
}

/// The cluster of the files and of `--generate`.
fn read(args: &SimulateArgs, profiles: &[Profile], gates: &FeatureGates) -> Result<Cluster, Failure> {
    let Some(words) = &args.generate else { return cluster::read(&args.files, None, profiles, gates) };
    let make = |gatherer: &mut Gatherer, problems: &mut Problems| {
        let place = Place::nowhere();
        generate::services(words, |service| gatherer.add_selecting(service, &place, problems));
        generate::replica_sets(words, |replica_set| gatherer.add_selecting(replica_set, &place, problems));
        generate::devices::classes(words, |class| gatherer.add_device(class, &place, problems));
        generate::devices::templates(words, |template| gatherer.add_device(template, &place, problems));
        generate::devices::slices(words, |slice| gatherer.add_device(slice, &place, problems));
        generate::nodes(words, |node| gatherer.add_node(node, Place::nowhere(), problems));
        generate::pods(words, |pod| gatherer.add_pod(pod, Place::nowhere(), problems));
    };
    cluster::read(&args.files, Some(&make), profiles, gates)
}
