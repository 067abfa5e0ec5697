//! `flotilla capacity`: counts how many more copies of a pod fit, and finds changes that admit more.

use std::{process::ExitCode, sync::Arc};

use flotilla_account::why::{self, Why};
use flotilla_cluster::{Cluster, Nothing};
use flotilla_configuration::Configuration;
use flotilla_framework::{class::PodInfo, extension::pod_fields, registry::Registry};
use flotilla_simulate::run::Settings;

use crate::{
    cluster::{self, Files, Manifests},
    input::Inputs,
    output::{Failure, STAYS_PENDING},
    progress::log,
};

mod args;
mod change;
mod count;
mod model;
mod output;

pub(crate) use args::CapacityArgs;

use count::{Count, count};
use model::Model;
use output::{Admitting, Answer};

pub(crate) fn command(args: &CapacityArgs, registry: Registry) -> ExitCode {
    crate::output::end(capacity(args, registry))
}

fn capacity(args: &CapacityArgs, registry: Registry) -> Result<ExitCode, Failure> {
    log(args.verbose);
    let gates = cluster::gates(&args.feature_gates)?;
    let (configuration, refusal) =
        cluster::configuration_without_calls(args.config.as_deref().into(), &gates, registry, "flotilla capacity")?;
    let (cluster, model) = read(args, &configuration, &gates)?;
    let cluster = cluster.showing(registry, &configuration.profiles);
    let model = model.showing(&pod_fields(registry, &configuration.profiles));
    if let Some(refusal) = cluster.pending.iter().chain([&model]).find_map(|pod| refusal(pod)) {
        return Err(refusal);
    }
    let Configuration { profiles, extenders, .. } = configuration;
    let settings = Settings {
        registry,
        profiles,
        extenders,
        workers: args.workers,
        tie_break_seed: 0,
        may_preempt: false,
        drained: Vec::new(),
    };
    let limit = args.limit as usize;
    let counted = count(&cluster, &model, limit, &settings).map_err(Failure::run)?;
    let why = match &counted.stopped {
        Some((pod, _)) => why::why(&counted.cluster, pod, &settings.profiles, registry),
        None => Why::default(),
    };
    let changes = match &counted.stopped {
        Some(_) => admitting(&cluster, &model, (&counted, &why), limit, &settings).map_err(Failure::run)?,
        None => Vec::new(),
    };
    let fits = counted.fits;
    let answer = Answer {
        pod: model.key().trim_end_matches("-copy").to_owned(),
        fits,
        is_limit: counted.stopped.is_none() && fits == limit,
        nodes: counted.nodes,
        message: counted.stopped.map(|(_, message)| message).unwrap_or_default(),
        refusals: why.refusals,
        changes,
    };
    crate::output::print(|out| answer.print(args.output, out))?;
    let fails = args.fail_below.is_some_and(|wanted| fits < wanted);
    Ok(if fails { ExitCode::from(STAYS_PENDING) } else { ExitCode::SUCCESS })
}

/// The cluster and the pod to count.
fn read(
    args: &CapacityArgs,
    configuration: &Configuration,
    gates: &flotilla_configuration::features::FeatureGates,
) -> Result<(Cluster, Arc<PodInfo>), Failure> {
    let profiles = &configuration.profiles;
    let (mut files, _) = Files::read(Inputs::of(&args.files, &args.live)?, &mut Nothing, profiles, gates)?;
    let mut model = Model::default();
    files.apply(std::slice::from_ref(&args.pod), &mut model, gates)?;
    let file = args.pod.display();
    if !model.is_found() {
        let text =
            format!("{file}: holds no pod; expected a Pod, or an object with a pod template, such as a Deployment");
        return Err(Failure::input(vec![text]));
    }
    let mut cluster = files.changed(&mut model, profiles, gates, Manifests::Dropped)?;
    let place = cluster.pending.iter().rposition(|pod| pod.key() == model.key);
    let pod = place.map(|place| cluster.pending.remove(place)).ok_or_else(|| {
        Failure::input(vec![format!(
            "{file}: no profile has the pod's spec.schedulerName; change it, or name another configuration with \
             --config"
        )])
    })?;
    Ok((cluster, pod))
}

/// The smallest change of each kind that admits more.
fn admitting(
    cluster: &Cluster,
    model: &Arc<PodInfo>,
    (counted, why): (&Count, &Why),
    limit: usize,
    settings: &Settings,
) -> anyhow::Result<Vec<Admitting>> {
    let mut found = Vec::new();
    for kind in change::candidates(why, cluster, model) {
        for change in kind {
            let (cluster, model) = change.make(cluster, model);
            let fits = count(&cluster, &model, limit.max(counted.fits + 1), settings)?.fits;
            if fits > counted.fits {
                found.push(Admitting { kind: change.kind(), change: change.words(), fits });
                break;
            }
        }
    }
    Ok(found)
}
