//! `flotilla explain`: evaluates every pending pod on every node, with each plugin's result.

use std::{
    io::{self, BufWriter, Write},
    path::Path,
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context as _;
use flotilla_account::{
    account::{self, Account, Details},
    answer::Answer,
    preemption,
    world::World,
};
use flotilla_cluster::{NotStarting, Texts, not_starting};
use flotilla_configuration::Configuration;
use flotilla_framework::{class::PodInfo, profile::Profile, registry::Registry};
use tokio::runtime::Runtime;

use crate::{
    cluster::{self, Manifests},
    input::Inputs,
    output::Failure,
    page,
    progress::{log, progress},
};

mod args;
mod cases;
mod explain_all;
mod extenders;
#[cfg(feature = "cluster")]
mod live;
mod selection;
mod table;
mod target;
mod workers;

pub(crate) use args::ExplainArgs;
pub(crate) use explain_all::explain_all;

use args::Format;
use explain_all::Pages;
use extenders::Asking;
use workers::{AttachedWorkers, Workers};

struct Wanted<'a> {
    format: Format,
    /// Only the parts that kube-scheduler reports.
    is_compared: bool,
    /// The extenders, and the JSON of objects for them.
    asking: Option<(&'a Asking, &'a Texts)>,
}

pub(crate) fn command(args: &ExplainArgs, registry: Registry) -> ExitCode {
    crate::output::end(explain(args, registry).map(|()| ExitCode::SUCCESS))
}

