//! One run from its plan to its verdict: a phase in which anything may go wrong, and a quiet one in which all must be well.
//!
//! Knows: the order of things. Must not know: what any of them does.

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

/// The most work that one event may take, in units of some 10 ns, in clusters as small as these, whatever their objects contain. An
/// event ends after 30,000 units, 512 times fewer than elsewhere, and the attempt that is under way then: 200,000 until its own bound, and
/// 450,000 for one pattern that goes beyond it. 2,048 requirements that come into play take 300,000, and 40 pods with 1,024
/// labels that are signed 400,000.
const WORK: u64 = 1_500_000;

/// The time of day when each run begins, seconds since 1970: a day in 2026.
pub const BEGAN_S: u64 = 1_780_000_000;
/// How long the quiet phase is where what was lost stays so: a watch that tells nothing is noticed after 65 s. It is less than the
/// five minutes after which a pod that waits is tried without a reason, so that a lost event shows.
const QUIET: Duration = Duration::from_secs(150);
/// The same at most where the network says what it has lost.
const MENDED: Duration = Duration::from_secs(40);
/// Where so long nothing but the Lease is written while a process leads, all that was lost is made up for: a watch that was refused
/// often rests for up to 15 s, a pod that failed for 10 s.
const REST: Duration = Duration::from_secs(18);
/// Between two looks.
const MOMENT: Duration = Duration::from_millis(500);
/// How long a pod may wait when all is well: the search for a place takes no time here, a request a few milliseconds.
const PROMPT: Duration = Duration::from_secs(5);
/// How long until all that fits is placed, whatever it waited for before: the longest backoff is ten seconds.
const SOON: Duration = Duration::from_secs(16);
/// What happens in any cluster.
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
/// The same where nodes have devices.
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
/// Of how many pods the coordinators are asked when something is wrong.
const ASKED: usize = 2;
/// How long it takes until what has been decided is carried out, volumes included.
const SETTLED: Duration = Duration::from_secs(2);
/// How long it takes until a pod is bound by another process after its leader was killed: the rest of its lease, what is left of a
/// try to get it, and a bookmark, which comes within 2.3 s.
const CRASHED: Duration = Duration::from_secs(9);
/// The same after its leader was told to end.
const HANDED_OVER: Duration = Duration::from_secs(3);
/// How long a process that starts anew waits for the Lease of one that was killed, and for its lists.
const TAKEOVER: Duration = Duration::from_secs(30);
/// How long it takes then until it has tried every pod: it waits for a bookmark, which comes within 2.3 s.
const TRIED: Duration = Duration::from_secs(5);

/// What came of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What must not be and was.
    pub violations: Vec<Violation>,
    /// The same for the same plan.
    pub hash: u64,
    /// How many commits there were.
    pub commits: u64,
    /// How many bindings by coordinators.
    pub binds: u64,
    /// How many evictions by coordinators.
    pub evictions: u64,
    /// The most work that an event has taken.
    pub most_work: u64,
    /// How long it was by its own clock.
    pub lasted: Duration,
    /// The last commits.
    pub recent: Vec<Line>,
}

/// Runs a plan to its end.
///
/// # Panics
/// When the operating system gives nothing to make a runtime of.
#[must_use]
pub fn run(plan: &Plan) -> Outcome {
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

/// Ends a task with what it is for.
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
    /// The version when the run began.
    first_version: u64,
    /// Which coordinators are cut off.
    cut_off: Vec<String>,
    /// Which hear nothing, and until when.
    deaf: Vec<(Instant, String)>,
    /// The most work that an event has taken.
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

    /// All is well from now on, and what fits must be placed.
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
                // Another process leads by then, and has tried what waited for the end of its backoff.
                self.pass(SOON).await;
            }
            self.settle().await;
            self.ask_a_new_process().await;
        }
    }

    /// What was lost is found out and made up for.
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

    /// Whether a process that runs has the Lease.
    fn is_led(&self) -> bool {
        let leader = self.cluster.leader();
        leader.is_some() && self.coordinators.iter().any(|coordinator| coordinator.name() == leader.as_deref())
    }

    /// How many commits there were but for those of the Lease.
    fn written(&self) -> usize {
        self.setup.api.look(|store| store.history().len() - store.changed(Kind::Lease))
    }

    /// What happens in any cluster, while nothing goes wrong but a worker: each time all that fits is placed soon.
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

    /// Time passes, in which the cluster lives.
    async fn pass(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.cluster.live(true);
            sleep(MOMENT.min(end - Instant::now())).await;
            self.check();
        }
    }

    /// What has been decided is carried out; preemption takes several rounds where a worker is silent.
    async fn settle(&mut self) {
        let end = Instant::now() + SOON;
        self.pass(SETTLED).await;
        while Instant::now() < end && self.checker.places().are_leaving() {
            self.pass(SETTLED).await;
        }
    }

    /// Pods that wait although there is room, with what the coordinators say of the first ones.
    async fn look_for_stranded(&mut self) {
        let (stranded, at_ms) = (self.checker.stranded(), self.at_ms());
        for (index, (pod, what)) in stranded.into_iter().enumerate() {
            let said = if index < ASKED { self.outlooks(&pod).await } else { String::new() };
            self.checker.note("L1", format!("{what}{said}"), at_ms);
        }
    }

    /// What each coordinator says of a pod, by `namespace/name`.
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

    /// A pod that fits is placed at once, and what waits does not fit.
    async fn place_promptly(&mut self) {
        self.place(PROMPT, "L5", "although all is well").await;
    }

    /// A pod that fits is placed within so long.
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
        // A pod of higher priority may have got the room meanwhile.
        if is_late && self.checker.places().has_room() {
            let said = self.outlooks(&format!("default/{probe}")).await;
            self.checker.note(invariant, format!("{probe} fits and is not bound within {limit:?} {when}{said}"), at_ms);
        }
    }

    /// The leader ends, and another one goes on.
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

    /// A coordinator that knows nothing of what was finds nothing to do.
    async fn ask_a_new_process(&mut self) {
        let Self { coordinators, setup, .. } = self;
        coordinators.iter_mut().for_each(|coordinator| coordinator.kill(&setup.api));
        let (places, (_, evictions)) = (self.checker.places(), self.checker.counts());
        let waiting = places.waiting();
        // A nominated pod that affinity or spread keeps off its node, its own or that of a pod there, may keep that room until it is
        // flushed, as with kube-scheduler: the end of a terminating pod wakes it only if the plugins that refused it wait for that event.
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
        // What keeps a pod from preempting may end without an event that the plugins that refused it wait for: a pod is added that
        // changes its spread, a terminating pod is gone that its affinity does not name, or a node gets devices whose CPU was too
        // small already. kube-scheduler does not wake it either.
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
            note("W1", format!("an event takes {work} units of work, and {WORK} is the bound"));
        }
        for _ in 0..unstopped {
            note("W2", "a worker repeats a word thousands of times and is not given up".to_owned());
        }
        self.most_work = self.most_work.max(work);
    }

    fn verdict(mut self) -> Outcome {
        self.check();
        let (binds, evictions) = self.checker.counts();
        Outcome {
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
