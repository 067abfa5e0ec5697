//! Puts the parts together, and decides when the process leads, follows and ends.
//!
//! Knows: every part and the order in which they start and stop. Must not know: how any of them works.
//!
//! A process leads at most once. When its lead is lost it ends at once, whatever is under way: that is the only way to
//! be sure that nothing goes on as if nothing had happened.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    process::ExitCode,
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, anyhow};
use flotilla_framework::{profile::Profile, registry::Registry, trace::Sampling};
use flotilla_machine::{action::Action, event::Event, machine::Machine};
use flotilla_runtime::{
    driver::{self, Handle, Lap, Moment, Performer, Stopped},
    extender::Callers,
    fanout::{Fanout, Transport},
};
use flotilla_spans::Spans;
use flotilla_telemetry::log;
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, field::display, info, warn};

use crate::{
    args::Args,
    attempts::Recorder,
    bind::Binder,
    certificates::Issuer,
    client::{self, Connection},
    discovery::{self, Discovery},
    extender::Extenders,
    lease::{self, Leadership, LeaseError, Signals},
    metrics::{Known, Scheduled},
    preempt::Evictor,
    status::Reporter,
    volumes::VolumeBinder,
    watch::Watches,
};

mod configuration;
mod endpoints;
mod reload;
mod settings;
mod signals;
mod transport;

use endpoints::{Review, Shown};
use reload::Reloader;
pub use reload::Reloads;
use settings::{FIRST_GENERATION, Settings};
use signals::Terminations;

/// How long after its end a lead may look as if it went on before the process counts as ill. As kube-scheduler.
const WATCHDOG_TOLERANCE: Duration = Duration::from_secs(20);
/// How long the machine may be at one event before the lease is not renewed any more. The longest is an evaluation
/// without workers: a microsecond for each of a million nodes.
const MACHINE_PATIENCE: Duration = Duration::from_secs(8);
/// How long the end of the process waits for what is under way. The longest bind takes 5 s.
const DRAIN: Duration = Duration::from_secs(5);
/// Between two looks at what is under way.
const DRAIN_STEP: Duration = Duration::from_millis(10);
/// A lead that nobody can take away lasts for as long as anybody will care: a hundred years.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Runs the process from the command line to its end, with these plugins.
#[must_use]
pub fn main(registry: Registry) -> ExitCode {
    main_from(std::env::args_os(), registry)
}

/// As [`main`], with a command line whose first word is the program.
#[must_use]
pub fn main_from(line: impl IntoIterator<Item = OsString>, registry: Registry) -> ExitCode {
    let args = Args::read_from(line).unwrap_or_else(|error| error.exit());
    let identity = lease::identity();
    let settings = match Settings::load(&args, &identity) {
        Ok(settings) => settings,
        Err(error) => {
            eprintln!("flotilla-coordinator: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(path) = &args.write_config_to {
        return settings::written(settings.write_to(path), path);
    }
    let ran = log::install(log::level(args.verbosity), args.logging_format).context("cannot log").and_then(|()| {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.context("cannot start the async runtime")?;
        let ran = runtime.block_on(run(args, settings, &identity, registry));
        // What is under way now has had its time.
        runtime.shutdown_background();
        ran
    });
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(error = format!("{error:#}"), "ending");
            ExitCode::FAILURE
        }
    }
}

/// What the machine's actions are performed by.
struct Performers {
    fanout: Fanout,
    binder: Binder,
    extenders: Extenders,
    volume_binder: VolumeBinder,
    evictor: Evictor,
    reporter: Reporter,
    scheduled: Scheduled,
    recorder: Recorder,
    configz: watch::Sender<Value>,
}

impl Performers {
    /// Performs an action. Called on the machine's thread, so that it must not block.
    fn perform(&self, action: Action, moment: Moment) {
        match action {
            Action::Send { .. } | Action::DropWorker { .. } => self.fanout.perform(action),
            Action::Bind(binding) => self.binder.bind(binding),
            Action::Extend(extension) => self.extenders.extend(extension),
            Action::ExtendPreemption(proposal) => self.extenders.extend_preemption(proposal),
            Action::BindVolumes(binding) => self.volume_binder.bind(binding),
            Action::Preempt(preemption) => self.evictor.preempt(preemption),
            // Only a nomination changes.
            Action::Report(report) if !report.write_event => self.reporter.report(report),
            Action::Report(report) => {
                let trace_id = report.trace.map(|context| display(context.trace_id()));
                let pod = format_args!("{}/{}", report.namespace, report.name);
                debug!(%pod, reason = report.message, trace_id, "not placed");
                if let Some(began_ms) = report.began_ms {
                    self.scheduled.refuse(&report, moment.since(began_ms));
                }
                self.reporter.report(report);
            }
            Action::ReportGroup(report) => {
                debug!(group = %format_args!("{}/{}", report.namespace, report.name), report.status, report.message, "tried");
                self.reporter.groups().write(report);
            }
            Action::Acknowledged { generation, workers } => {
                info!(generation, workers, "the workers work by the configuration");
                self.configz.send_modify(|shown| {
                    shown["flotilla"]["generation"] = json!(generation);
                    shown["flotilla"]["acknowledgedBy"] = json!(workers);
                });
            }
            Action::Alone(true) => warn!("no worker is reachable: evaluating in the coordinator"),
            Action::Trace(trace) => self.recorder.record(*trace, moment),
            Action::Alone(false) => info!("workers are reachable again: evaluating on them"),
        }
    }
}

