//! One run from its plan to its verdict: a phase in which anything may go wrong, and a quiet one in which all must be well.
//!
//! Knows: the order of things. Must not know: what any of them does.

use std::time::Duration;

use flotilla_framework::{registry::Registry, testing};
use flotilla_machine::outlook::PodName;
use flotilla_planted::plant;
use flotilla_runtime::surroundings;
use tokio::{
    runtime::Builder,
    time::{Instant, sleep, timeout},
};

use crate::{
    api::{Api, Faults, Options},
    check::{Checker, Violation},
    cluster::Cluster,
    coordinator::{self, Coordinator, Setup},
    panics,
    plan::{Deed, Plan},
    seed::Seed,
    workers::{Manner, Workers},
};

/// The time of day when each run begins, seconds since 1970: a day in 2026.
pub const BEGAN_S: u64 = 1_780_000_000;
/// How long the quiet phase is: a watch that has failed often rests for up to a minute, and pods that failed for up to ten
/// seconds. It is less than the five minutes after which a pod that waits is tried without a reason, so that a lost event shows.
const QUIET: Duration = Duration::from_secs(150);
/// How long a pod may wait when all is well: the search for a place takes no time here, a request a few milliseconds.
const PROMPT: Duration = Duration::from_secs(5);
/// How long until all that fits is placed, whatever it waited for before: the longest backoff is ten seconds.
const SOON: Duration = Duration::from_secs(16);
/// What happens in any cluster.
const CALM: [Deed; 9] = [
    Deed::Create,
    Deed::CreateUrgent,
    Deed::Delete,
    Deed::Recreate,
    Deed::AddNode,
    Deed::RemoveNode,
    Deed::Cordon,
    Deed::Resize,
    Deed::SilenceWorker,
];
const CALM_DEEDS: usize = 8;
/// Of how many pods the coordinators are asked when something is wrong.
const ASKED: usize = 2;
/// How long a process that starts anew waits for the Lease of one that was killed, and for its lists.
const TAKEOVER: Duration = Duration::from_secs(30);

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// How long it was by its own clock.
    pub lasted: Duration,
    /// The last commits.
    pub recent: Vec<String>,
}