fn explain(args: &ExplainArgs, registry: Registry) -> Result<(), Failure> {
    log(args.verbose);
    #[cfg(not(feature = "cluster"))]
    if !args.target.is_empty() {
        let pod = target::pod_name(&args.target).map_err(|error| Failure::input(vec![error]))?;
        return Err(Failure::input(vec![crate::absent::message(&format!("flotilla explain pod {pod}"))]));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start the async runtime").map_err(Failure::run)?;
    let workers = runtime.block_on(Workers::start(args.workers, registry)).map_err(Failure::run)?;
    let mut out = BufWriter::new(io::stdout().lock());
    match &args.cases {
        Some(folder) => explain_cases(folder, args, &runtime, &workers, &mut out),
        #[cfg(feature = "cluster")]
        None if !args.target.is_empty() => live::explain(args, &runtime, &workers, &mut out),
        None => explain_cluster(args, &runtime, &workers, &mut out),
    }
}

fn explain_cases(
    folder: &Path,
    args: &ExplainArgs,
    runtime: &Runtime,
    workers: &Workers,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    for case in cases::find(folder).map_err(|error| Failure::input(vec![error]))? {
        let mut answers = Vec::new();
        let (files, config) = (vec![case.cluster.clone()], case.configuration.clone());
        let args = ExplainArgs { files, config, output: Format::Json, ..args.clone() };
        let outcome = explain_cluster(&args, runtime, workers, &mut answers);
        let outcome = outcome.map(|()| answers).map_err(|failure| failure.to_string());
        crate::output::print_to(out, |out| cases::print(&case, outcome, out))?;
    }
    Ok(())
}

fn explain_cluster(
    args: &ExplainArgs,
    runtime: &Runtime,
    workers: &Workers,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let gates = cluster::gates(&args.feature_gates)?;
    let Configuration { profiles, extenders, .. } =
        cluster::configuration(args.config.as_deref(), &gates, workers.registry())?;
    let asking = Asking::new(&extenders).map_err(|error| Failure::input(vec![format!("{error:#}")]))?;
    let cluster = match &asking {
        Some(_) => cluster::read_with_texts(Inputs::files(&args.files, &args.reading), &profiles, &gates)?,
        None => {
            let manifests = Manifests::of(args.output == Format::Html && !args.no_questions);
            cluster::read(Inputs::files(&args.files, &args.reading), None, &profiles, &gates, manifests)?
        }
    };
    let mut cluster = cluster.showing(workers.registry(), &profiles);
    // kube-scheduler's recorded answers know only the statuses of the input.
    if args.cases.is_none() {
        cluster.budgets = flotilla_model::current_budgets(&cluster);
    }
    let pods = selection::select(&cluster, &args.pods, &profiles).map_err(Failure::input)?;
    check_profiles(&pods, &profiles)?;
    let starts = not_starting(&cluster, |_| false);
    let mut world = World::new(workers.registry(), &cluster, &profiles);
    let mut attached = runtime.block_on(hire(workers, &world, &profiles)).map_err(Failure::run)?;
    let progress = progress("{bar:40} {pos}/{len} pods explained, {eta} left");
    progress.set_length(pods.len() as u64);
    let (mut failure, mut pages) = (None, Pages::default());
    let printed = crate::output::print_to(out, |out| {
        for pod in pods {
            let asking = asking.as_ref().map(|asking| (asking, &cluster.texts));
            // `--cases` compares with kube-scheduler, which reports only reasons.
            let wanted = Wanted { format: args.output, is_compared: args.cases.is_some(), asking };
            let account = match runtime.block_on(account(pod, &mut world, &mut attached, &profiles, wanted)) {
                Ok(account) => account,
                Err(error) => {
                    failure = Some(Failure::run(error));
                    break;
                }
            };
            match args.output {
                Format::Html => pages.add(&account, &world)?,
                format => progress.suspend(|| print(format, &account, &starts, &world, out))?,
            }
            progress.inc(1);
        }
        Ok(())
    });
    progress.finish_and_clear();
    failure.map_or(printed, Err)?;
    if args.output != Format::Html {
        return Ok(());
    }
    let subject = crate::input::names(&args.files);
    crate::output::print_to(out, |out| {
        let kept = match args.no_questions {
            true => None,
            false => page::kept(&cluster, &profiles, workers.registry(), &extenders)?,
        };
        pages.print(&cluster, subject, kept, out)
    })
}

/// Placed pods of other schedulers have no profile; pending ones were dropped earlier.
fn check_profiles(pods: &[&Arc<PodInfo>], profiles: &[Profile]) -> Result<(), Failure> {
    let has_none = |pod: &&&Arc<PodInfo>| !profiles.iter().any(|one| one.scheduler_name == pod.scheduler_name);
    let names: Vec<&str> = profiles.iter().map(|profile| &*profile.scheduler_name).collect();
    let line = |pod: &&Arc<PodInfo>| {
        let (key, scheduler) = (pod.key(), &pod.scheduler_name);
        let names = names.join(", ");
        format!("--pod {key}: its spec.schedulerName is {scheduler:?}, and profiles are {names}; name another --config")
    };
    let errors: Vec<String> = pods.iter().filter(has_none).map(line).collect();
    if errors.is_empty() { Ok(()) } else { Err(Failure::input(errors)) }
}

/// Starts sessions with workers that hold the cluster.
async fn hire(workers: &Workers, world: &World, profiles: &[Profile]) -> anyhow::Result<AttachedWorkers> {
    let mut attached = AttachedWorkers::attach(workers).await?;
    attached.lay_out(world, profiles).await?;
    Ok(attached)
}

async fn account(
    pod: &Arc<PodInfo>,
    world: &mut World,
    attached: &mut AttachedWorkers,
    profiles: &[Profile],
    Wanted { format, is_compared, asking }: Wanted<'_>,
) -> anyhow::Result<Account> {
    let profile = profiles.iter().find(|profile| profile.scheduler_name == pod.scheduler_name);
    // Pods of other schedulers were dropped earlier.
    let profile = profile.with_context(|| format!("pod {:?} has no profile", pod.key()))?;
    if let Some(held) = account::held_back(pod, profile, world) {
        return Ok(held);
    }
    // A pod on a node is evaluated as if it were pending, unless its resize is deferred. The workers still have it on its node.
    let lifted = world.lift(pod);
    let subject = world.subject(&pod.class);
    let pages = match subject.facts.devices {
        None if lifted.is_none() => attached.ask(&profile.scheduler_name, &subject).await?,
        _ => Vec::new(),
    };
    let details = match format {
        Format::Table | Format::Wide | Format::Html => Details::Ways,
        Format::Json | Format::Yaml if is_compared => Details::Outcomes,
        Format::Json | Format::Yaml => Details::Shortfalls,
    };
    let mut account = account::make(pod, profile, &subject, &pages, world, details);
    if let Some((asking, texts)) = asking {
        let names = account.feasible(world);
        let answer = asking.ask(pod, names, texts).await;
        account.extend(answer, profile, &subject, &pages, world);
    }
    account.preempted = preemption::make(pod, profile, &subject, &account.explanation, world);
    if let Some(lifted) = lifted {
        world.put_back(pod, lifted);
    }
    Ok(account)
}

fn print(
    format: Format,
    account: &Account,
    starts: &[NotStarting],
    world: &World,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Table => table::print(account, starts, world, false, out),
        Format::Wide => table::print(account, starts, world, true, out),
        Format::Json => {
            serde_json::to_writer(&mut *out, &Answer::new(account, world))?;
            writeln!(out)
        }
        Format::Yaml => {
            let text = serde_yaml::to_string(&Answer::new(account, world)).map_err(io::Error::other)?;
            write!(out, "---\n{text}")
        }
        // The page is written once, after all accounts.
        Format::Html => Ok(()),
    }
}