/// The machine's thread as the performers see it. Nothing is told before they are there, so that no action is lost.
struct Stage {
    performers: Arc<OnceLock<Performers>>,
    known: Known,
}

impl Performer for Stage {
    fn perform(&mut self, action: Action, moment: Moment) {
        if let Some(performers) = self.performers.get() {
            performers.perform(action, moment);
        }
    }

    fn observe(&mut self, lap: &Lap<'_>) {
        if let Some(performers) = self.performers.get() {
            performers.scheduled.event(lap, &mut self.known);
        }
    }
}

/// The running process.
struct Coordinator {
    client: kube::Client,
    handle: Handle,
    fanout: Fanout,
    binder: Binder,
    callers: Callers,
    volume_binder: VolumeBinder,
    evictor: Evictor,
    reporter: Reporter,
    /// The watches may begin.
    begin: CancellationToken,
    watches: Watches,
    discovery: Discovery,
    /// Who issues certificates while this process leads, if they are of our own.
    issuer: Option<Issuer>,
    /// Whether another process may have led until now.
    elected: bool,
    leading: watch::Receiver<Leadership>,
    /// The process is to end.
    shutdown: CancellationToken,
    /// Nothing is under way any more.
    drained: CancellationToken,
    /// Ends what serves and watches.
    stop: CancellationToken,
}

async fn run(args: Args, settings: Settings, identity: &str, registry: Registry) -> anyhow::Result<()> {
    let signals = Terminations::listen().context("cannot listen for signals")?;
    let Settings { connection, election, machine, configuration, text, serve } = settings;
    info!(version = env!("CARGO_PKG_VERSION"), identity, "flotilla-coordinator");
    configuration.warnings.iter().for_each(|warning| warn!("{warning}"));
    let profiles: Vec<_> = machine.profiles.iter().map(|profile| &*profile.scheduler_name).collect();
    info!(generation = machine.generation, ?profiles, "configuration");

    let client = client::connect(&connection).await?;
    let events = client::connect(&Connection { purpose: Some("events"), ..connection.clone() }).await?;
    let (lead, leading) = watch::channel(Leadership::UNKNOWN);
    let mut shown = configuration.to_v1();
    shown["flotilla"] = json!({ "generation": FIRST_GENERATION, "acknowledgedBy": 0 });
    let (configz, shown) = watch::channel(shown);
    let scheduled = Scheduled::default();
    let discovery = discovery_of(&args, &client);
    let delayed = election.is_some() && configuration.delay_cache_until_active;
    let host = identity.rsplit_once('_').map_or(identity, |(host, _)| host);
    let with_groups = machine.generic_workload;
    let spans = flotilla_telemetry::start(&args.tracing, "flotilla-coordinator", identity)?;
    let tracing = (spans.clone(), args.tracing.sampling());
    let (counted, shown_to) = ((scheduled.clone(), tracing), configz.clone());
    let stop = CancellationToken::new();
    let (transport, issuer) = transport::transport(&args, &client, &stop);
    let workers = (discovery, transport, issuer);
    let wanted = (registry, &*machine.profiles, with_groups);
    let clients = (client, &events);
    let mut coordinator = Coordinator::new(clients, (host, leading), workers, wanted, counted, shown_to, stop);
    coordinator.elected = election.is_some();
    coordinator.handle.tell(Event::Configured(Arc::new(machine))).await?;
    if !delayed {
        coordinator.begin.cancel();
    }
    let reloads = Arc::<Reloads>::default();
    let lease = election.as_ref().map(|election| election.name.as_str().into());
    let (gates, reloads_shown) = (args.gates.clone(), Arc::clone(&reloads));
    let shown = Shown { configz: shown, reloads: reloads_shown, identity: identity.into(), lease, gates };
    let review = Review { flags: &args.access, connection: &connection };
    coordinator.serve(&serve, scheduled, shown, review).await?;
    if let (Some(path), Some(text)) = (args.config.clone(), text) {
        coordinator.follow(Reloader {
            path,
            configuration,
            text,
            generation: FIRST_GENERATION,
            handle: coordinator.handle.clone(),
            watches: coordinator.watches.clone(),
            configz,
            events: coordinator.reporter.events().clone(),
            leading: coordinator.leading.clone(),
            client: coordinator.client.clone(),
            reloads,
            args,
        });
    }
    let election = match election {
        Some(election) => coordinator.stand(election, &connection, lead).await?,
        None => coordinator.lead_alone(lead),
    };
    let ended = coordinator.until_the_end(election, signals).await;
    // The last spans have their time, however it ended.
    tokio::task::spawn_blocking(move || spans.flush()).await?;
    ended
}

