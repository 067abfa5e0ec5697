//! `flotilla shadow`: compares another scheduler's decisions with Flotilla's.

use std::{process::ExitCode, time::Duration};

use anyhow::Context as _;
use flotilla_coordinator::shadow::Shadow;
use flotilla_framework::{ingest::Features, registry::Registry};
use flotilla_machine::event;
use tokio::signal::unix::{SignalKind, signal};

mod args;
mod metrics;

pub(crate) use args::ShadowArgs;

use metrics::Metrics;

use crate::{
    cluster,
    comparison::{DecisionSource, Report},
    live::Connection,
    output::{Failure, end, print, print_notes},
    progress::{log, progress},
};

/// The timeout of the first lists of a large cluster: 150,000 pods at 1,000 a second are 150 s.
const LISTED: Duration = Duration::from_secs(300);

pub(crate) fn command(args: &ShadowArgs, registry: Registry) -> ExitCode {
    end(shadow(args, registry).map(|()| ExitCode::SUCCESS))
}

fn shadow(args: &ShadowArgs, registry: Registry) -> Result<(), Failure> {
    log(args.verbose);
    let configuration = configuration(args, registry)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start the async runtime").map_err(Failure::run)?;
    let report = runtime.block_on(follow(args, registry, configuration)).map_err(Failure::run)?;
    print(|out| report.print(args.output, out))
}

/// The configuration to evaluate with.
fn configuration(args: &ShadowArgs, registry: Registry) -> Result<(event::Configuration, Features), Failure> {
    let gates = cluster::gates(&args.feature_gates)?;
    let read = cluster::configuration(args.config.as_deref(), &gates, registry)?;
    if !read.extenders.is_empty() {
        let why = "flotilla shadow calls no extenders, because their answers may change; leave `extenders` out of \
        --config";
        return Err(Failure::input(vec![why.to_owned()]));
    }
    let mut profiles = read.profiles;
    if let Some(name) = &args.as_scheduler {
        let [profile] = &mut profiles[..] else {
            let count = profiles.len();
            let why = format!("--as-scheduler {name} renames the only profile, and --config has {count}; leave one");
            return Err(Failure::input(vec![why]));
        };
        profile.scheduler_name = name.as_str().into();
    }
    let generic_workload = gates.enabled("GenericWorkload");
    let configuration = event::Configuration { generic_workload, ..event::Configuration::new(1, profiles) };
    Ok((configuration, gates.features()))
}

/// Follows the other scheduler for the requested period.
async fn follow(
    args: &ShadowArgs,
    registry: Registry,
    (configuration, features): (event::Configuration, Features),
) -> anyhow::Result<Report> {
    let connection = Connection::open(&args.server).await?;
    let client = connection.watching("shadow").await?;
    let schedulers: Vec<_> = configuration.profiles.iter().map(|profile| profile.scheduler_name.to_string()).collect();
    let mut shadow = Shadow::start(client, registry, configuration, features).await?;
    if tokio::time::timeout(LISTED, shadow.wait_synced()).await.is_err() {
        let missing = shadow.unlisted().join(", ");
        anyhow::bail!(
            "{} has not listed {missing} within {LISTED:?}; flotilla shadow -v shows why, and docs/tasks/shadow.md lists \
             the required rights",
            connection.place
        );
    }
    let until = args.period.map_or_else(|| "until Ctrl-C".to_owned(), |period| format!("for {period:?}"));
    print_notes(&[format!("Following {} on {} {until}", schedulers.join(", "), connection.place)]);
    let metrics = Metrics::new()?;
    if let Some(address) = &args.metrics_listen {
        metrics.clone().serve(address).await?;
    }
    let mut report = Report::new(DecisionSource::Scheduler, schedulers);
    let bar = progress("{elapsed_precise}  {msg}");
    let ended = {
        let mut over = std::pin::pin!(over(args.period));
        loop {
            tokio::select! {
                biased;
                () = &mut over => break None,
                compared = shadow.next() => match compared {
                    Ok(compared) => metrics.add(&report.add(&compared), shadow.missed()),
                    Err(reason) => break Some(reason),
                },
            }
            bar.set_message(report.headline());
        }
    };
    bar.finish_and_clear();
    report.missed = shadow.missed();
    match ended {
        Some(reason) if report.compared == 0 => anyhow::bail!("{reason}"),
        reason => print_notes(&reason.into_iter().collect::<Vec<_>>()),
    }
    Ok(report)
}

/// Returns after the period, or on a signal.
async fn over(period: Option<Duration>) {
    let passed = async {
        match period {
            Some(period) => tokio::time::sleep(period).await,
            None => std::future::pending().await,
        }
    };
    // The kubelet stops a pod with SIGTERM.
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut terminations) => _ = terminations.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = passed => {}
        () = terminated => {}
        ended = tokio::signal::ctrl_c() => if ended.is_err() { std::future::pending().await },
    }
}
