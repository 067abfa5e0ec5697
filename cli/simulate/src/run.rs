//! Runs a simulation: the machine, workers, and a model of the API server, the controllers and the kubelets.
//!
//! The simulation proceeds in rounds. In a round the machine decides every pod that it can. Then the model answers all of its requests at once,
//! and once there are none, lets the controllers act. The result therefore depends neither on the speed of threads nor on the number of
//! workers.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow, bail};
use flotilla_cluster::{Cluster, Groups};
use flotilla_framework::{
    class::PodInfo, extender::Extender, plugins::default_preemption, profile::Profile, registry::Registry,
};
use flotilla_machine::{
    event::{Configuration, Event},
    machine::Machine,
};
use flotilla_model::Start;
use flotilla_runtime::{
    driver::{self, Handle},
    fanout::{Fanout, Transport},
};
use indicatif::ProgressBar;
use tokio::time::timeout;

use crate::{
    ledger::{Ledger, Placement, SimulationResult, WorkerMessages},
    model::Model,
    removal::{self, Removals, Search},
    requests::{Requests, perform},
    rest,
    rounds::Parts,
    workers,
};

/// The timeout for workers to connect, and to receive their configuration and nodes.
const JOIN_LIMIT: Duration = Duration::from_secs(120);
/// Pods that an event wakes are retried in the same round.
const NO_BACKOFF_MS: u64 = 0;
/// All workers are ready before the first decision, so the coordinator waits for none.
const NO_GRACE_MS: u64 = 0;
/// All binds of a round are in flight until its end.
const NO_LIMIT: usize = usize::MAX;
/// The time limit for tasks to stop.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(1);

/// The configuration of a simulation.
#[derive(Debug)]
pub struct Settings {
    /// The plugins of the machine and the workers.
    pub registry: Registry,
    /// All profiles.
    pub profiles: Vec<Profile>,
    /// Extenders; none manages any of the pods.
    pub extenders: Vec<Extender>,
    /// Number of workers; without workers, the coordinator evaluates all nodes.
    pub workers: u16,
    /// The seed for the choice among nodes of equal score.
    pub tie_break_seed: u64,
    /// Whether each pod is tried once, and no provisioner or controller acts before that.
    pub once: bool,
    /// Whether pods preempt. Controllers recreate the victims, which are then retried.
    pub may_preempt: bool,
    /// Nodes whose pods are evicted, as by `kubectl drain`.
    pub drained: Vec<Arc<str>>,
}

/// Runs the simulation to its end.
///
/// # Errors
/// The workers cannot be started, or no decision is made for too long.
pub fn run(cluster: &Cluster, settings: &Settings, progress: &ProgressBar) -> anyhow::Result<SimulationResult> {
    Ok(run_with_removals(cluster, settings, None, progress)?.0)
}

/// Runs the simulation to its end, and then removes the nodes that could go, if they are searched.
///
/// # Errors
/// Those of [`run`].
pub fn run_with_removals(
    cluster: &Cluster,
    settings: &Settings,
    search: Option<&Search>,
    progress: &ProgressBar,
) -> anyhow::Result<(SimulationResult, Removals)> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the async runtime")?;
    let outcome = runtime.block_on(simulate(cluster, settings, search, progress));
    runtime.shutdown_timeout(SHUTDOWN_LIMIT);
    outcome
}

async fn simulate(
    cluster: &Cluster,
    settings: &Settings,
    search: Option<&Search>,
    progress: &ProgressBar,
) -> anyhow::Result<(SimulationResult, Removals)> {
    let start = Start::of(cluster);
    let (gated, waiting) = split_gated(&start.cluster, settings);
    let (addresses, _workers) = workers::start(settings.workers, settings.registry).await?;
    let ledger = Ledger::new(&waiting);
    let requests = Requests::default();
    let fanout_slot = Arc::new(OnceLock::new());
    let perform = perform(ledger.clone(), requests.clone(), Arc::clone(&fanout_slot));
    let (handle, machine) = driver::spawn_timeless(Machine::new(0, settings.registry), perform);
    let fanout =
        fanout_slot.get_or_init(|| Fanout::new(handle.clone(), Transport::InsecurePlaintext, settings.registry));
    feed(&handle, &start.cluster, settings).await?;
    let mut model = Model::new(start, &settings.drained, ledger.clone(), search.is_some());
    let initial = if settings.once { Vec::new() } else { model.begin() };
    for event in initial {
        handle.send_event(event).await?;
    }
    // The connection of workers may overtake events, and only a leader accepts workers.
    handle.send_event_applied(Event::Leading { epoch: 1 }).await?;
    // A machine accepts workers only as leader, and then sends each of them its current state.
    addresses.iter().for_each(|address| fanout.connect(address));
    await_workers(&handle, settings.workers).await?;
    let joined = fanout.traffic();
    ledger.resume(Instant::now());
    handle.send_event(Event::Synced).await?;
    let parts = Parts { handle: &handle, ledger: &ledger, requests: &requests, progress };
    match settings.once {
        true => parts.run_once(&mut model).await?,
        false => parts.run(&mut model).await?,
    }
    let worker_messages = WorkerMessages::between(&joined, &fanout.traffic());
    let mut removals = Removals::default();
    if let Some(search) = search {
        let without = configuration(2, cluster, settings, without_preemption);
        // The bar counts nodes now.
        let hidden = ProgressBar::hidden();
        let parts = Parts { progress: &hidden, ..parts };
        removals = removal::search(parts, &mut model, cluster, search, without, progress).await?;
    }
    ledger.report_end(model.report());
    for pod in ledger.undecided() {
        let message = match ledger.report(&pod.uid) {
            Some(message) => message,
            None => rest::words(&handle, &pod, &model).await?,
        };
        ledger.left(&pod, message);
    }

    handle.stop();
    machine.join().map_err(|_| anyhow!("the scheduling thread panicked"))?;
    let mut outcome = if settings.once { ledger.close_first(gated) } else { ledger.close(gated) };
    (outcome.storage, outcome.claims) = model.into_objects();
    outcome.worker_messages = worker_messages;
    Ok((outcome, removals))
}

