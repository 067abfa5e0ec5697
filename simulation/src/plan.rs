//! What happens in a run, before it begins: who takes part, what goes wrong, and how often.
//!
//! Knows: how all that is drawn from a seed, and how to make a run smaller. Must not know: how anything of it is done.

use crate::{api::Faults, seed::Seed};

/// Something that is done to the cluster or to what runs in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deed {
    /// A few pods are created.
    Create,
    /// A pod of high priority is created.
    CreateUrgent,
    /// A pod is deleted.
    Delete,
    /// A pod is deleted at once, and one of the same name with another shape is created.
    Recreate,
    /// A node is added.
    AddNode,
    /// A node is removed, with its pods.
    RemoveNode,
    /// A node is cordoned, or not any more.
    Cordon,
    /// A node has less or more of its resources.
    Resize,
    /// A pod of another scheduler is bound.
    Foreign,
    /// A coordinator is killed.
    Kill,
    /// A coordinator is told to end.
    Terminate,
    /// A coordinator that is not there is started.
    Start,
    /// A coordinator is cut off from the API server, or not any more.
    Partition,
    /// The API server restarts.
    RestartApi,
    /// The API server is restored to an earlier state.
    RestoreApi,
    /// A worker ends, and another one is there soon.
    RestartWorker,
    /// The connections to a worker break.
    CutWorker,
    /// A worker hears and says nothing for a while.
    SilenceWorker,
    /// A worker is late, lies, or behaves again.
    Mislead,
    /// A coordinator hears nothing of the API server for a while, which goes on hearing it.
    Deafen,
    /// A pod with a volume is created.
    CreateWithVolume,
    /// A set of pods is created, whose controller makes them anew.
    CreateSet,
    /// A set of pods gets another size.
    Scale,
    /// A disruption budget is created.
    Protect,
    /// Some pods run to their end.
    Finish,
    /// A pod with claims of devices is created.
    CreateWithDevices,
    /// A claim is deleted, or a pod that has some.
    DeleteClaim,
    /// A node has other devices, or some of them are healthy again or not any more.
    ChangeDevices,
    /// A rule taints devices, or such a rule is deleted.
    Taint,
    /// A class of devices selects others, or is deleted or created again.
    ChangeClass,
    /// A Service is created, changed or deleted.
    Serve,
    /// A disruption budget is changed or deleted.
    Unprotect,
    /// Objects are created that cost much, or a worker says too much.
    Hostile,
}

/// Objects and workers that cost others more than themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Hostile {
    /// A claim whose selector formats a number with 100,000 digits.
    Precision,
    /// A claim whose selector sorts numbers among which some are none.
    Unordered,
    /// A claim whose selector has loops within loops.
    Loops,
    /// A claim whose selector compiles a large pattern in each round.
    Pattern,
    /// A claim whose selector makes large texts of small ones.
    Replacement,
    /// A claim that is searched for in vain in very many ways.
    Search,
    /// Many pods, each with a claim of its own that fits nowhere.
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
    /// Pods whose bindings a webhook turns away.
    Denied,
    /// Pods for which a plugin panics.
    Plugin,
    /// Workers that repeat what they say.
    Chatter,
}

impl Hostile {
    /// All of them.
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
    /// All of them, with how often each is done if it is not switched off.
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

    /// What runs with devices do besides, which other runs do not draw.
    pub const WITH_DEVICES: [(Self, u32); 7] = [
        (Self::CreateWithDevices, 40),
        (Self::DeleteClaim, 4),
        (Self::ChangeDevices, 5),
        (Self::Taint, 6),
        (Self::ChangeClass, 2),
        (Self::Serve, 2),
        (Self::Unprotect, 2),
    ];

    /// Those that are about volumes.
    const STORAGE: [Self; 1] = [Self::CreateWithVolume];
}

/// How many of 1,000 runs have devices: each kind of objects more that is watched costs time.
const WITH_DEVICES: u16 = 150;
/// How many of 1,000 of these have something hostile, which takes long to write and to read; and how often it is done.
const HOSTILE: u16 = 200;
const OF_HOSTILE: u32 = 8;

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What all else is drawn from.
    pub seed: u64,
    /// How many coordinators: 1 to 5.
    pub coordinators: usize,
    /// How many workers: 0 to 8.
    pub workers: usize,
    /// How many nodes there are at first.
    pub nodes: u64,
    /// How many things are done before the quiet phase.
    pub steps: u32,
    /// The longest pause between two of them, milliseconds.
    pub pace_ms: u64,
    /// What is done, and how often.
    pub deeds: Vec<(Deed, u32)>,
    /// What goes wrong between the coordinators and the API server.
    pub faults: Faults,
    /// Whether the API server has WatchList.
    pub lists_by_watch: bool,
    /// Whether pods may have volumes.
    pub with_volumes: bool,
    /// Whether nodes have devices that pods may claim.
    pub with_devices: bool,
    /// What is hostile in it; `None`: nothing.
    pub hostile: Option<Hostile>,
    /// Whether pods of a Service or a set are spread by default.
    pub spreads: bool,
    /// How many of 1,000 pods that are created or to be evicted are replaced a moment later by others of their names.
    pub replaced: u16,
    /// The quiet phase begins with the network telling what it has lost; else that is found out.
    pub mends: bool,
    /// How many things are done once all is well.
    pub calm: u32,
    /// Events reach the API server; else they are taken at once.
    pub with_events: bool,
    /// At the end a new process must find nothing to do.
    pub asks_anew: bool,
    /// The defect that is planted.
    pub defect: Option<&'static str>,
}

impl Plan {
    /// The run of a seed. Half of the faults and a third of the deeds are switched off in each, so that the others show what they
    /// do by themselves.
    #[must_use]
    pub fn draw(number: u64) -> Self {
        let mut seed = Seed::new(number).fork("plan");
        // Without pods and coordinators nothing can be seen.
        let needed = [Deed::Create, Deed::Start];
        let with_volumes = seed.happens(300);
        let is_left_out = |deed| Deed::STORAGE.contains(&deed) && !with_volumes;
        let deeds = Deed::ALL
            .into_iter()
            .filter(|(deed, _)| needed.contains(deed) || (!seed.happens(333) && !is_left_out(*deed)));
        let mut deeds: Vec<_> = deeds.collect();
        // A generator of their own, so that runs without devices are what they were before there were any.
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
            // Most runs are small: more of them find more than larger ones do in the same time.
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

    /// The same run with devices and this in it.
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

    /// Runs that are a little smaller than this one, the smallest first.
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

    /// What is done next.
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
