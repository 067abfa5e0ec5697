//! The simulation itself: the machine, the workers, and in place of an API server a stub that accepts each bind.
//!
//! Knows: in which order the parts are started, fed and stopped, and when all is decided. Must not know: where the
//! cluster came from, or how the answer is printed.

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
use flotilla_runtime::{
    driver::{self, Handle, Stopped},
    fanout::{Fanout, Transport},
};
use indicatif::ProgressBar;
use tokio::{
    sync::mpsc,
    time::{interval, timeout},
};

use super::{
    claims,
    ledger::{Ledger, Outcome, Placement},
    residents::Residents,
    rest,
    volumes::Controller,
};
use crate::workers;

/// How long the workers may take to join, be configured and be sent their nodes.
const JOIN_LIMIT: Duration = Duration::from_secs(120);
/// How long nothing may be decided while something is left to decide.
const STALL_LIMIT: Duration = Duration::from_secs(120);
/// How often the progress is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// A pod that no node would take is not tried again: a day is longer than a simulation takes.
const NO_RETRY_MS: u64 = 86_400_000;
/// Where pods preempt or free claims, they are tried again as soon as the pods are gone that make room, or the claims are free.
const AT_ONCE_MS: u64 = 1;
/// A worker of the same process is never lost, only busy.
const WORKER_DEADLINE_MS: u64 = 120_000;
/// How many requests are answered together: as many as the machine takes in events at a time.
const AT_ONCE: usize = 256;
/// How long tasks may take to notice that all is over.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(1);

/// What the simulation is run with.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The plugins of the machine and the workers.
    pub(crate) registry: Registry,
    /// All profiles.
    pub(crate) profiles: Vec<Profile>,
    /// Extenders, none of which is interested in any of the pods.
    pub(crate) extenders: Vec<Extender>,
    /// How many workers there are.
    pub(crate) workers: u16,
    /// Decides among nodes of equal score.
    pub(crate) tie_break_seed: u64,
    /// Whether pods have others make room for them. Those are made anew by their controllers and tried again.
    pub(crate) may_preempt: bool,
}

/// Runs the simulation to its end.
///
/// # Errors
/// Where the workers cannot be started, or nothing is decided any more.
pub(crate) fn run(cluster: &Cluster, settings: &Settings, progress: &ProgressBar) -> anyhow::Result<Outcome> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the async runtime")?;
    let outcome = runtime.block_on(simulate(cluster, settings, progress));
    runtime.shutdown_timeout(SHUTDOWN_LIMIT);
    outcome
}