/// Separates gated pods, and pods of gated groups.
fn split_gated(cluster: &Cluster, settings: &Settings) -> (Vec<Placement>, Vec<Arc<PodInfo>>) {
    let profiles = &settings.profiles;
    let groups = Groups::new(settings.registry, cluster, profiles);
    let group_gate = |pod: &PodInfo| {
        let profile = profiles.iter().find(|profile| profile.scheduler_name == pod.scheduler_name)?;
        groups.gate(pod, profile)
    };
    let holds: BTreeMap<&str, bool> = profiles
        .iter()
        .map(|profile| {
            (&*profile.scheduler_name, profile.plugins.pre_enqueue.iter().any(|name| name == "SchedulingGates"))
        })
        .collect();
    let is_gated = |pod: &PodInfo| !pod.gates.is_empty() && holds.get(&*pod.scheduler_name) == Some(&true);
    let is_out = |pod: &Arc<PodInfo>| is_gated(pod) || group_gate(pod).is_some();
    let (gated, waiting): (Vec<_>, Vec<_>) = cluster.pending.iter().cloned().partition(is_out);
    let gated = gated.into_iter().map(|pod| {
        let message = match group_gate(&pod) {
            Some((_, message)) => message,
            None => format!("waiting for scheduling gates: [{}]", pod.gates.join(" ")),
        };
        Placement { pod, node: None, message, first_message: None, nominated_node: None }
    });
    (gated.collect(), waiting)
}

/// Sends the whole cluster to the machine, but not the end of the initial lists.
async fn feed(handle: &Handle, cluster: &Cluster, settings: &Settings) -> anyhow::Result<()> {
    let profile =
        |profile: &Profile| if settings.may_preempt { Profile::clone(profile) } else { without_preemption(profile) };
    let configuration = configuration(1, cluster, settings, profile);
    handle.send_event(Event::Configured(Arc::new(configuration))).await?;
    for (name, labels) in &cluster.namespaces {
        handle.send_event(Event::NamespaceApplied { name: Arc::clone(name), labels: labels.clone() }).await?;
    }
    for (object, selector) in &cluster.selectors {
        let selected = Event::SelectorApplied { object: object.clone(), selector: selector.clone() };
        handle.send_event(selected).await?;
    }
    for object in &cluster.storage {
        handle.send_event(Event::ObjectApplied(object.clone().into())).await?;
    }
    for object in &cluster.devices {
        handle.send_event(Event::ObjectApplied(object.clone().into())).await?;
    }
    for group in cluster.pod_groups() {
        handle.send_event(Event::PodGroupApplied(Arc::new(group.clone()))).await?;
    }
    for budget in &cluster.budgets {
        handle.send_event(Event::BudgetApplied(Arc::new(budget.clone()))).await?;
    }
    for node in &cluster.nodes {
        handle.send_event(Event::NodeApplied(Arc::clone(node))).await?;
    }
    for pod in cluster.bound.iter().chain(&cluster.pending) {
        handle.send_event(Event::PodApplied(Arc::clone(pod))).await?;
    }
    Ok(())
}

/// The configuration of the machine. `generation`: its number.
fn configuration(
    generation: u64,
    cluster: &Cluster,
    settings: &Settings,
    profile: impl Fn(&Profile) -> Profile,
) -> Configuration {
    Configuration {
        tie_break_seed: settings.tie_break_seed,
        pod_initial_backoff_ms: NO_BACKOFF_MS,
        pod_max_backoff_ms: NO_BACKOFF_MS,
        max_binds_in_flight: NO_LIMIT,
        worker_grace_ms: NO_GRACE_MS,
        generic_workload: cluster.groups.is_some(),
        extenders: settings.extenders.iter().cloned().map(Arc::new).collect(),
        ..Configuration::new(generation, settings.profiles.iter().map(profile).collect())
    }
}

/// Disables preemption.
fn without_preemption(profile: &Profile) -> Profile {
    let mut profile = profile.clone();
    for point in [&mut profile.plugins.post_filter, &mut profile.plugins.pod_group_post_filter] {
        point.retain(|name| name != default_preemption::NAME);
    }
    profile
}

/// Returns once every worker holds its nodes.
async fn await_workers(handle: &Handle, count: u16) -> anyhow::Result<()> {
    let mut status = handle.watch_status();
    let all_ready = status.wait_for(|status| status.workers_ready == u64::from(count));
    match timeout(JOIN_LIMIT, all_ready).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) => bail!("the scheduling thread stopped while the workers joined"),
        Err(_) => bail!(
            "{} of {count} workers were ready after {} s; run with -v to see their log, or with fewer --workers",
            handle.status().workers_ready,
            JOIN_LIMIT.as_secs()
        ),
    }
}
