//! One run: a phase with faults, then a quiet phase in which all invariants must hold.

use std::time::Duration;

use flotilla_machine::outlook::PodName;
use flotilla_planted::{plant, take_most};
use flotilla_runtime::surroundings;
use tokio::{
    runtime::Builder,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use crate::{
    api::{Api, Faults, Kind, Options},
    check::{Checker, Line, Violation},
    cluster::Cluster,
    coordinator::{Coordinator, Setup},
    faulty, namesakes, panics,
    plan::{Deed, Plan},
    seed::Seed,
    workers::Workers,
};

mod deeds;
mod profile;

use profile::profile;

/// Maximum work per event in units of some 10 ns, in such small clusters with any objects. An event ends after 30,000 units, 512 times
/// fewer than elsewhere, plus its current attempt. An attempt has 200,000 until its own bound, and 450,000 for one pattern beyond it. 2,048
/// requirements that take effect take 300,000, and signing 40 pods with 1,024 labels 400,000.
const WORK: u64 = 1_500_000;

/// Start time of each run, in Unix seconds: a day in 2026.
pub const BEGAN_S: u64 = 1_780_000_000;
/// Length of the quiet phase if losses are not reported: a hung watch is detected after 65 s. It is less than the five minutes after which
/// a pending pod is flushed, so that lost events are detected.
const QUIET: Duration = Duration::from_secs(150);
/// Maximum length of the quiet phase if losses are reported.
const MENDED: Duration = Duration::from_secs(40);
/// If a leader writes only its Lease for this long, it has recovered from all losses: the backoff of a watch is at most 15 s, that of a pod
/// 10 s.
const REST: Duration = Duration::from_secs(18);
const MOMENT: Duration = Duration::from_millis(500);
/// Maximum wait of a pod without faults: scheduling takes no virtual time, and a request a few milliseconds.
const PROMPT: Duration = Duration::from_secs(5);
/// Maximum time to bind all feasible pods: the longest backoff is ten seconds.
const SOON: Duration = Duration::from_secs(16);
/// Actions in the phase without faults.
const CALM: [Deed; 15] = [
    Deed::Create,
    Deed::CreateUrgent,
    Deed::Delete,
    Deed::Recreate,
    Deed::AddNode,
    Deed::RemoveNode,
    Deed::Cordon,
    Deed::Resize,
    Deed::SilenceWorker,
    Deed::Mislead,
    Deed::CreateWithVolume,
    Deed::CreateSet,
    Deed::Scale,
    Deed::Protect,
    Deed::Finish,
];
/// The same for clusters with devices.
const CALM_WITH_DEVICES: [Deed; 10] = [
    Deed::CreateWithDevices,
    Deed::CreateWithDevices,
    Deed::DeleteClaim,
    Deed::ChangeDevices,
    Deed::ChangeDevices,
    Deed::Taint,
    Deed::Taint,
    Deed::ChangeClass,
    Deed::Serve,
    Deed::Unprotect,
];
/// Number of pods explained by the coordinators after a violation.
const ASKED: usize = 2;
/// Time to execute decisions, including volumes.
const SETTLED: Duration = Duration::from_secs(2);
/// Maximum time until another process binds a pod after the leader was killed: the rest of the lease, a retry interval, and a bookmark
/// within 2.3 s.
const CRASHED: Duration = Duration::from_secs(9);
/// The same after SIGTERM to the leader.
const HANDED_OVER: Duration = Duration::from_secs(3);
/// Maximum wait of a new process for a killed process's Lease, and for its lists.
const TAKEOVER: Duration = Duration::from_secs(30);
/// Further time until it has tried every pod: it waits for a bookmark within 2.3 s.
const TRIED: Duration = Duration::from_secs(5);

/// Outcome of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunOutcome {
    /// Violations.
    pub violations: Vec<Violation>,
    /// Hash of the history.
    pub hash: u64,
    /// Number of commits.
    pub commits: u64,
    /// Number of bindings by coordinators.
    pub binds: u64,
    /// Number of evictions by coordinators.
    pub evictions: u64,
    /// Maximum work of an event.
    pub most_work: u64,
    /// Virtual duration.
    pub lasted: Duration,
    /// The last commits.
    pub recent: Vec<Line>,
}