async fn simulate(cluster: &Cluster, settings: &Settings, progress: &ProgressBar) -> anyhow::Result<Outcome> {
    let (gated, waiting) = split_gated(cluster, settings);
    let (addresses, _workers) = workers::start(settings.workers, settings.registry).await?;
    let tries_again = settings.may_preempt || claims::may_be_freed(&cluster.devices);
    let ledger = Ledger::new(&waiting, tries_again);

    let (binds, answered) = mpsc::unbounded_channel();
    let fanout_slot = Arc::new(OnceLock::new());
    let residents = Residents::new(cluster, ledger.clone());
    let perform = perform(ledger.clone(), binds, Arc::clone(&fanout_slot), residents);
    let (handle, machine) = driver::spawn(Machine::new(0, settings.registry), perform);
    let fanout =
        fanout_slot.get_or_init(|| Fanout::new(handle.clone(), Transport::InsecurePlaintext, settings.registry));
    let controller = Arc::new(Mutex::new(Controller::new(cluster)));
    tokio::spawn(answer(handle.clone(), answered, Arc::clone(&controller)));

    feed(&handle, cluster, settings, tries_again).await?;
    // Only a leader takes workers on, and it sends each of them all that it knows by then.
    addresses.iter().for_each(|address| fanout.connect(address));
    await_workers(&handle, settings.workers).await?;
    ledger.begin(Instant::now());
    handle.tell(Event::Synced).await?;
    if await_decisions(&handle, &ledger, progress).await? == End::AtRest {
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

/// The pods that their gates or their groups keep out of the queue, and all others.
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

/// What is asked of the API server.
enum Request {
    /// A pod as it looks once it is bound.
    Bind(Arc<PodInfo>),
    PreBind(PreBind),
    Unreserve(Unreserve),
    /// What to tell of pods that are gone and made anew.
    Replaced(Vec<Event>),
}

/// What is done with each action, on the machine's own thread: nothing here waits.
fn perform(
    ledger: Ledger,
    binds: mpsc::UnboundedSender<Request>,
    fanout: Arc<OnceLock<Fanout>>,
    mut residents: Residents,
) -> impl FnMut(Action) + Send + 'static {
    move |action| match action {
        Action::Bind(binding) => {
            if let Some(pod) = ledger.placed(&binding, Instant::now()) {
                residents.add(&pod);
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
        Action::Preempt(preemption) => drop(binds.send(Request::Replaced(residents.replace(&preemption)))),
        // No extender is interested in any of the pods.
        Action::Extend(_)
        | Action::ExtendPreemption(_)
        | Action::ReportGroup(_)
        | Action::Acknowledged { .. }
        | Action::Alone(_)
        | Action::Trace(_)
        | Action::DeviceWait(_) => {}
    }
}

/// Says yes to each bind, and tells of the pod as a watch would.
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
        if tell_all(&handle, objects, others).await.is_err() {
            return;
        }
    }
}

/// Tells the machine what was written, and then that it was. Answers overtake what watches tell, and this is a cluster whose watches
/// are never late.
async fn tell_all(handle: &Handle, mut objects: Vec<Event>, others: Vec<Event>) -> Result<(), Stopped> {
    let last = objects.pop();
    for event in objects {
        handle.tell(event).await?;
    }
    if let Some(last) = last {
        handle.tell_applied(last).await?;
    }
    for event in others {
        handle.tell(event).await?;
    }
    Ok(())
}

/// Tells the machine of everything but that this was all.
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
    handle.tell(Event::Configured(Arc::new(configuration))).await?;
    for (name, labels) in &cluster.namespaces {
        handle.tell(Event::NamespaceApplied { name: Arc::clone(name), labels: labels.clone() }).await?;
    }
    for (object, selector) in &cluster.selectors {
        let selected = Event::SelectorApplied { object: object.clone(), selector: selector.clone() };
        handle.tell(selected).await?;
    }
    for object in &cluster.storage {
        handle.tell(Event::ObjectApplied(object.clone().into())).await?;
    }
    for object in &cluster.devices {
        handle.tell(Event::ObjectApplied(object.clone().into())).await?;
    }
    for group in cluster.groups.iter().flatten() {
        handle.tell(Event::PodGroupApplied(Arc::new(group.clone()))).await?;
    }
    for budget in &cluster.budgets {
        handle.tell(Event::BudgetApplied(Arc::new(budget.clone()))).await?;
    }
    for node in &cluster.nodes {
        handle.tell(Event::NodeApplied(Arc::clone(node))).await?;
    }
    for pod in cluster.bound.iter().chain(&cluster.pending) {
        handle.tell(Event::PodApplied(Arc::clone(pod))).await?;
    }
    // Workers that join overtake what is told, and only a leader takes them on.
    Ok(handle.tell_applied(Event::Leading { epoch: 1 }).await?)
}

/// The pods that are there stay: each pod is tried once, and no pod would use the room that others make.
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
            "{} of {count} workers were ready after {} s; run with -v to see what they say, or with fewer --workers",
            handle.status().workers_ready,
            JOIN_LIMIT.as_secs()
        ),
    }
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Every pod is decided on.
    Decided,
    /// Nothing more will happen.
    AtRest,
}

/// Returns once every pod is decided on, or nothing more will happen.
async fn await_decisions(handle: &Handle, ledger: &Ledger, progress: &ProgressBar) -> anyhow::Result<End> {
    let mut looks = interval(LOOK);
    let (mut known, mut since) = (0, Instant::now());
    let mut rest = None;
    progress.set_length(ledger.expected() as u64);
    loop {
        tokio::select! {
            () = ledger.finished() => return Ok(End::Decided),
            () = handle.stopped() => bail!("the scheduling thread stopped before every pod was decided on"),
            _ = looks.tick() => {}
        }
        let decided = ledger.decided();
        progress.set_position(decided as u64);
        if decided > known {
            (known, since, rest) = (decided, Instant::now(), None);
            continue;
        }
        // Nothing waits to be answered for so long by a stand-in that answers at once: what it told is counted by now.
        let before = std::mem::replace(&mut rest, handle.ask(|machine, _| machine.at_rest()).await?);
        if rest.is_some() && rest == before {
            return Ok(End::AtRest);
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
