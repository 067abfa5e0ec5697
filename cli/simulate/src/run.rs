//! Runs a simulation: the machine, workers, and a stub API server that accepts each bind.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow, bail};
use flotilla_cluster::{Cluster, Groups};
use flotilla_framework::{
    class::PodInfo, extender::Extender, plugins::default_preemption, profile::Profile, registry::Registry,
};
use flotilla_machine::{
    action::{Action, PreBind, Unreserve},
    event::{Configuration, Event},
    machine::Machine,
};
use flotilla_model::{Change, Controllers, Deletion};
use flotilla_runtime::{
    driver::{self, Handle, Stopped},
    fanout::{Fanout, Transport},
};
use indicatif::ProgressBar;
use tokio::{
    sync::mpsc,
    time::{interval, timeout},
};

use crate::{
    claims,
    ledger::{Ledger, Placement, SimulationResult},
    rest,
    volumes::Controller,
    workers,
};

/// The timeout for workers to connect, and to receive their configuration and nodes.
const JOIN_LIMIT: Duration = Duration::from_secs(120);
/// The timeout without any decision while pods are undecided.
const STALL_LIMIT: Duration = Duration::from_secs(120);
/// The polling interval of the progress.
const LOOK: Duration = Duration::from_millis(50);
/// Infeasible pods are not retried: a day is longer than a simulation.
const NO_RETRY_MS: u64 = 86_400_000;
/// With preemption or released claims, pods are retried as soon as these are done.
const AT_ONCE_MS: u64 = 1;
/// A worker in this process is never lost, only busy.
const WORKER_DEADLINE_MS: u64 = 120_000;
/// Requests answered in one batch, equal to the machine's batch of events.
const AT_ONCE: usize = 256;
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
    /// Number of workers.
    pub workers: u16,
    /// The seed for the choice among nodes of equal score.
    pub tie_break_seed: u64,
    /// Whether pods preempt. Controllers recreate the victims, which are then retried.
    pub may_preempt: bool,
    /// Nodes whose pods are evicted; they are cordoned already.
    pub drained: Vec<Arc<str>>,
}

/// Runs the simulation to its end.
///
/// # Errors
/// The workers cannot be started, or no decision is made for too long.
pub fn run(cluster: &Cluster, settings: &Settings, progress: &ProgressBar) -> anyhow::Result<SimulationResult> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the async runtime")?;
    let outcome = runtime.block_on(simulate(cluster, settings, progress));
    runtime.shutdown_timeout(SHUTDOWN_LIMIT);
    outcome
}

async fn simulate(cluster: &Cluster, settings: &Settings, progress: &ProgressBar) -> anyhow::Result<SimulationResult> {
    let (gated, waiting) = split_gated(cluster, settings);
    let (addresses, _workers) = workers::start(settings.workers, settings.registry).await?;
    let tries_again = settings.may_preempt || claims::may_be_freed(&cluster.devices);
    let ledger = Ledger::new(&waiting, tries_again);

    let (binds, answered) = mpsc::unbounded_channel();
    let fanout_slot = Arc::new(OnceLock::new());
    let controllers = Arc::new(Mutex::new(Controllers::new(cluster, &settings.drained)));
    let perform = perform(ledger.clone(), binds, Arc::clone(&fanout_slot), Arc::clone(&controllers));
    let (handle, machine) = driver::spawn(Machine::new(0, settings.registry), perform);
    let fanout =
        fanout_slot.get_or_init(|| Fanout::new(handle.clone(), Transport::InsecurePlaintext, settings.registry));
    let controller = Arc::new(Mutex::new(Controller::new(cluster)));
    tokio::spawn(answer(handle.clone(), answered, Arc::clone(&controller)));

    feed(&handle, cluster, settings, tries_again).await?;
    // A machine accepts workers only as leader, and then sends each of them its current state.
    addresses.iter().for_each(|address| fanout.connect(address));
    await_workers(&handle, settings.workers).await?;
    ledger.begin(Instant::now());
    let initial = controllers.lock().unwrap_or_else(PoisonError::into_inner).initial();
    for event in events(initial, &ledger, None) {
        handle.send_event(event).await?;
    }
    handle.send_event(Event::Synced).await?;
    let mut end;
    loop {
        end = await_decisions(&handle, &ledger, progress).await?;
        let changes = controllers.lock().unwrap_or_else(PoisonError::into_inner).step();
        if changes.is_empty() {
            break;
        }
        for event in events(changes, &ledger, None) {
            handle.send_event(event).await?;
        }
    }
    ledger.report_end(controllers.lock().unwrap_or_else(PoisonError::into_inner).report());
    if end == End::AtRest {
        for pod in ledger.undecided() {
            let message = match ledger.report(&pod.uid) {
                Some(message) => message,
                None => rest::words(&handle, &pod, &controller).await?,
            };
            ledger.left(&pod, message, Instant::now());
        }
    }

    handle.stop();
    machine.join().map_err(|_| anyhow!("the scheduling thread panicked"))?;
    Ok(ledger.close(gated))
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
        Placement { pod, node: None, message, first_message: None }
    });
    (gated.collect(), waiting)
}