/// Runs a plan.
///
/// # Panics
/// The operating system cannot create a runtime.
#[must_use]
pub fn run(plan: &Plan) -> RunOutcome {
    flotilla_planted::scale_bounds();
    let runtime =
        Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime without I/O");
    plant(plan.defect);
    let outcome = runtime.block_on(async {
        surroundings::hold(plan.seed, Duration::from_secs(BEGAN_S));
        let _of_another_run = take_most();
        panics::forget();
        let mut course = Course::new(plan);
        course.chaos().await;
        course.quiet().await;
        course.verdict()
    });
    drop(runtime);
    plant(None);
    outcome
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Course<'a> {
    plan: &'a Plan,
    seed: Seed,
    began: Instant,
    setup: Setup,
    coordinators: Vec<Coordinator>,
    cluster: Cluster,
    checker: Checker,
    first_version: u64,
    /// Partitioned coordinators.
    cut_off: Vec<String>,
    /// Coordinators in a one-way partition, with its end.
    deaf: Vec<(Instant, String)>,
    most_work: u64,
}

impl<'a> Course<'a> {
    fn new(plan: &'a Plan) -> Self {
        let seed = Seed::new(plan.seed);
        let options = Options {
            epoch_s: i64::try_from(BEGAN_S).unwrap_or(0),
            lists_by_watch: plan.lists_by_watch,
            keeps_events: false,
            ..Options::default()
        };
        let registry = faulty::registry();
        let api = Api::new(seed.fork("api"), options);
        let workers = Workers::new(seed.fork("workers"), plan.workers, registry);
        let profile = profile(plan);
        let cluster = Cluster::new(api.clone(), seed.fork("cluster"), plan.nodes, plan.with_devices);
        let first_version = api.look(|store| store.version());
        let setup = Setup { api, workers, profiles: vec![profile], registry, with_events: plan.with_events };
        let mut coordinators: Vec<_> = (0..plan.coordinators).map(Coordinator::new).collect();
        coordinators.iter_mut().for_each(|coordinator| coordinator.start(&setup));
        let began = Instant::now();
        let mut course = Self {
            plan,
            seed: seed.fork("course"),
            began,
            setup,
            coordinators,
            cluster,
            checker: Checker::default(),
            first_version,
            cut_off: Vec::new(),
            deaf: Vec::new(),
            most_work: 0,
        };
        course.check();
        course
    }

    async fn chaos(&mut self) {
        let api = self.setup.api.clone();
        api.set_faults(self.plan.faults);
        let _end = match self.plan.replaced {
            0 => None,
            often => Some(AbortOnDrop(tokio::spawn(namesakes::replace(api, self.seed.fork("namesakes"), often)))),
        };
        for _ in 0..self.plan.steps {
            sleep(Duration::from_millis(self.seed.between(1, self.plan.pace_ms))).await;
            if let Some(deed) = self.plan.deed(&mut self.seed) {
                tracing::debug!(?deed, at_ms = self.at_ms(), "deed");
                self.act(deed).await;
            }
            self.end_deafness(false);
            self.cluster.live(false);
            self.check();
        }
    }

    /// Ends faults, and checks that all feasible pods are bound.
    async fn quiet(&mut self) {
        self.setup.api.set_faults(Faults::NONE);
        self.end_deafness(true);
        for name in std::mem::take(&mut self.cut_off) {
            self.setup.api.partition(&name, false);
        }
        self.setup.workers.heal();
        self.cluster.uncordon_all();
        if self.plan.mends {
            self.setup.api.mend();
        }
        self.recover().await;
        self.checker.all_is_well();
        self.look_for_stranded().await;
        self.calm().await;
        self.settle().await;
        self.place_promptly().await;
        self.fail_over().await;
        if self.plan.asks_anew {
            if !self.checker.places().waiting().is_empty() {
                // By then another process leads, and has tried the pods in backoff.
                self.pass(SOON).await;
            }
            self.settle().await;
            self.ask_a_new_process().await;
        }
    }

