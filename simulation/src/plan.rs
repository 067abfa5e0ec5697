//! Plan of a run, drawn from its seed: processes, faults and their rates.

use crate::{api::Faults, seed::Seed};

/// An action on the cluster or on its processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deed {
    /// Creates a few pods.
    Create,
    /// Creates a pod of high priority.
    CreateUrgent,
    /// Deletes a pod.
    Delete,
    /// Replaces a pod by a different one of the same name.
    Recreate,
    /// Adds a node.
    AddNode,
    /// Removes a node with its pods.
    RemoveNode,
    /// Cordons or uncordons a node.
    Cordon,
    /// Changes a node's resources.
    Resize,
    /// Binds a pod of another scheduler.
    Foreign,
    /// Kills a coordinator.
    Kill,
    /// Sends SIGTERM to a coordinator.
    Terminate,
    /// Starts a stopped coordinator.
    Start,
    /// Starts or ends a coordinator's partition from the API server.
    Partition,
    /// Restarts the API server.
    RestartApi,
    /// Restores the API server to an earlier state.
    RestoreApi,
    /// Restarts a worker.
    RestartWorker,
    /// Breaks the connections to a worker.
    CutWorker,
    /// Hangs a worker for a while.
    SilenceWorker,
    /// Makes a worker slow, incorrect or correct again.
    Mislead,
    /// One-way partition: a coordinator receives nothing from the API server, which receives its requests.
    Deafen,
    /// Creates a pod with a volume.
    CreateWithVolume,
    /// Creates a set of pods, with a controller that recreates them.
    CreateSet,
    /// Scales a set.
    Scale,
    /// Creates a disruption budget.
    Protect,
    /// Ends some pods.
    Finish,
    /// Creates a pod with device claims.
    CreateWithDevices,
    /// Deletes a claim, or a pod with claims.
    DeleteClaim,
    /// Changes a node's devices or their health.
    ChangeDevices,
    /// Creates or deletes a device taint rule.
    Taint,
    /// Changes, deletes or restores a device class.
    ChangeClass,
    /// Creates, changes or deletes a Service.
    Serve,
    /// Changes or deletes a disruption budget.
    Unprotect,
    /// Creates costly objects, or lets a worker flood a coordinator.
    Hostile,
}

/// Costly objects and workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Hostile {
    /// A selector that formats a number with 100,000 digits.
    Precision,
    /// A selector that sorts numbers including NaN.
    Unordered,
    /// A selector with nested loops.
    Loops,
    /// A selector that compiles a large pattern in each round.
    Pattern,
    /// A selector that builds large texts from small ones.
    Replacement,
    /// An unsatisfiable claim with very many combinations.
    Search,
    /// Many pods, each with an unsatisfiable claim.
    OwnClaims,
    /// Pods with many labels, and one that selects by all of them.
    Labels,
    /// A node with many labels.
    NodeLabels,
    /// A node with many resources.
    NodeResources,
    /// Services and disruption budgets with large selectors.
    Selectors,
    /// Pods with many host ports.
    Ports,
    /// Pods with bindings that a webhook denies.
    Denied,
    /// Pods for which a plugin panics.
    Plugin,
    /// Workers that repeat an answer many times.
    Chatter,
}

impl Hostile {
    /// All kinds.
    pub const ALL: [Self; 15] = [
        Self::Precision,
        Self::Unordered,
        Self::Loops,
        Self::Pattern,
        Self::Replacement,
        Self::Search,
        Self::OwnClaims,
        Self::Labels,
        Self::NodeLabels,
        Self::NodeResources,
        Self::Selectors,
        Self::Ports,
        Self::Denied,
        Self::Plugin,
        Self::Chatter,
    ];
}