fn discovery_of(args: &Args, client: &kube::Client) -> Discovery {
    if !args.workers.is_empty() {
        return Discovery::Static(args.workers.iter().cloned().collect());
    }
    let namespace = args.worker_namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    Discovery::Service { namespace, name: args.worker_service.clone(), port: args.worker_port_name.clone() }
}

type Election = JoinHandle<Result<(), LeaseError>>;

impl Coordinator {
    /// Starts the machine and what performs its actions. `events` is the client for events alone; `(host, leading)` is in
    /// whose name things are written, and while what; `workers` is where workers are, and how they are spoken with. What
    /// `profiles` need is watched, and pod groups `with_groups` only.
    fn new(
        (client, events): (kube::Client, &kube::Client),
        (host, leading): (&str, watch::Receiver<Leadership>),
        (discovery, transport, issuer): (Discovery, Transport, Option<Issuer>),
        (registry, profiles, with_groups): (Registry, &[Profile], bool),
        (scheduled, tracing): (Scheduled, (Spans, Option<Sampling>)),
        configz: watch::Sender<Value>,
        stop: CancellationToken,
    ) -> Self {
        let performers = Arc::<OnceLock<Performers>>::default();
        let stage = Stage { performers: Arc::clone(&performers), known: Known::default() };
        let (spans, sampling) = tracing;
        let machine = sampling.into_iter().fold(Machine::new(0, registry), Machine::traced_by);
        let (handle, _thread) = driver::spawn(machine, stage);
        let recorder = Recorder::new(spans.clone(), handle.started());
        let begin = CancellationToken::new();
        let reporter = Reporter::new(&client, events, host, &leading);
        let callers = Callers::default();
        let (scored, led) = (scheduled.clone(), leading.clone());
        let binder = Binder::new(
            client.clone(),
            handle.clone(),
            reporter.clone(),
            scored,
            led,
            callers.clone(),
            recorder.clone(),
        );
        let extenders = Extenders::new(client.clone(), handle.clone(), callers.clone());
        let volume_binder = VolumeBinder::new(client.clone(), handle.clone(), leading.clone());
        let events = reporter.events().clone();
        let evictor = Evictor::new(client.clone(), handle.clone(), events, scheduled.clone(), leading.clone());
        let fanout = Fanout::observed(handle.clone(), transport, registry, spans, scheduled.observer());
        // Set once, here.
        let _ = performers.set(Performers {
            fanout: fanout.clone(),
            binder: binder.clone(),
            extenders,
            volume_binder: volume_binder.clone(),
            evictor: evictor.clone(),
            reporter: reporter.clone(),
            scheduled,
            recorder,
            configz,
        });
        let (told, teller) = (handle.clone(), reporter.clone());
        let wanted = (registry, profiles, with_groups);
        let watches = Watches::start(client.clone(), told, teller, wanted, begin.clone(), stop.clone());
        Self {
            watches,
            client,
            handle,
            fanout,
            binder,
            callers,
            volume_binder,
            evictor,
            reporter,
            begin,
            discovery,
            issuer,
            elected: false,
            leading,
            shutdown: CancellationToken::new(),
            drained: CancellationToken::new(),
            stop,
        }
    }

    /// Follows the configuration file.
    fn follow(&self, reloader: Reloader) {
        tokio::spawn(self.stop.clone().run_until_cancelled_owned(reloader.run()));
    }