    /// Waits until the coordinators have recovered from losses.
    async fn recover(&mut self) {
        let (end, rest) = if self.plan.mends { (MENDED, REST) } else { (QUIET, QUIET) };
        let end = Instant::now() + end;
        let (mut written, mut since) = (self.written(), Instant::now());
        while Instant::now() < end && since.elapsed() < rest {
            self.start_all();
            self.pass(Duration::from_secs(2)).await;
            let now = self.written();
            if now != written || !self.is_led() {
                (written, since) = (now, Instant::now());
            }
        }
    }

    fn is_led(&self) -> bool {
        let leader = self.cluster.leader();
        leader.is_some() && self.coordinators.iter().any(|coordinator| coordinator.name() == leader.as_deref())
    }

    /// Number of commits, except of the Lease.
    fn written(&self) -> usize {
        self.setup.api.look(|store| store.history().len() - store.changed(Kind::Lease))
    }

    /// Runs actions without faults except those of workers; each time all feasible pods must be bound soon.
    async fn calm(&mut self) {
        for _ in 0..self.plan.calm {
            let is_hostile = self.plan.hostile.is_some() && self.seed.happens(300);
            let deed = match self.plan.with_devices && self.seed.happens(600) {
                _ if is_hostile => Deed::Hostile,
                true => self.seed.pick(&CALM_WITH_DEVICES).copied().unwrap_or(Deed::CreateWithDevices),
                false => self.seed.pick(&CALM).copied().unwrap_or(Deed::Create),
            };
            tracing::debug!(?deed, at_ms = self.at_ms(), "calm deed");
            match deed {
                Deed::SilenceWorker => self.silence_worker(2 * SOON),
                Deed::Mislead => self.mislead(true),
                deed => self.act(deed).await,
            }
            let end = Instant::now() + SOON;
            self.pass(MOMENT).await;
            while Instant::now() < end && !self.checker.stranded().is_empty() {
                self.pass(MOMENT).await;
            }
            self.look_for_stranded().await;
        }
    }