impl Deed {
    /// All actions with their weights.
    pub const ALL: [(Self, u32); 25] = [
        (Self::Create, 40),
        (Self::CreateUrgent, 12),
        (Self::Delete, 20),
        (Self::Recreate, 8),
        (Self::AddNode, 3),
        (Self::RemoveNode, 3),
        (Self::Cordon, 4),
        (Self::Resize, 4),
        (Self::Foreign, 6),
        (Self::Kill, 3),
        (Self::Terminate, 3),
        (Self::Start, 8),
        (Self::Partition, 3),
        (Self::RestartApi, 1),
        (Self::RestoreApi, 1),
        (Self::RestartWorker, 4),
        (Self::CutWorker, 4),
        (Self::SilenceWorker, 4),
        (Self::Mislead, 4),
        (Self::Deafen, 3),
        (Self::CreateWithVolume, 10),
        (Self::CreateSet, 3),
        (Self::Scale, 4),
        (Self::Protect, 3),
        (Self::Finish, 4),
    ];

    /// Additional actions of runs with devices.
    pub const WITH_DEVICES: [(Self, u32); 7] = [
        (Self::CreateWithDevices, 40),
        (Self::DeleteClaim, 4),
        (Self::ChangeDevices, 5),
        (Self::Taint, 6),
        (Self::ChangeClass, 2),
        (Self::Serve, 2),
        (Self::Unprotect, 2),
    ];

    /// Actions with volumes.
    const STORAGE: [Self; 1] = [Self::CreateWithVolume];
}

/// Per thousand runs, those with devices: each watched kind costs time.
const WITH_DEVICES: u16 = 150;
/// Per thousand of these, those with hostile objects, which are slow to write and read; and the number of such actions.
const HOSTILE: u16 = 200;
const OF_HOSTILE: u32 = 8;

/// Plan of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Seed of everything else.
    pub seed: u64,
    /// Number of coordinators: 1 to 5.
    pub coordinators: usize,
    /// Number of workers: 0 to 8.
    pub workers: usize,
    /// Initial number of nodes.
    pub nodes: u64,
    /// Number of actions before the quiet phase.
    pub steps: u32,
    /// Maximum pause between actions, milliseconds.
    pub pace_ms: u64,
    /// Actions with weights.
    pub deeds: Vec<(Deed, u32)>,
    /// Faults between the coordinators and the API server.
    pub faults: Faults,
    /// Whether the API server supports WatchList.
    pub lists_by_watch: bool,
    /// Whether pods may have volumes.
    pub with_volumes: bool,
    /// Whether nodes have devices.
    pub with_devices: bool,
    /// Hostile objects, if any.
    pub hostile: Option<Hostile>,
    /// Whether pods of a Service or a set have default spread constraints.
    pub spreads: bool,
    /// Per thousand created or evicted pods, those replaced by others of the same name.
    pub replaced: u16,
    /// Whether losses are reported at the start of the quiet phase; otherwise clients must detect them.
    pub mends: bool,
    /// Number of actions after faults have ended.
    pub calm: u32,
    /// Whether events reach the API server; otherwise they are discarded.
    pub with_events: bool,
    /// Whether a new process must find nothing to do at the end.
    pub asks_anew: bool,
    /// Planted defect.
    pub defect: Option<&'static str>,
}