/// Runs a plan to its end.
///
/// # Panics
/// When the operating system gives nothing to make a runtime of.
#[must_use]
pub fn run(plan: &Plan) -> Outcome {
    let runtime =
        Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime without I/O");
    plant(plan.defect);
    let outcome = runtime.block_on(async {
        surroundings::hold(plan.seed, Duration::from_secs(BEGAN_S));
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
}

impl<'a> Course<'a> {
    fn new(plan: &'a Plan) -> Self {
        let seed = Seed::new(plan.seed);
        let options = Options {
            epoch_s: i64::try_from(BEGAN_S).unwrap_or(0),
            lists_by_watch: plan.lists_by_watch,
            ..Options::default()
        };
        let registry = Registry::built_in();
        let api = Api::new(seed.fork("api"), options);
        let workers = Workers::new(seed.fork("workers"), plan.workers, registry);
        let mut profile = testing::profile();
        profile.plugins.post_filter = vec!["DefaultPreemption".to_owned()];
        profile.plugins.pre_enqueue.push("DefaultPreemption".to_owned());
        let cluster = Cluster::new(api.clone(), seed.fork("cluster"), plan.nodes);
        let first_version = api.look(|store| store.version());
        let setup = Setup { api, workers, profiles: vec![profile], registry };
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
        };
        course.check();
        course
    }

    async fn chaos(&mut self) {
        self.setup.api.set_faults(self.plan.faults);
        for _ in 0..self.plan.steps {
            sleep(Duration::from_millis(self.seed.between(1, self.plan.pace_ms))).await;
            if let Some(deed) = self.plan.deed(&mut self.seed) {
                tracing::debug!(?deed, at_ms = self.at_ms(), "deed");
                self.act(deed);
            }
            self.cluster.kubelets(false);
            self.check();
        }
    }

    /// All is well from now on, and what fits must be placed.
    async fn quiet(&mut self) {
        self.setup.api.set_faults(Faults::NONE);
        for name in std::mem::take(&mut self.cut_off) {
            self.setup.api.partition(&name, false);
        }
        self.setup.workers.heal();
        self.cluster.uncordon_all();
        let end = Instant::now() + QUIET;
        while Instant::now() < end {
            self.start_all();
            self.cluster.kubelets(true);
            sleep(Duration::from_secs(1)).await;
            self.check();
        }
        self.checker.all_is_well();
        self.look_for_stranded().await;
        self.calm().await;
        self.place_promptly().await;
        self.ask_a_new_process().await;
    }

    /// What happens in any cluster, while nothing goes wrong but a worker: each time all that fits is placed soon.
    async fn calm(&mut self) {
        for _ in 0..CALM_DEEDS {
            let deed = self.seed.pick(&CALM).copied().unwrap_or(Deed::Create);
            tracing::debug!(?deed, at_ms = self.at_ms(), "calm deed");
            match deed {
                Deed::SilenceWorker => self.silence_worker(2 * SOON),
                deed => self.act(deed),
            }
            let end = Instant::now() + SOON;
            while Instant::now() < end {
                self.cluster.kubelets(true);
                sleep(Duration::from_secs(1)).await;
                self.check();
            }
            self.look_for_stranded().await;
        }
    }

    /// Pods that wait although there is room, with what the coordinators say of the first ones.
    async fn look_for_stranded(&mut self) {
        let (stranded, at_ms) = (self.checker.places().stranded(), self.at_ms());
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
        let at_ms = self.at_ms();
        if !self.checker.places().has_room() {
            return;
        }
        let probe = self.cluster.create_probe();
        let bound = timeout(PROMPT, async {
            while !self.cluster.is_bound(&probe) {
                sleep(Duration::from_millis(20)).await;
            }
        });
        if bound.await.is_err() {
            self.checker.note(
                "L5",
                format!("{probe} fits and is not bound within {PROMPT:?} although all is well"),
                at_ms,
            );
        }
        self.check();
    }

    /// A coordinator that knows nothing of what was finds nothing to do.
    async fn ask_a_new_process(&mut self) {
        let Self { coordinators, setup, .. } = self;
        coordinators.iter_mut().for_each(|coordinator| coordinator.kill(&setup.api));
        let waiting = self.checker.places().waiting();
        let mut fresh = Coordinator::new(99);
        fresh.start(&self.setup);
        let end = Instant::now() + TAKEOVER;
        while Instant::now() < end {
            sleep(Duration::from_secs(1)).await;
            self.cluster.kubelets(true);
            self.check();
        }
        let left = self.checker.places().waiting();
        let at_ms = self.at_ms();
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
        let at_ms = self.at_ms();
        for panic in panics::take() {
            self.checker.note("O1", panic, at_ms);
        }
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
            lasted: self.began.elapsed(),
            recent: self.checker.recent().map(str::to_owned).collect(),
        }
    }

    fn act(&mut self, deed: Deed) {
        match deed {
            Deed::Create => self.cluster.create_pods(),
            Deed::CreateUrgent => self.cluster.create_urgent(),
            Deed::Delete => self.cluster.delete_pod(),
            Deed::Recreate => self.cluster.recreate_pod(),
            Deed::AddNode => self.cluster.add_node(),
            Deed::RemoveNode => self.cluster.remove_node(),
            Deed::Cordon => self.cluster.cordon(),
            Deed::Resize => self.cluster.resize(),
            Deed::Foreign => self.cluster.create_foreign(),
            Deed::Kill | Deed::Terminate | Deed::Start | Deed::Partition => self.act_on_coordinator(deed),
            Deed::RestartApi => self.setup.api.restart(Duration::from_millis(self.seed.between(10, 10_000))),
            Deed::RestoreApi => self.restore(),
            Deed::RestartWorker | Deed::CutWorker | Deed::SilenceWorker | Deed::Mislead => self.act_on_worker(deed),
        }
    }

    fn act_on_coordinator(&mut self, deed: Deed) {
        let index = usize::try_from(self.seed.below(self.coordinators.len() as u64)).unwrap_or(0);
        let Some(coordinator) = self.coordinators.get_mut(index) else { return };
        match deed {
            Deed::Kill => coordinator.kill(&self.setup.api),
            Deed::Terminate => coordinator.terminate(),
            Deed::Start => coordinator.start(&self.setup),
            _ => {
                let Some(name) = coordinator.name().map(str::to_owned) else { return };
                // The election has a connection of its own.
                let election = coordinator::election_of(&name);
                let names = [name, election];
                let first = usize::from(self.seed.happens(333));
                let count = if self.seed.happens(500) { 2 } else { first + 1 };
                for name in &names[first..count.max(first + 1)] {
                    let was_cut_off = self.cut_off.contains(name);
                    self.cut_off.retain(|cut_off| cut_off != name);
                    self.setup.api.partition(name, !was_cut_off);
                    if !was_cut_off {
                        self.cut_off.push(name.clone());
                    }
                }
            }
        }
    }

    /// The API server goes back by some commits; what was there when the run began stays.
    fn restore(&mut self) {
        self.check();
        let version = self.setup.api.look(|store| store.version()).saturating_sub(self.seed.below(60));
        let down = Duration::from_millis(self.seed.between(10, 5_000));
        self.setup.api.restore_and_bump(down, version.max(self.first_version));
        let (at_ms, checker) = (self.at_ms(), &mut self.checker);
        self.setup.api.look(|store| checker.restored(store, at_ms));
    }

    fn act_on_worker(&mut self, deed: Deed) {
        let index = usize::try_from(self.seed.below(self.plan.workers as u64)).unwrap_or(0);
        let (workers, seed) = (&self.setup.workers, &mut self.seed);
        match deed {
            Deed::RestartWorker => workers.restart(index, Duration::from_millis(seed.below(5_000))),
            Deed::CutWorker => workers.cut(index),
            Deed::SilenceWorker => workers.silence(index, Duration::from_millis(seed.below(8_000))),
            _ => {
                let delay_ms = [0, 20, 300, 3_000][usize::try_from(seed.below(4)).unwrap_or(0)];
                let lies_per_mille = [0, 0, 50, 500][usize::try_from(seed.below(4)).unwrap_or(0)];
                workers.behave(index, Manner { delay_ms, lies_per_mille });
            }
        }
    }
}
