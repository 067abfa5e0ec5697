//! A shard and its evaluations: a worker without threads and transport.

use std::sync::Arc;

use indexmap::IndexMap;

use crate::{
    class::{Class, ClassId},
    contain::contain,
    evaluate::{Columns, Scratch},
    explain::shard::{self, Page},
    extension::Facts,
    laps::Laps,
    matches::Matches,
    node::NodeId,
    preemption::{DryRun, DryRunResult, Trial},
    prepared::Prepared,
    profile::Profile,
    registry::Registry,
    shard::{Change, Command, Epoch, FromWorker, Generation, Reply, Revision, ToWorker, Unable},
    snapshot::Snapshot,
};

/// The default limit for columns, in bytes. A position costs [`Columns`] 16 bytes: 838 classes fit at 5,000 nodes, 16 at 1,000,000 nodes
/// over 4 workers.
const COLUMNS_BYTES: usize = 64 << 20;

const POSITION_BYTES: usize = 16;

/// One shard.
#[derive(Debug)]
pub struct Replica {
    registry: Registry,
    epoch: Epoch,
    revision: Revision,
    generation: Generation,
    profiles: IndexMap<Arc<str>, Profile>,
    nodes: Snapshot,
    warm: IndexMap<(Arc<str>, ClassId), Warm>,
    spare: Vec<Columns>,
    scratch: Scratch,
    clock: u64,
    room: usize,
    stats: Stats,
}

#[derive(Debug)]
struct Warm {
    facts: Arc<Facts>,
    prepared: Prepared,
    columns: Columns,
    used: u64,
}

/// Statistics of a replica, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Evaluations answered.
    pub evaluations: u64,
    /// Nodes evaluated for them: those that changed since the class's last evaluation.
    pub nodes_judged: u64,
    /// Nodes on which preemption was tried.
    pub trials: u64,
    /// Commands of an older leader, which are ignored.
    pub stale: u64,
    /// Changes with an unknown node or class. 0 unless the leader has a bug.
    pub unknown: u64,
    /// Columns evicted to free memory.
    pub evicted: u64,
}

impl Replica {
    /// An empty shard with these plugins.
    #[must_use]
    pub fn new(registry: Registry) -> Self {
        Self {
            registry,
            epoch: 0,
            revision: 0,
            generation: 0,
            profiles: IndexMap::new(),
            nodes: Snapshot::new(0),
            warm: IndexMap::new(),
            spare: Vec::new(),
            scratch: Scratch::default(),
            clock: 0,
            room: COLUMNS_BYTES,
            stats: Stats::default(),
        }
    }

    /// Sets the limit for the columns of all classes, in bytes. One class always fits.
    #[must_use]
    pub const fn with_room(mut self, bytes: usize) -> Self {
        self.room = bytes;
        self
    }

    /// Executes a command and returns the reply. Ignores commands of an older leader.
    pub fn apply(&mut self, word: ToWorker) -> Option<FromWorker> {
        self.apply_timed(word, &mut ())
    }

    /// As [`Self::apply`], and times the plugins of an evaluation.
    pub fn apply_timed(&mut self, word: ToWorker, laps: &mut impl Laps) -> Option<FromWorker> {
        if word.epoch < self.epoch {
            self.stats.stale += 1;
            return None;
        }
        if word.epoch > self.epoch {
            self.begin(word.epoch);
        }
        self.revision = word.revision;
        let reply = match word.command {
            Command::Configure { generation, tie_break_seed, profiles } => {
                self.configure(generation, tie_break_seed, &profiles);
                Some(self.applied())
            }
            Command::Snapshot { first, last, changes } => {
                if first {
                    self.nodes.clear_nodes();
                    self.warm.clear();
                }
                self.change(changes);
                last.then(|| self.applied())
            }
            // The owner of the threads assembles modules before it applies the configuration that names them.
            Command::Module { .. } => None,
            Command::Delta { changes } => {
                self.change(changes);
                None
            }
            Command::RegisterClass { id, class } => {
                self.register(id, class);
                None
            }
            Command::ForgetClass { id } => {
                self.nodes.forget_class(id);
                self.warm.retain(|(_, class), _| *class != id);
                None
            }
            Command::Evaluate { request, generation, profile, class, facts, k, trace: _ } => {
                let subject = (generation, &profile, class);
                Some(match self.contained(|replica| replica.evaluate(subject, facts, k as usize, laps)) {
                    Ok(evaluation) => Reply::Evaluated { request, evaluation },
                    Err(why) => Reply::Unable { request, why },
                })
            }
            Command::DryRun { request, generation, profile, class, facts, trials } => {
                Some(match self.dry_run((generation, &profile, class), facts, &trials) {
                    Ok(outcomes) => Reply::DryRunResults { request, outcomes },
                    Err(why) => Reply::Unable { request, why },
                })
            }
            Command::Explain { request, generation, profile, class, facts, after, limit, trace: _ } => {
                let subject = (generation, &profile, class);
                Some(match self.contained(|replica| replica.explain(subject, facts, after, limit as usize)) {
                    Ok(page) => Reply::Explained { request, page },
                    Err(why) => Reply::Unable { request, why },
                })
            }
        };
        reply.map(|reply| FromWorker { epoch: self.epoch, revision: self.revision, reply })
    }