impl Plan {
    /// The plan of a seed. Half of the faults and a third of the actions are off in each, so that the others show their isolated effects.
    #[must_use]
    pub fn draw(number: u64) -> Self {
        let mut seed = Seed::new(number).fork("plan");
        // A run without pods or coordinators tests nothing.
        let needed = [Deed::Create, Deed::Start];
        let with_volumes = seed.happens(300);
        let is_left_out = |deed| Deed::STORAGE.contains(&deed) && !with_volumes;
        let deeds = Deed::ALL
            .into_iter()
            .filter(|(deed, _)| needed.contains(deed) || (!seed.happens(333) && !is_left_out(*deed)));
        let mut deeds: Vec<_> = deeds.collect();
        // A separate generator, so that runs without devices do not depend on it.
        let mut of_devices = Seed::new(number).fork("devices");
        let with_devices = of_devices.happens(WITH_DEVICES);
        if with_devices {
            let is_done = |(deed, _): &(Deed, u32)| *deed == Deed::CreateWithDevices || !of_devices.happens(333);
            deeds.extend(Deed::WITH_DEVICES.into_iter().filter(is_done));
        }
        let is_hostile = with_devices && of_devices.happens(HOSTILE);
        let hostile = if is_hostile { of_devices.pick(&Hostile::ALL).copied() } else { None };
        deeds.extend(hostile.map(|_| (Deed::Hostile, OF_HOSTILE)));
        Self {
            seed: number,
            // Small runs find more in the same time.
            coordinators: seed.between(1, 2) as usize
                + [0, 1, 3][usize::from(seed.happens(300)) + usize::from(seed.happens(50))],
            workers: seed.below(4) as usize + if seed.happens(50) { 5 } else { 0 },
            nodes: seed.between(2, 6),
            steps: (seed.between(6, 20) + if seed.happens(100) { 50 } else { 0 }) as u32,
            pace_ms: seed.between(20, 1_200),
            deeds,
            faults: if seed.happens(200) { Faults::NONE } else { Faults::draw(&mut seed) },
            lists_by_watch: seed.happens(500),
            with_volumes,
            with_devices,
            hostile,
            spreads: seed.happens(150),
            replaced: if seed.happens(300) { 300 } else { 0 },
            mends: seed.happens(850),
            calm: seed.between(2, 6) as u32,
            with_events: seed.happens(250),
            asks_anew: seed.happens(500),
            defect: None,
        }
    }

    /// The same plan with devices and hostile objects of this kind.
    #[must_use]
    pub fn with_hostile(mut self, hostile: Hostile) -> Self {
        if !self.with_devices {
            self.deeds.extend(Deed::WITH_DEVICES);
        }
        self.deeds.retain(|(deed, _)| *deed != Deed::Hostile);
        self.deeds.push((Deed::Hostile, OF_HOSTILE));
        (self.with_devices, self.hostile) = (true, Some(hostile));
        self
    }

    /// Slightly smaller plans, the smallest first.
    #[must_use]
    pub fn smaller(&self) -> Vec<Self> {
        let mut smaller = Vec::new();
        let mut add = |change: &dyn Fn(&mut Self)| {
            let mut plan = self.clone();
            change(&mut plan);
            if plan != *self {
                smaller.push(plan);
            }
        };
        add(&|plan| plan.faults = Faults::NONE);
        add(&|plan| plan.steps /= 2);
        add(&|plan| plan.steps = plan.steps.saturating_sub(plan.steps / 8 + 1));
        add(&|plan| plan.workers /= 2);
        add(&|plan| plan.coordinators = plan.coordinators.div_ceil(2));
        add(&|plan| plan.nodes = plan.nodes.div_ceil(2).max(1));
        add(&|plan| plan.lists_by_watch = false);
        add(&|plan| plan.with_volumes = false);
        add(&|plan| plan.hostile = None);
        add(&|plan| (plan.with_devices, plan.hostile) = (false, None));
        add(&|plan| plan.spreads = false);
        add(&|plan| plan.replaced = 0);
        add(&|plan| plan.mends = true);
        add(&|plan| plan.calm /= 2);
        add(&|plan| plan.with_events = false);
        add(&|plan| plan.asks_anew = false);
        for index in 0..self.deeds.len() {
            add(&|plan| {
                plan.deeds.remove(index);
            });
        }
        for index in 0..Faults::RATES {
            add(&|plan| plan.faults = plan.faults.without(index));
        }
        smaller
    }

    /// Draws the next action.
    pub fn deed(&self, seed: &mut Seed) -> Option<Deed> {
        let all: u32 = self.deeds.iter().map(|(_, often)| often).sum();
        let mut at = u32::try_from(seed.below(u64::from(all))).unwrap_or(0);
        self.deeds
            .iter()
            .find(|(_, often)| {
                let hit = at < *often;
                at = at.saturating_sub(*often);
                hit
            })
            .map(|(deed, _)| *deed)
    }
}
