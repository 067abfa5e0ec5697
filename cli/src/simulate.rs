//! `flotilla simulate`: schedules pods from files.

use std::process::ExitCode;

use flotilla_cluster::{Cluster, Gatherer, Groups, InputPosition, Problems};
use flotilla_configuration::{Configuration, features::FeatureGates};
use flotilla_framework::{profile::Profile, registry::Registry};
use flotilla_simulate::{ledger::SimulationResult, run::Settings};

use crate::{
    cluster::{self, Manifests, Origin},
    input::{Inputs, Text},
    output::{Failure, STAYS_PENDING, print_notes},
    progress::{log, progress},
    rollouts::NotCreated,
};

pub(crate) mod args;
mod generate;
mod output;
mod page;
mod starting;
pub(crate) mod usage;

use args::{FailOn, Format, SimulateArgs};
use output::Answer;
pub(crate) use page::Simulated;

pub(crate) fn command(args: &SimulateArgs, registry: Registry) -> ExitCode {
    crate::output::end(simulate(args, registry))
}

fn simulate(args: &SimulateArgs, registry: Registry) -> Result<ExitCode, Failure> {
    let (cluster, outcome, settings) = outcome(args, None, registry)?;
    let is_pending = outcome.placements.iter().any(|placement| placement.node.is_none());
    let is_missing = !cluster.made.refused.is_empty() || !outcome.report.not_created.is_empty();
    let fails = (is_pending || is_missing) && args.fail_on == Some(FailOn::Pending);
    let groups = Groups::new(registry, &cluster, &settings.profiles);
    let answer = Answer::new((&cluster, &groups), &outcome, args.workers);
    print_notes(&NotCreated::lines(&NotCreated::all(&outcome.report)));
    print_notes(&[starting::notes(&cluster, &outcome), outcome.notes()].concat());
    if args.output == Format::Html {
        let figures = answer.figures();
        let simulated = Simulated::new(args, figures, cluster, outcome, settings);
        crate::output::print(|out| simulated.print(out))?;
    } else {
        crate::output::print(|out| answer.print(args.output, out))?;
    }
    Ok(if fails { ExitCode::from(STAYS_PENDING) } else { ExitCode::SUCCESS })
}

/// A simulation for the page. `fallback`: the configuration that applies if no file is given.
pub(crate) fn for_page(args: &SimulateArgs, fallback: Option<&Text>, registry: Registry) -> Result<Simulated, Failure> {
    let (cluster, outcome, settings) = outcome(args, fallback, registry)?;
    let figures = Answer::new((&cluster, &Groups::default()), &outcome, args.workers).figures();
    Ok(Simulated::new(args, figures, cluster, outcome, settings))
}

/// The input cluster, the simulation's result, and the configuration.
fn outcome(
    args: &SimulateArgs,
    fallback: Option<&Text>,
    registry: Registry,
) -> Result<(Cluster, SimulationResult, Settings), Failure> {
    log(args.verbose);
    let gates = cluster::gates(&args.feature_gates)?;
    let origin = Origin::new(args.config.as_deref(), fallback);
    let (configuration, refusal) = cluster::configuration_without_calls(origin, &gates, registry, "flotilla simulate")?;
    let cluster = read(args, &configuration.profiles, &gates)?.showing(registry, &configuration.profiles);
    if let Some(refusal) = cluster.pending.iter().find_map(|pod| refusal(pod)) {
        return Err(refusal);
    }
    let Configuration { profiles, extenders, .. } = configuration;
    let (workers, tie_break_seed) = (args.workers, args.tie_break_seed);
    let (once, may_preempt, drained) = (args.once, !args.no_preemption, Vec::new());
    let settings = Settings { registry, profiles, extenders, workers, tie_break_seed, once, may_preempt, drained };
    let progress = progress("{bar:40} {pos}/{len} pods decided, {eta} left");
    let outcome = flotilla_simulate::run::run(&cluster, &settings, &progress);
    progress.finish_and_clear();
    Ok((cluster, outcome.map_err(Failure::run)?, settings))
}

/// The cluster of the files, of a live cluster and of `--generate`.
fn read(args: &SimulateArgs, profiles: &[Profile], gates: &FeatureGates) -> Result<Cluster, Failure> {
    let inputs = Inputs::of(&args.files, &args.reading, &args.live)?;
    let manifests = Manifests::of(args.output == Format::Html && !args.no_questions);
    let Some(words) = &args.generate else { return cluster::read(inputs, None, profiles, gates, manifests) };
    let make = |gatherer: &mut Gatherer, problems: &mut Problems| {
        let place = InputPosition::nowhere();
        generate::services(words, |service| _ = gatherer.add_selecting(service, &place, problems));
        generate::replica_sets(words, |replica_set| {
            _ = gatherer.add_selecting(replica_set, &place, problems);
        });
        generate::devices::classes(words, |class| gatherer.add_device(class, &place, problems));
        generate::devices::templates(words, |template| gatherer.add_device(template, &place, problems));
        generate::devices::slices(words, |slice| gatherer.add_device(slice, &place, problems));
        generate::nodes(words, |node| gatherer.add_node(node, InputPosition::nowhere(), problems));
        generate::pods(words, |pod| gatherer.add_pod(pod, InputPosition::nowhere(), problems));
    };
    cluster::read(inputs, Some(&make), profiles, gates, manifests)
}
