//! Starts and stops the process's parts.
//!
//! A process leads at most once. When it loses the lead it exits at once, without waiting for work in flight: this is the only way to be
//! sure that no work continues without the lead.

use std::{
    ffi::OsString,
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use flotilla_framework::{ingest::Features, registry::Registry};
use flotilla_machine::{event::Event, machine::Machine};
use flotilla_runtime::driver;
use flotilla_spans::Spans;
use flotilla_telemetry::log;
use serde_json::Value;
use tokio::{runtime::Handle, sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::{
    args::{Args, RecordFlags},
    certificates::Issuer,
    client::{self, Connection},
    coscheduling::Phases,
    discovery::Discovery,
    lease::{self, Handover, Leadership, LeaseError, Signals},
    record::Recorder,
    status::Reporter,
    takeover,
    watch::{Needs, Watches},
};

mod configuration;
mod endpoints;
mod hosted;
mod lead;
mod migrated;
mod parts;
mod reload;
mod runtimes;
mod settings;
mod signals;
mod transport;

use endpoints::{Review, Shown};
pub use hosted::Hosted;
use lead::Course;
pub use parts::Parts;
use parts::{Drive, Reach};
use reload::Reloader;
pub use reload::Reloads;
use runtimes::Runtimes;
use settings::{FIRST_GENERATION, Settings};
use signals::Terminations;

/// How long a process may stay marked as leader after its lead has ended, before its health check fails. As kube-scheduler.
const WATCHDOG_TOLERANCE: Duration = Duration::from_secs(20);
/// How long the machine may take for one event before the lease is no longer renewed. The longest is an evaluation without workers: a
/// microsecond for each of a million nodes.
const MACHINE_PATIENCE: Duration = Duration::from_secs(8);
const DRAIN_STEP: Duration = Duration::from_millis(10);
/// A lead without leader election: a hundred years.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Runs the process with its command line and these plugins until it ends.
#[must_use]
pub fn main(registry: Registry) -> ExitCode {
    main_from(std::env::args_os(), registry)
}

/// As [`main`], with a command line.
#[must_use]
pub fn main_from(line: impl IntoIterator<Item = OsString>, registry: Registry) -> ExitCode {
    let args = Args::read_from(line).unwrap_or_else(|error| error.exit());
    let identity = lease::identity();
    let settings = match Settings::load(&args, &identity, registry) {
        Ok(settings) => settings,
        Err(error) => {
            eprintln!("{}: {error:#}", args.program.name());
            return ExitCode::FAILURE;
        }
    };
    if let Some(path) = &args.write_config_to {
        settings
            .configuration
            .warnings
            .iter()
            .for_each(|warning| eprintln!("{}: warning: {warning}", args.program.name()));
        return settings::written(settings.write_to(path), path, args.program);
    }
    let ran = log::install(log::level(args.verbosity), args.logging_format)
        .context("cannot log")
        .and_then(|()| Runtimes::start()?.run(|elections| run(args, settings, &identity, registry, elections)));
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(error = format!("{error:#}"), "exiting");
            ExitCode::FAILURE
        }
    }
}

#[derive(Clone)]
struct Coordinator {
    parts: Parts,
    course: Course,
    /// Allows the watches to begin.
    begin: CancellationToken,
    watches: Watches,
    discovery: Discovery,
    /// Issues certificates while this process leads, unless they come from files.
    issuer: Option<Issuer>,
    /// Called at once when the lead is lost.
    lost: fn(),
    /// Allows this process to stand for election.
    stand: CancellationToken,
    shutdown: CancellationToken,
    drained: CancellationToken,
    handover: Arc<Handover>,
    /// The controller of a coordinated election has chosen another leader.
    end_of_term: CancellationToken,
    /// Whether the API server has this process's LeaseCandidate, if the election is coordinated.
    is_candidate: Arc<AtomicBool>,
    stop: CancellationToken,
}

struct Outside {
    client: kube::Client,
    events: kube::Client,
    workers: Reach,
    discovery: Discovery,
    issuer: Option<Issuer>,
    spans: Spans,
    drive: Drive,
    /// Called at once when the lead is lost.
    lost: fn(),
    stop: CancellationToken,
}

struct Beginning {
    coordinator: Coordinator,
    first: Vec<takeover::Action>,
    lead: watch::Sender<Leadership>,
}