    /// Stands for election, with a client of its own, so that no burst of other requests delays a renewal.
    async fn stand(
        &self,
        config: lease::LeaseConfig,
        connection: &Connection,
        leading: watch::Sender<Leadership>,
    ) -> anyhow::Result<Election> {
        let connection = Connection { purpose: Some("leader-election"), qps: None, burst: None, ..connection.clone() };
        let client = client::connect(&connection).await?;
        let handle = self.handle.clone();
        let signals = Signals {
            leading,
            shutdown: self.shutdown.clone(),
            drained: self.drained.clone(),
            progress: Some(Arc::new(move || handle.progress(MACHINE_PATIENCE))),
        };
        Ok(tokio::spawn(lease::run(config, client, signals)))
    }

    /// Leads without an election. The epoch is the time, so that it is higher than that of the run before.
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

    /// Leads when it is time to, and ends when it is time to.
    async fn until_the_end(self, mut election: Election, mut signals: Terminations) -> anyhow::Result<()> {
        tokio::select! {
            biased;
            ended = &mut election => return end_of(ended),
            () = self.handle.stopped() => return Err(Stopped.into()),
            signal = signals.next() => info!(signal, "ending"),
            stopped = self.lead() => return Err(stopped.into()),
        }
        tokio::select! {
            biased;
            ended = self.leave(&mut election) => ended,
            () = self.handle.stopped() => Err(Stopped.into()),
            signal = signals.next() => Err(anyhow!("a second {signal}: ending without waiting for what is under way")),
        }
    }

    /// Waits for the lead, takes it up, and goes on until the machine has stopped.
    async fn lead(&self) -> Stopped {
        let mut leading = self.leading.clone();
        let mut watches = self.watches.clone();
        let taken_up = async {
            // The sender is dropped only when the process ends, of which others hear first.
            let led = leading.wait_for(|state| matches!(state, Leadership::Leading { .. })).await;
            let Ok(epoch) = led.map(|state| epoch(&state)) else { return std::future::pending().await };
            info!(epoch, "leading");
            self.begin.cancel();
            watches.wait_synced().await;
            if self.elected {
                watches.catch_up().await;
            }
            self.handle.tell(Event::Leading { epoch }).await?;
            if let Some(issuer) = self.issuer.clone() {
                tokio::spawn(self.shutdown.clone().run_until_cancelled_owned(issuer.run()));
            }
            let found = discovery::run(self.discovery.clone(), self.client.clone(), self.fanout.clone());
            // A worker that is found when the process ends is left alone.
            tokio::spawn(self.shutdown.clone().run_until_cancelled_owned(found));
            Ok::<_, Stopped>(())
        };
        match taken_up.await {
            Ok(()) => self.handle.stopped().await,
            Err(stopped) => return stopped,
        }
        Stopped
    }

    /// Stops deciding, waits for what is under way, and gives up the lead.
    async fn leave(&self, election: &mut Election) -> anyhow::Result<()> {
        self.shutdown.cancel();
        self.handle.tell(Event::Following).await?;
        self.fanout.set(BTreeSet::new());
        if tokio::time::timeout(DRAIN, self.drain()).await.is_err() {
            let (binds, events) = (self.binder.tally().in_flight, self.reporter.events().tally().waiting);
            warn!(binds, events, "not everything under way was done within {DRAIN:?}");
        }
        self.drained.cancel();
        let ended = end_of(election.await);
        self.stop.cancel();
        self.handle.stop();
        self.handle.stopped().await;
        info!("ended");
        ended
    }

    async fn drain(&self) {
        tokio::join!(self.binder.drained(), self.volume_binder.drained(), self.evictor.drained());
        let leads = self.leading.borrow().epoch_at(lease::now()).is_some();
        while leads && self.reporter.events().tally().waiting > 0 {
            tokio::time::sleep(DRAIN_STEP).await;
        }
    }
}

/// The epoch of a lead. The first holder of a new Lease has made no transition; 0 stands for nobody.
fn epoch(lead: &Leadership) -> u64 {
    match lead {
        Leadership::Leading { epoch, .. } => epoch.saturating_add(1),
        Leadership::Following { .. } => 0,
    }
}

/// What the end of the election means. Without its lead the process ends here, with all that is under way.
fn end_of(ended: Result<Result<(), LeaseError>, tokio::task::JoinError>) -> anyhow::Result<()> {
    match ended {
        Ok(Ok(())) => Ok(()),
        Ok(Err(lost @ LeaseError::Lost { .. })) => {
            error!(reason = %lost, "leader election lost");
            std::process::exit(1);
        }
        Ok(Err(other)) => Err(other.into()),
        Err(error) => {
            error!(%error, "the election has ended by itself, so that nobody knows whether this process leads");
            std::process::exit(1);
        }
    }
}