    /// Lets virtual time pass with a running cluster.
    async fn pass(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.cluster.live(true);
            sleep(MOMENT.min(end - Instant::now())).await;
            self.check();
        }
    }

    /// Waits until decisions are executed; preemption takes several rounds if a worker hangs.
    async fn settle(&mut self) {
        let end = Instant::now() + SOON;
        self.pass(SETTLED).await;
        while Instant::now() < end && self.checker.places().are_leaving() {
            self.pass(SETTLED).await;
        }
    }

    /// Reports pending pods with feasible nodes, and the coordinators' explanation of the first ones.
    async fn look_for_stranded(&mut self) {
        let (stranded, at_ms) = (self.checker.stranded(), self.at_ms());
        for (index, (pod, what)) in stranded.into_iter().enumerate() {
            let said = if index < ASKED { self.outlooks(&pod).await } else { String::new() };
            self.checker.note("L1", format!("{what}{said}"), at_ms);
        }
    }

    /// Explanation of a pod (`namespace/name`) by each coordinator.
    async fn outlooks(&self, pod: &str) -> String {
        let (namespace, name) = pod.split_once('/').unwrap_or_default();
        let mut said = String::new();
        for (coordinator, machine) in self.coordinators.iter().filter_map(|it| it.name().zip(it.machine())) {
            let asked = PodName { namespace: namespace.into(), name: name.into() };
            let outlook = machine.ask(move |machine, now_ms| machine.outlook(now_ms, &asked)).await;
            said.push_str(&format!("; {coordinator}: {:?}", outlook.ok().flatten().map(|outlook| outlook.standing)));
        }
        said
    }

    fn silence_worker(&mut self, time: Duration) {
        let index = usize::try_from(self.seed.below(self.plan.workers as u64)).unwrap_or(0);
        self.setup.workers.silence(index, time);
    }

    fn start_all(&mut self) {
        let Self { coordinators, setup, .. } = self;
        coordinators.iter_mut().for_each(|coordinator| coordinator.start(setup));
    }

    /// Checks that a feasible pod is bound promptly, and that pending pods are infeasible.
    async fn place_promptly(&mut self) {
        self.place(PROMPT, "L5", "although all is well").await;
    }

    /// Checks that a feasible pod is bound within `limit`.
    async fn place(&mut self, limit: Duration, invariant: &'static str, when: &str) {
        let at_ms = self.at_ms();
        if !self.checker.places().has_room() {
            return;
        }
        let probe = self.cluster.create_probe();
        let cluster = &mut self.cluster;
        let bound = timeout(limit, async {
            let mut lived = Instant::now();
            while !cluster.is_bound(&probe) {
                sleep(Duration::from_millis(20)).await;
                if lived.elapsed() >= MOMENT {
                    lived = Instant::now();
                    cluster.live(true);
                }
            }
        });
        let is_late = bound.await.is_err();
        self.check();
        // A pod of higher priority may have taken the room.
        if is_late && self.checker.places().has_room() {
            let said = self.outlooks(&format!("default/{probe}")).await;
            self.checker.note(
                invariant,
                format!("{probe} is feasible and not bound within {limit:?} {when}{said}"),
                at_ms,
            );
        }
    }

    /// Ends the leader, and checks that another takes over.
    async fn fail_over(&mut self) {
        let leader = self.cluster.leader();
        let leads = |coordinator: &Coordinator| coordinator.name() == leader.as_deref();
        let Some(index) = self.coordinators.iter().position(leads) else { return };
        if self.coordinators.iter().filter(|coordinator| coordinator.is_running()).count() < 2 {
            return;
        }
        let is_killed = self.seed.happens(500);
        if is_killed {
            self.coordinators[index].kill(&self.setup.api);
        } else {
            self.coordinators[index].terminate();
        }
        let limit = if is_killed { CRASHED } else { HANDED_OVER };
        self.place(limit, "L6", "after its leader has ended").await;
    }

    /// Checks that a coordinator without history finds nothing to do.
    async fn ask_a_new_process(&mut self) {
        let Self { coordinators, setup, .. } = self;
        coordinators.iter_mut().for_each(|coordinator| coordinator.kill(&setup.api));
        let (places, (_, evictions)) = (self.checker.places(), self.checker.counts());
        let waiting = places.waiting();
        // A nominated pod may be blocked by affinity or spread, of itself or of a pod on its node. It may keep the room until it is
        // flushed, as in kube-scheduler: the end of a terminating pod wakes it only if the plugins that rejected it registered that event.
        let keeps_room = places.has_blocked_nomination();
        let mut fresh = Coordinator::new(99);
        fresh.start(&self.setup);
        let end = Instant::now() + TAKEOVER;
        while Instant::now() < end && fresh.name() != self.cluster.leader().as_deref() {
            self.pass(MOMENT).await;
        }
        self.pass(TRIED).await;
        let (left, preempted) = (self.checker.places().waiting(), self.checker.counts().1 > evictions);
        let at_ms = self.at_ms();
        // The obstacle to a preemption may disappear without an event that the rejecting plugins registered. Examples: a pod is added that
        // changes the spread, a terminating pod outside the affinity ends, or a node gets devices but had too little CPU. kube-scheduler
        // does not wake the pod either.
        let places = self.checker.places();
        if keeps_room || preempted && waiting.difference(&left).any(|pod| places.minds_others(pod)) {
            return;
        }
        for pod in waiting.difference(&left) {
            self.checker.note("L2", format!("{pod} waited until another process tried it"), at_ms);
        }
    }

    fn at_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn check(&mut self) {
        let Self { setup, checker, .. } = self;
        setup.api.look(|store| checker.follow(store.history()));
        let (unstopped, work, at_ms) = (setup.workers.take_unstopped(), take_most(), self.at_ms());
        let mut note = |invariant, what| self.checker.note(invariant, what, at_ms);
        panics::take().into_iter().for_each(|panic| note("O1", panic));
        if work > WORK && self.most_work <= WORK {
            note("W1", format!("an event took {work} units of work; the bound is {WORK}"));
        }
        for _ in 0..unstopped {
            note("W2", "a worker repeated an answer thousands of times and was not disconnected".to_owned());
        }
        self.most_work = self.most_work.max(work);
    }

    fn verdict(mut self) -> RunOutcome {
        self.check();
        let (binds, evictions) = self.checker.counts();
        RunOutcome {
            violations: self.checker.violations().to_vec(),
            hash: self.checker.hash(),
            commits: self.setup.api.look(|store| store.history().len()) as u64,
            binds,
            evictions,
            most_work: self.most_work,
            lasted: self.began.elapsed(),
            recent: self.checker.recent().collect(),
        }
    }
}