struct Own<'a> {
    identity: &'a str,
    registry: Registry,
    machine: &'a flotilla_machine::event::Configuration,
    features: Features,
    idle: Machine,
    is_elected: bool,
    is_coordinated: bool,
    lazily: bool,
    /// The configuration as `/configz` shows it.
    shown: Value,
}

async fn run(
    args: Args,
    settings: Settings,
    identity: &str,
    registry: Registry,
    elections: Handle,
) -> anyhow::Result<()> {
    let signals = Terminations::listen().context("cannot listen for signals")?;
    let Settings { connection, election, machine, configuration, text, serve } = settings;
    info!(version = env!("CARGO_PKG_VERSION"), identity, "{}", args.program.name());
    configuration.warnings.iter().for_each(|warning| warn!("{warning}"));
    let profiles: Vec<_> = machine.profiles.iter().map(|profile| &*profile.scheduler_name).collect();
    info!(generation = machine.generation, ?profiles, "configuration");

    let outside = outside(&args, &connection, identity, registry).await?;
    let spans = outside.spans.clone();
    let idle = Machine::new(0, registry).keeping_decisions(args.decisions_kept);
    let idle = args.tracing.sampling().into_iter().fold(idle, Machine::traced_by);
    let own = Own {
        identity,
        registry,
        machine: &machine,
        features: args.gates.features(),
        idle,
        is_elected: election.is_some(),
        is_coordinated: election.as_ref().is_some_and(|election| election.coordinated),
        lazily: configuration.delay_cache_until_active,
        shown: configuration::shown(&configuration, FIRST_GENERATION),
    };
    let Beginning { coordinator, first, lead } = Beginning::of(outside, own);
    coordinator.parts.handle.send_event(Event::Configured(Arc::new(machine))).await?;
    let lease = election.as_ref().map(|election| election.name.as_str().into());
    let expects_workers = args.expects_workers();
    let shown = Shown { identity: identity.into(), lease, gates: args.gates.clone(), expects_workers };
    let review = Review { flags: &args.access, connection: &connection };
    coordinator.serve(&serve, shown, review).await?;
    if let (Some(path), Some(text)) = (args.config.clone(), text) {
        let (generation, parts, watches) = (FIRST_GENERATION, coordinator.parts.clone(), coordinator.watches.clone());
        coordinator.follow(Reloader { args, path, registry, configuration, text, generation, parts, watches });
    }
    let election = match election {
        Some(election) => {
            let connection = Connection { purpose: Some("leader-election"), qps: None, burst: None, ..connection };
            // The client spawns tasks too.
            let client = elections.spawn(async move { client::connect(&connection).await }).await??;
            coordinator.stand(&elections, election, client, lead)
        }
        None => coordinator.lead_alone(lead),
    };
    let ended = coordinator.until_the_end(first, election, signals).await;
    // Export the last spans after any end.
    tokio::task::spawn_blocking(move || spans.flush()).await?;
    ended
}

fn drive(args: &Args, registry: Registry) -> anyhow::Result<Drive> {
    let RecordFlags { folder, max_bytes } = &args.record;
    let recorder = folder.as_deref().map(|folder| Recorder::start(folder, *max_bytes, registry)).transpose()?;
    Ok(Box::new(|machine, stage| match recorder {
        Some(recorder) => driver::spawn_recording(machine, stage, recorder).0,
        None => driver::spawn(machine, stage).0,
    }))
}

async fn outside(args: &Args, connection: &Connection, identity: &str, registry: Registry) -> anyhow::Result<Outside> {
    let client = client::connect(connection).await?;
    let events = client::connect(&Connection { purpose: Some("events"), ..connection.clone() }).await?;
    let spans = flotilla_telemetry::start(&args.tracing, "flotilla-coordinator", identity)?;
    let stop = CancellationToken::new();
    let (workers, issuer) = transport::reach(args, &client, &stop);
    Ok(Outside {
        discovery: discovery_of(args, &client),
        client,
        events,
        workers,
        issuer,
        spans,
        drive: drive(args, registry)?,
        lost: || std::process::exit(1),
        stop,
    })
}