/// A request to the API server.
enum Request {
    Bind(Arc<PodInfo>),
    PreBind(PreBind),
    Unreserve(Unreserve),
    Replaced(Vec<Event>),
}

/// The watch events of changes.
fn events(
    changes: Vec<Change>,
    ledger: &Ledger,
    preemption: Option<&flotilla_machine::action::Preemption>,
) -> Vec<Event> {
    let event = |change| match change {
        Change::Create { pod, .. } => {
            ledger.add(&pod);
            Event::PodApplied(pod)
        }
        Change::Delete { pod, by } => {
            match preemption.filter(|_| by == Deletion::Preempted) {
                Some(preemption) => ledger.evicted(&pod, preemption),
                None => ledger.removed(&pod, by),
            }
            Event::PodDeleted { uid: Arc::clone(&pod.uid) }
        }
        Change::Budget(budget) => Event::BudgetApplied(Arc::new(budget)),
    };
    changes.into_iter().map(event).collect()
}

/// Performs an action on the machine's thread; it must not block.
fn perform(
    ledger: Ledger,
    binds: mpsc::UnboundedSender<Request>,
    fanout: Arc<OnceLock<Fanout>>,
    controllers: Arc<Mutex<Controllers>>,
) -> impl FnMut(Action) + Send + 'static {
    move |action| match action {
        Action::Bind(binding) => {
            if let Some(pod) = ledger.placed(&binding, Instant::now()) {
                controllers.lock().unwrap_or_else(PoisonError::into_inner).bind(&pod);
                // The receiver is dropped only at the end.
                let _ = binds.send(Request::Bind(pod));
            }
        }
        Action::PreBind(pre_bind) => {
            ledger.reserved(&pre_bind.uid);
            let _ = binds.send(Request::PreBind(pre_bind));
        }
        Action::Unreserve(unreserve) => drop(binds.send(Request::Unreserve(unreserve))),
        Action::Report(report) => ledger.reported(report, Instant::now()),
        Action::Send { worker, word } => {
            if let Some(fanout) = fanout.get() {
                fanout.send(worker, word);
            }
        }
        Action::DropWorker { worker, reason, pause_ms } => {
            if let Some(fanout) = fanout.get() {
                fanout.drop_worker(worker, &reason, pause_ms);
            }
        }
        Action::Preempt(preemption) => {
            let changes = controllers.lock().unwrap_or_else(PoisonError::into_inner).preempt(&preemption);
            let uid = Arc::clone(&preemption.preemptor.uid);
            let mut all = vec![Event::Preempted { uid, id: preemption.id, failure: None }];
            all.extend(events(changes, &ledger, Some(&preemption)));
            drop(binds.send(Request::Replaced(all)));
        }
        // No extender manages any of the pods.
        Action::Extend(_)
        | Action::ExtendPreemption(_)
        | Action::ReportGroup(_)
        | Action::Acknowledged { .. }
        | Action::Alone(_)
        | Action::Trace(_)
        | Action::DeviceWait(_) => {}
    }
}

