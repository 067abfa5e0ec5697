//! A shard and all that is computed from it: what a worker is, apart from its threads and its wire.
//!
//! Knows: how each command changes the shard and which reply it earns. Must not know: streams, or other shards.

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
    preemption::{DryRun, Outcome, Trial},
    prepared::Prepared,
    profile::Profile,
    registry::Registry,
    shard::{Change, Command, Epoch, FromWorker, Generation, Reply, Revision, ToWorker, Unable},
    snapshot::Snapshot,
};

/// The bytes that columns of all classes may take unless another bound is set. A position costs [`Columns`] 16 bytes,
/// so at 5,000 nodes 838 classes stay warm, and at 1,000,000 nodes over 4 workers still 16.
const COLUMNS_BYTES: usize = 64 << 20;

/// The bytes of one position of [`Columns`].
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

/// A class with its columns.
#[derive(Debug)]
struct Warm {
    facts: Arc<Facts>,
    prepared: Prepared,
    columns: Columns,
    used: u64,
}

/// What a replica has done so far, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Evaluations answered.
    pub evaluations: u64,
    /// Nodes judged for them: those that changed since the class was asked for last.
    pub nodes_judged: u64,
    /// Nodes on which preemption was tried.
    pub trials: u64,
    /// Commands dropped because they came from an older leader.
    pub stale: u64,
    /// Changes that named a node or class that is not here. Always 0 unless the leader is wrong.
    pub unknown: u64,
    /// Columns given up to make room.
    pub evicted: u64,
}

// === impl Replica ===

impl Replica {
    /// An empty shard that knows these plugins.
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

    /// As it is, but with this many bytes for the columns of all classes. One class always has room.
    #[must_use]
    pub const fn with_room(mut self, bytes: usize) -> Self {
        self.room = bytes;
        self
    }

    /// Does what it is told and says what there is to say about it. Words of an older leader are dropped.
    pub fn apply(&mut self, word: ToWorker) -> Option<FromWorker> {
        self.apply_timed(word, &mut ())
    }

    /// As [`Self::apply`], with a timer of the plugins of an evaluation.
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
            // Whoever has threads puts modules together, before the configuration comes that names them.
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
                    Ok(outcomes) => Reply::Rehearsed { request, outcomes },
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

    /// The leader that is obeyed.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The nodes of the shard, with the pods on them.
    #[must_use]
    pub const fn nodes(&self) -> &Snapshot {
        &self.nodes
    }

    /// How many nodes the shard has.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.nodes.node_count()
    }

    /// What was done so far.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// Obeys a new leader. Its numbers mean nothing that the old one's did, so nothing of what is known stays.
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

    /// Runs plugins that only read the nodes. All that is computed of them is dropped if a plugin panics, as it may be incomplete.
    ///
    /// A panic of a dry run is not contained: it changes the nodes, and the stream ends with the replica.
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
    ) -> Result<Vec<Outcome>, Unable> {
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

    /// Forgets the classes that had asked for a string that a node has brought since there were so many; all of them where
    /// strings get other numbers, for most are of the past.
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

    /// What the strings of its nodes take, in bytes.
    #[must_use]
    pub const fn text_bytes(&self) -> usize {
        self.nodes.symbols.bytes()
    }

    /// The key of a class whose plugins are ready.
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