impl Beginning {
    fn of(outside: Outside, own: Own<'_>) -> Self {
        let Outside { client, events, workers, discovery, issuer, spans, drive, lost, stop } = outside;
        let Own { identity, registry, machine, features, idle, is_elected, is_coordinated, lazily, shown } = own;
        let (lead, leading) = watch::channel(Leadership::UNKNOWN);
        let host = identity.rsplit_once('_').map_or(identity, |(host, _)| host);
        let reporter = Reporter::new(&client, &events, host, &leading);
        let for_phases = (client.clone(), leading.clone());
        let parts = Parts::start(client, leading, reporter, workers, (idle, drive), spans, shown);
        let Parts { client, handle, reporter, .. } = parts.clone();
        let needs = Needs { registry, profiles: &machine.profiles, with_groups: machine.generic_workload, features };
        let begin = CancellationToken::new();
        let watches = Watches::start(client, handle, reporter, needs, begin.clone(), stop.clone());
        let (client, leading) = for_phases;
        Phases::start(client, leading, watches.reads_coscheduling(), stop.clone());
        let (course, first) = Course::new(is_elected, lazily);
        let coordinator = Coordinator {
            parts,
            course,
            begin,
            watches,
            discovery,
            issuer,
            lost,
            stand: CancellationToken::new(),
            shutdown: CancellationToken::new(),
            drained: CancellationToken::new(),
            handover: Arc::default(),
            end_of_term: CancellationToken::new(),
            is_candidate: Arc::new(AtomicBool::new(!is_coordinated)),
            stop,
        };
        Self { coordinator, first, lead }
    }
}

fn discovery_of(args: &Args, client: &kube::Client) -> Discovery {
    if !args.expects_workers() {
        return Discovery::Disabled;
    }
    if !args.workers.is_empty() {
        return Discovery::Static(args.workers.iter().cloned().collect());
    }
    let namespace = args.worker_namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    Discovery::Service { namespace, name: args.worker_service.clone(), port: args.worker_port_name.clone() }
}

type Election = JoinHandle<Result<(), LeaseError>>;

impl Coordinator {
    fn follow(&self, reloader: Reloader) {
        tokio::spawn(self.stop.clone().run_until_cancelled_owned(reloader.run()));
    }

    /// Joins the election once allowed, with a separate client and thread, so that no burst of other requests delays a renewal.
    fn stand(
        &self,
        elections: &Handle,
        config: lease::LeaseConfig,
        client: kube::Client,
        leading: watch::Sender<Leadership>,
    ) -> Election {
        let handle = self.parts.handle.clone();
        let signals = Signals {
            leading,
            shutdown: self.shutdown.clone(),
            drained: self.drained.clone(),
            handover: Arc::clone(&self.handover),
            progress: Some(Arc::new(move || handle.progress(MACHINE_PATIENCE))),
            candidacy: Some(self.course.may_stand()),
            end_of_term: self.end_of_term.clone(),
            is_candidate: Arc::clone(&self.is_candidate),
        };
        let (stand, shutdown) = (self.stand.clone(), self.shutdown.clone());
        elections.spawn(async move {
            match shutdown.run_until_cancelled(stand.cancelled()).await {
                Some(()) => lease::run(config, client, signals).await,
                None => Ok(()),
            }
        })
    }

    /// Leads without an election. The epoch is the time, so that it is higher than that of the previous run.
    fn lead_alone(&self, leading: watch::Sender<Leadership>) -> Election {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let epoch = lease::epoch_at_second(seconds);
        leading.send_replace(Leadership::Leading { epoch, valid_until: lease::now() + FOREVER });
        let drained = self.drained.clone();
        tokio::spawn(async move {
            drained.cancelled().await;
            drop(leading);
            Ok(())
        })
    }
}

/// The epoch of a lead. The first holder of a new Lease has made no transition; 0 means no leader.
fn epoch(lead: &Leadership) -> u64 {
    match lead {
        Leadership::Leading { epoch, .. } => epoch.saturating_add(1),
        Leadership::Following { .. } => 0,
    }
}

/// Handles the end of the election. Without its lead the process exits here with all work in flight, by `lost`.
fn end_of(ended: Result<Result<(), LeaseError>, tokio::task::JoinError>, lost: fn()) -> anyhow::Result<()> {
    match ended {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error @ LeaseError::Lost { .. })) => {
            error!(reason = %error, "leader election lost");
            lost();
            Err(error.into())
        }
        Ok(Err(other)) => Err(other.into()),
        Err(error) => {
            error!(%error, "the election ended unexpectedly; exiting");
            lost();
            Err(error.into())
        }
    }
}