/// Accepts each bind and sends the watch event of the pod.
async fn answer(handle: Handle, mut binds: mpsc::UnboundedReceiver<Request>, controller: Arc<Mutex<Controller>>) {
    let mut requests = Vec::with_capacity(AT_ONCE);
    while binds.recv_many(&mut requests, AT_ONCE).await > 0 {
        let (mut objects, mut others) = (Vec::new(), Vec::new());
        for request in requests.drain(..) {
            let events = match request {
                Request::Bind(pod) => vec![Event::Bound { uid: Arc::clone(&pod.uid) }, Event::PodApplied(pod)],
                Request::Replaced(events) => events,
                Request::PreBind(pre_bind) => {
                    controller.lock().unwrap_or_else(PoisonError::into_inner).carry_out(pre_bind)
                }
                Request::Unreserve(unreserve) => {
                    controller.lock().unwrap_or_else(PoisonError::into_inner).give_back(&unreserve)
                }
            };
            let is_object = |event: &Event| matches!(event, Event::ObjectApplied(_) | Event::ObjectDeleted(_));
            let (seen, answered): (Vec<_>, Vec<_>) = events.into_iter().partition(is_object);
            objects.extend(seen);
            others.extend(answered);
        }
        if send_all(&handle, objects, others).await.is_err() {
            return;
        }
    }
}

/// Sends the watch events of written objects before the acknowledgement of the write. Acknowledgements may overtake watches, but the
/// simulated watches are never late.
async fn send_all(handle: &Handle, mut objects: Vec<Event>, others: Vec<Event>) -> Result<(), Stopped> {
    let last = objects.pop();
    for event in objects {
        handle.send_event(event).await?;
    }
    if let Some(last) = last {
        handle.send_event_applied(last).await?;
    }
    for event in others {
        handle.send_event(event).await?;
    }
    Ok(())
}

/// Sends the whole cluster to the machine, but not the end of the initial lists.
async fn feed(handle: &Handle, cluster: &Cluster, settings: &Settings, tries_again: bool) -> anyhow::Result<()> {
    let backoff_ms = if tries_again { AT_ONCE_MS } else { NO_RETRY_MS };
    let profile =
        |profile: &Profile| if settings.may_preempt { Profile::clone(profile) } else { without_preemption(profile) };
    let configuration = Configuration {
        tie_break_seed: settings.tie_break_seed,
        pod_initial_backoff_ms: backoff_ms,
        pod_max_backoff_ms: backoff_ms,
        pops_from_backoff: tries_again,
        generic_workload: cluster.groups.is_some(),
        pod_max_in_unschedulable_ms: NO_RETRY_MS,
        worker_deadline_ms: WORKER_DEADLINE_MS,
        worker_hedge_ms: WORKER_DEADLINE_MS,
        worker_grace_ms: WORKER_DEADLINE_MS,
        extenders: settings.extenders.iter().cloned().map(Arc::new).collect(),
        ..Configuration::new(1, settings.profiles.iter().map(profile).collect())
    };
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
    for group in cluster.groups.iter().flatten() {
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
    // The connection of workers may overtake events, and only a leader accepts workers.
    Ok(handle.send_event_applied(Event::Leading { epoch: 1 }).await?)
}

/// Disables preemption: each pod is tried once, so that no pod would use the freed resources.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Decided,
    AtRest,
}

/// Returns once every pod is decided, or the simulation is at rest.
async fn await_decisions(handle: &Handle, ledger: &Ledger, progress: &ProgressBar) -> anyhow::Result<End> {
    let mut looks = interval(LOOK);
    let (mut known, mut since) = (0, Instant::now());
    let mut rest = None;
    progress.set_length(ledger.expected() as u64);
    loop {
        tokio::select! {
            () = handle.stopped() => bail!("the scheduling thread stopped before every pod was decided on"),
            _ = looks.tick() => {}
        }
        let decided = ledger.decided();
        let end = if ledger.undecided().is_empty() { End::Decided } else { End::AtRest };
        progress.set_position(decided as u64);
        if decided > known {
            (known, since, rest) = (decided, Instant::now(), None);
            continue;
        }
        // The stub answers at once, so an unchanged state after one interval includes all its answers.
        let before = std::mem::replace(&mut rest, handle.ask(|machine, _| machine.at_rest()).await?);
        if rest.is_some() && rest == before {
            return Ok(end);
        }
        if since.elapsed() > STALL_LIMIT {
            bail!(
                "nothing was decided for {} s, with {decided} of {} pods decided on and {:?} next; run with -v to see why",
                STALL_LIMIT.as_secs(),
                ledger.expected(),
                ledger.first_undecided().unwrap_or_default()
            );
        }
    }
}
