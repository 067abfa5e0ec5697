//! `flotilla capacity`: counts how many more copies of a pod fit, and finds changes that admit more.

use std::process::ExitCode;

use flotilla_account::why::{self, Why};
use flotilla_cluster::{Cluster, Nothing};
use flotilla_configuration::Configuration;
use flotilla_framework::{extension::pod_fields, registry::Registry};
use flotilla_simulate::run::Settings;

use crate::{
    cluster::{self, Files, Manifests},
    input::Inputs,
    output::{Failure, STAYS_PENDING, print_notes},
    progress::log,
};

mod args;
mod candidates;
mod change;
mod count;
mod counted;
mod model;
mod output;

pub(crate) use args::CapacityArgs;

use candidates::Candidates;
use count::{Count, count};
use counted::Counted;
use model::Models;
use output::{Admitting, Answer};

pub(crate) fn command(args: &CapacityArgs, registry: Registry) -> ExitCode {
    crate::output::end(capacity(args, registry))
}

fn capacity(args: &CapacityArgs, registry: Registry) -> Result<ExitCode, Failure> {
    log(args.verbose);
    let candidates = Candidates::new(args).map_err(Failure::input)?;
    let gates = cluster::gates(&args.feature_gates)?;
    let (configuration, refusal) =
        cluster::configuration_without_calls(args.config.as_deref().into(), &gates, registry, "flotilla capacity")?;
    let Read { models, refused } = read(args, &configuration, &gates)?;
    let fields = pod_fields(registry, &configuration.profiles);
    let showing = |(cluster, model): (Cluster, Counted)| {
        (cluster.showing(registry, &configuration.profiles), model.showing(&fields))
    };
    let mut models: Vec<(Cluster, Counted)> = models.into_iter().map(showing).collect();
    let pods = models.iter().flat_map(|(cluster, model)| cluster.pending.iter().chain([&model.pod]));
    if let Some(refusal) = pods.into_iter().find_map(|pod| refusal(pod)) {
        return Err(refusal);
    }
    if let Some((cluster, _)) = models.first() {
        print_notes(&candidates.notes(cluster));
    }
    let Configuration { profiles, extenders, .. } = configuration;
    let settings = Settings {
        registry,
        profiles,
        extenders,
        workers: args.workers,
        tie_break_seed: 0,
        once: false,
        may_preempt: false,
        drained: Vec::new(),
    };
    let mut answers = Vec::new();
    for (cluster, model) in &mut models {
        let restricted = candidates.restrict(cluster, model);
        let answer = answer(cluster, model, args.limit as usize, &settings).map_err(Failure::run)?;
        answers.push(Answer { candidates: restricted, ..answer });
    }
    for (place, answer) in refused {
        answers.insert(place.min(answers.len()), answer);
    }
    crate::output::print(|out| output::print(&answers, args.output, out))?;
    let fails = args.fail_below.is_some_and(|wanted| answers.iter().any(|answer| answer.fits < wanted));
    Ok(if fails { ExitCode::from(STAYS_PENDING) } else { ExitCode::SUCCESS })
}

/// Counts one object as if it were the only one.
fn answer(cluster: &Cluster, model: &Counted, limit: usize, settings: &Settings) -> anyhow::Result<Answer> {
    // The pod itself is charged to the quotas already.
    let quota = cluster.made.copies.get(&model.pod.key()).map(|(more, message)| (more + 1, message.clone()));
    let quota = quota.filter(|(most, _)| *most <= limit);
    let limit = quota.as_ref().map_or(limit, |(most, _)| *most);
    let counted = count(cluster, model, limit, settings)?;
    let why = match &counted.stopped {
        Some((pod, _)) => why::why(&counted.cluster, pod, &settings.profiles, settings.registry),
        None => Why::default(),
    };
    let changes = match &counted.stopped {
        Some(_) => admitting(cluster, model, (&counted, &why), limit, settings)?,
        None => Vec::new(),
    };
    let quota = quota.filter(|(most, _)| counted.fits == *most).map(|(_, message)| message);
    let is_refused = quota.is_some();
    let mut refusals = why.refusals;
    refusals.iter_mut().for_each(|refusal| refusal.lacks = candidates::words(&refusal.lacks));
    Ok(Answer {
        pod: model.title.clone(),
        fits: counted.fits,
        is_limit: counted.stopped.is_none() && counted.fits == limit && !is_refused,
        nodes: counted.nodes,
        candidates: None,
        message: quota.or_else(|| counted.stopped.map(|(_, message)| message)).unwrap_or_default(),
        is_refused,
        refusals,
        changes,
    })
}

struct Read {
    /// The pods to count, each with its cluster.
    models: Vec<(Cluster, Counted)>,
    /// The answers for pods that the API server refuses, each with its place among all answers.
    refused: Vec<(usize, Answer)>,
}

fn read(
    args: &CapacityArgs,
    configuration: &Configuration,
    gates: &flotilla_configuration::features::FeatureGates,
) -> Result<Read, Failure> {
    let profiles = &configuration.profiles;
    let inputs = Inputs::of(&args.files, &args.reading, &args.live)?;
    let (mut files, known) = Files::read(inputs, &mut Nothing, profiles, gates)?;
    let mut models = Models::default();
    files.apply(&args.pods, &mut models, profiles, gates)?;
    let names = crate::input::names(&args.pods);
    if models.found.is_empty() {
        let text =
            format!("{names}: holds no pod; expected a Pod, or an object with a pod template, such as a Deployment");
        return Err(Failure::input(vec![text]));
    }
    models.read(known.references.storage_class.map(|(_, name)| name));
    let (mut counted, mut refused, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for place in 0..models.found.len() {
        models.current = place;
        let mut cluster = files.changed(&mut models, profiles, gates, Manifests::Dropped)?;
        let Some(model) = models.found.get(place) else { continue };
        let title = models.title(model);
        if let Some(refusal) = cluster.made.refused.iter().find(|refused| refused.of == model.key) {
            let message = refusal.reason.clone();
            refused.push((place, Answer { pod: title, message, is_refused: true, ..Answer::default() }));
            continue;
        }
        match Counted::take(&mut cluster, &model.key, title.clone(), |name| model.has_claim(name)) {
            Some(one) => counted.push((cluster, one)),
            None => errors.push(format!(
                "{names}: {title}: no profile has the pod's spec.schedulerName; change it, or name another configuration \
                 with --config"
            )),
        }
    }
    if errors.is_empty() { Ok(Read { models: counted, refused }) } else { Err(Failure::input(errors)) }
}

/// The smallest change of each kind that admits more.
fn admitting(
    cluster: &Cluster,
    model: &Counted,
    (counted, why): (&Count, &Why),
    limit: usize,
    settings: &Settings,
) -> anyhow::Result<Vec<Admitting>> {
    let mut found = Vec::new();
    for kind in change::candidates(why, cluster, &model.pod) {
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