    /// Its plugins.
    #[must_use]
    pub const fn registry(&self) -> Registry {
        self.registry
    }

    /// The epoch of the current leader.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The nodes of the shard, with their pods.
    #[must_use]
    pub const fn nodes(&self) -> &Snapshot {
        &self.nodes
    }

    /// How many nodes the shard has.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.nodes.node_count()
    }

    /// The statistics so far.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// Accepts a new leader. Its numbers have other meanings than the previous leader's, so all state is dropped.
    fn begin(&mut self, epoch: Epoch) {
        *self = Self { epoch, room: self.room, stats: self.stats, ..Self::new(self.registry) };
    }

    fn register(&mut self, id: ClassId, class: Arc<Class>) {
        if self.nodes.class(id).is_some_and(|known| *known != class) {
            self.warm.retain(|(_, warm), _| *warm != id);
        }
        self.nodes.register_class(id, class);
    }

    fn applied(&self) -> Reply {
        Reply::Applied {
            generation: self.generation,
            nodes: u32::try_from(self.nodes.node_count()).unwrap_or(u32::MAX),
        }
    }

    fn configure(&mut self, generation: Generation, seed: u64, profiles: &[Profile]) {
        self.generation = generation;
        self.profiles = profiles.iter().map(|profile| (Arc::clone(&profile.scheduler_name), profile.clone())).collect();
        self.nodes.set_seed(seed);
        self.warm.clear();
    }

    fn change(&mut self, changes: Vec<Change>) {
        let known_texts = self.nodes.symbols.len();
        for change in changes {
            let known = match change {
                Change::UpsertNode { id, node } => {
                    self.nodes.upsert_node(id, &node);
                    true
                }
                Change::RemoveNode { id } => {
                    self.nodes.remove_node(id);
                    true
                }
                Change::SetAttachments { class, attachments } => {
                    let is_known = self.nodes.class(class).is_some();
                    if is_known {
                        self.nodes.set_attachments(class, &attachments);
                    }
                    is_known
                }
                Change::AddPods { node, class, count } => (0..count).all(|_| self.nodes.add_pod(node, class)),
                Change::RemovePods { node, class, count } => (0..count).all(|_| self.nodes.remove_pod(node, class)),
            };
            self.stats.unknown += u64::from(!known);
        }
        self.forget_outdated(known_texts);
    }

    /// Runs plugins that only read the nodes. After a panic it drops all computed results, which may be incomplete. A panic of a dry run is
    /// not contained, because a dry run changes the nodes: it ends the stream and the replica.
    fn contained<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Unable>) -> Result<T, Unable> {
        contain(|| work(self)).unwrap_or_else(|_| {
            self.warm.clear();
            self.spare.clear();
            self.scratch = Scratch::default();
            Err(Unable::Panicked)
        })
    }

    fn evaluate(
        &mut self,
        subject: (Generation, &Arc<str>, ClassId),
        facts: Arc<Facts>,
        k: usize,
        laps: &mut impl Laps,
    ) -> Result<crate::evaluation::Evaluation, Unable> {
        let key = self.warmed(subject, facts)?;
        let Some(warm) = self.warm.get_mut(&key) else { return Err(Unable::Class) };
        let judged = warm.columns.refresh_timed(&warm.prepared, &self.nodes, &mut self.scratch, laps);
        self.stats.evaluations += 1;
        self.stats.nodes_judged += judged as u64;
        warm.columns.answer(&warm.prepared, &self.nodes, k, &mut self.scratch).map_err(|_| Unable::TooManyStrata)
    }

    fn dry_run(
        &mut self,
        subject: (Generation, &Arc<str>, ClassId),
        facts: Arc<Facts>,
        trials: &[Trial],
    ) -> Result<Vec<DryRunResult>, Unable> {
        let key = self.warmed(subject, facts)?;
        let Some(warm) = self.warm.get(&key) else { return Err(Unable::Class) };
        let mut matches = Matches::default();
        matches.refresh(&warm.prepared, &self.nodes);
        let mut dry_run = DryRun::new(&warm.prepared, &self.nodes, &matches);
        self.stats.trials += trials.len() as u64;
        Ok(trials.iter().map(|trial| dry_run.dry_run(&warm.prepared, &mut self.nodes, trial)).collect())
    }

    fn explain(
        &mut self,
        subject: (Generation, &Arc<str>, ClassId),
        facts: Arc<Facts>,
        after: Option<NodeId>,
        limit: usize,
    ) -> Result<Page, Unable> {
        let key = self.warmed(subject, facts)?;
        let Some(warm) = self.warm.get(&key) else { return Err(Unable::Class) };
        Ok(shard::page(&warm.prepared, &self.nodes, after, limit))
    }

    /// Drops classes with a missing string that a node now has, and all classes after a compaction, which renumbers strings.
    fn forget_outdated(&mut self, known_texts: usize) {
        let symbols = &self.nodes.symbols;
        if symbols.len() > known_texts {
            self.warm.retain(|_, warm| !warm.prepared.missing().has_any(symbols.since(known_texts)));
        }
        if self.nodes.is_wasteful() {
            self.nodes.compact();
            self.warm.clear();
        }
    }

    /// The size of its nodes' strings, in bytes.
    #[must_use]
    pub const fn text_bytes(&self) -> usize {
        self.nodes.symbols.bytes()
    }

    fn warmed(
        &mut self,
        (generation, profile, class): (Generation, &Arc<str>, ClassId),
        facts: Arc<Facts>,
    ) -> Result<(Arc<str>, ClassId), Unable> {
        if generation != self.generation {
            return Err(Unable::Generation);
        }
        let key = (Arc::clone(profile), class);
        self.clock += 1;
        if self.warm.get(&key).is_none_or(|warm| warm.facts != facts) {
            self.warm_up(key.clone(), facts)?;
        }
        if let Some(warm) = self.warm.get_mut(&key) {
            warm.used = self.clock;
        }
        Ok(key)
    }

    fn warm_up(&mut self, key: (Arc<str>, ClassId), facts: Arc<Facts>) -> Result<(), Unable> {
        let profile = self.profiles.get(&key.0).ok_or(Unable::Profile)?;
        let class = Arc::clone(self.nodes.class(key.1).ok_or(Unable::Class)?);
        let prepared = Prepared::new(self.registry, profile, &class, &facts, &self.nodes);
        if let Some(old) = self.warm.swap_remove(&key) {
            self.spare.push(old.columns);
        }
        let limit = (self.room / (POSITION_BYTES * self.nodes.capacity().max(1))).max(1);
        while self.warm.len() >= limit {
            let oldest = self.warm.values().enumerate().min_by_key(|(_, warm)| warm.used).map(|(index, _)| index);
            let Some((_, evicted)) = oldest.and_then(|index| self.warm.swap_remove_index(index)) else { break };
            self.stats.evicted += 1;
            self.spare.push(evicted.columns);
        }
        self.spare.truncate(1);
        let mut columns = self.spare.pop().unwrap_or_default();
        columns.forget();
        self.warm.insert(key, Warm { facts, prepared, columns, used: self.clock });
        Ok(())
    }
}
