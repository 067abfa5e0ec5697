//! The test world: real worker replicas, an API server that is a map, and a virtual clock.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use flotilla_framework::{
    class::{Class, PodInfo},
    devices::objects::{DeviceKey, DeviceObject},
    node::NodeInfo,
    profile::Profile,
    registry::Registry,
    replica::Replica,
    shard::{FromWorker, ToWorker},
    testing,
    trace::Sampling,
    volumes::objects::{StorageKey, StorageObject},
};
use flotilla_machine::{
    action::{
        Action, Binding, DeviceWait, DeviceWaitEnd, Extension, GroupReport, Nomination, PreBind, Preemption,
        PreemptionProposal, Report, Unreserve,
    },
    event::{BindFailure, Configuration, Event, TimeMs, WorkerId},
    machine::Machine,
    trace::Trace,
};

/// A worker: a replica with its unread and unsent messages.
pub(crate) struct Worker {
    pub(crate) name: String,
    pub(crate) replica: Replica,
    pub(crate) inbox: VecDeque<ToWorker>,
    pub(crate) outbox: VecDeque<FromWorker>,
    pub(crate) silent: bool,
}

pub(crate) struct World {
    pub(crate) machine: Machine,
    pub(crate) now_ms: u64,
    pub(crate) workers: BTreeMap<WorkerId, Worker>,
    pub(crate) api: BTreeMap<Arc<str>, PodInfo>,
    /// Binds without an answer.
    pub(crate) binds: VecDeque<Binding>,
    pub(crate) extensions: VecDeque<Extension>,
    pub(crate) storage: BTreeMap<StorageKey, StorageObject>,
    pub(crate) devices: BTreeMap<DeviceKey, DeviceObject>,
    pub(crate) last_version: u64,
    /// Pending storage events.
    pub(crate) storage_watch: VecDeque<Event>,
    /// Whether storage events are delivered only on request.
    pub(crate) storage_lags: bool,
    pub(crate) pre_binds: VecDeque<PreBind>,
    pub(crate) unreserves: Vec<Unreserve>,
    pub(crate) preemptions: VecDeque<Preemption>,
    /// Calls of extenders about preemptions without an answer.
    pub(crate) proposals: VecDeque<PreemptionProposal>,
    /// Whether preemptions run only on request.
    pub(crate) evicts_slowly: bool,
    /// Whether deleted pods terminate gracefully.
    pub(crate) graceful: bool,
    pub(crate) evicted: Vec<(String, String, Vec<String>)>,
    /// Whether the volume controller runs automatically.
    pub(crate) controlled: bool,
    /// Pending watch events.
    pub(crate) watch: VecDeque<Event>,
    /// Pod and node of every successful bind, in order.
    pub(crate) bound: Vec<(String, String)>,
    pub(crate) reports: Vec<Report>,
    pub(crate) group_reports: Vec<GroupReport>,
    pub(crate) traces: Vec<Trace>,
    pub(crate) device_waits: Vec<DeviceWait>,
    pub(crate) device_wait_ends: Vec<DeviceWaitEnd>,
    pub(crate) dropped: Vec<String>,
    pub(crate) alone: Option<bool>,
    pub(crate) acknowledged: Vec<u64>,
    nodes: BTreeMap<Arc<str>, Arc<NodeInfo>>,
    /// Events of namespaces and selectors.
    selections: Vec<Event>,
    next_worker: u64,
    pub(crate) tape: Option<Vec<Turn>>,
}

pub(crate) type Turn = (TimeMs, Event, Vec<Action>);

pub(crate) fn preempting() -> Profile {
    let mut profile = testing::profile();
    profile.plugins.post_filter = vec!["DefaultPreemption".to_owned()];
    profile.plugins.pre_enqueue.push("DefaultPreemption".to_owned());
    profile
}

impl World {
    /// Configured with these profiles, synced, and leading.
    pub(crate) fn with_profiles(profiles: Vec<Profile>) -> Self {
        let mut world = Self::dormant(profiles);
        world.tell(Event::Synced);
        world.tell(Event::Leading { epoch: 1 });
        world
    }

    /// As [`Self::with_profiles`], without early pops from backoffQ.
    pub(crate) fn without_pops(profiles: Vec<Profile>) -> Self {
        let mut world = Self::dormant(profiles.clone());
        let configuration = Configuration { pops_from_backoff: false, ..Configuration::new(2, profiles) };
        world.tell(Event::Configured(Arc::new(configuration)));
        world.tell(Event::Synced);
        world.tell(Event::Leading { epoch: 1 });
        world
    }

    /// As [`Self::with_profiles`], with these plugins and one worker, which has the built-in ones.
    pub(crate) fn with_plugins(registry: Registry, profile: Profile) -> Self {
        let mut world = Self::dormant_with(Machine::new(0, registry), vec![profile]);
        world.tell(Event::Synced);
        world.tell(Event::Leading { epoch: 1 });
        world.join("worker-0");
        world.settle();
        world
    }

    /// Configured, but neither synced nor leading.
    pub(crate) fn dormant(profiles: Vec<Profile>) -> Self {
        Self::dormant_with(Machine::new(0, Registry::built_in()), profiles)
    }

    fn dormant_with(machine: Machine, profiles: Vec<Profile>) -> Self {
        let mut world = Self {
            machine,
            now_ms: 0,
            workers: BTreeMap::new(),
            api: BTreeMap::new(),
            binds: VecDeque::new(),
            extensions: VecDeque::new(),
            storage: BTreeMap::new(),
            devices: BTreeMap::new(),
            last_version: 0,
            storage_watch: VecDeque::new(),
            storage_lags: false,
            pre_binds: VecDeque::new(),
            unreserves: Vec::new(),
            preemptions: VecDeque::new(),
            proposals: VecDeque::new(),
            evicts_slowly: false,
            graceful: false,
            evicted: Vec::new(),
            controlled: false,
            watch: VecDeque::new(),
            bound: Vec::new(),
            reports: Vec::new(),
            group_reports: Vec::new(),
            traces: Vec::new(),
            device_waits: Vec::new(),
            device_wait_ends: Vec::new(),
            dropped: Vec::new(),
            alone: None,
            acknowledged: Vec::new(),
            nodes: BTreeMap::new(),
            selections: Vec::new(),
            next_worker: 0,
            tape: None,
        };
        world.tell(Event::Configured(Arc::new(Configuration::new(1, profiles))));
        world
    }

    pub(crate) fn with_tracing(workers: usize, profile: Profile, sampling: Sampling) -> Self {
        let mut world = Self::dormant_with(Machine::new(0, Registry::built_in()).traced_by(sampling), vec![profile]);
        world.tell(Event::Synced);
        world.tell(Event::Leading { epoch: 1 });
        for index in 0..workers {
            world.join(&format!("worker-{index}"));
        }
        world.settle();
        world
    }

    /// With the default profile, one worker, and this many kept decisions.
    pub(crate) fn keeping(decisions: usize) -> Self {
        let machine = Machine::new(0, Registry::built_in()).keeping_decisions(decisions);
        let mut world = Self::dormant_with(machine, vec![testing::profile()]);
        world.tell(Event::Synced);
        world.tell(Event::Leading { epoch: 1 });
        world.join("worker-0");
        world.settle();
        world
    }

    pub(crate) fn new(workers: usize) -> Self {
        Self::with_workers(workers, testing::profile())
    }

    pub(crate) fn with_workers(workers: usize, profile: Profile) -> Self {
        let mut world = Self::with_profiles(vec![profile]);
        for index in 0..workers {
            world.join(&format!("worker-{index}"));
        }
        world.settle();
        world
    }

    pub(crate) fn tell(&mut self, event: Event) {
        match &event {
            Event::NodeApplied(node) => drop(self.nodes.insert(Arc::clone(&node.name), Arc::clone(node))),
            Event::NodeDeleted { name } => drop(self.nodes.remove(name)),
            Event::NamespaceApplied { .. }
            | Event::NamespaceDeleted { .. }
            | Event::SelectorApplied { .. }
            | Event::SelectorDeleted { .. } => self.selections.push(event.clone()),
            _ => {}
        }
        let recorded = self.tape.is_some().then(|| event.clone());
        let actions = self.machine.apply(self.now_ms, event);
        if let (Some(tape), Some(event)) = (&mut self.tape, recorded) {
            tape.push((self.now_ms, event, actions.clone()));
        }
        for action in actions {
            match action {
                Action::Send { worker, word } => {
                    if let Some(worker) = self.workers.get_mut(&worker) {
                        worker.inbox.push_back(word);
                    }
                }
                Action::DropWorker { worker, reason, .. } => {
                    self.workers.remove(&worker);
                    self.dropped.push(reason);
                    self.watch.push_back(Event::WorkerLost { worker });
                }
                Action::Bind(binding) => self.binds.push_back(binding),
                Action::Extend(extension) => self.extensions.push_back(extension),
                Action::PreBind(pre_bind) => self.pre_binds.push_back(pre_bind),
                Action::Unreserve(unreserve) => self.unreserves.push(unreserve),
                Action::ExtendPreemption(proposal) => self.proposals.push_back(proposal),
                Action::Preempt(preemption) => self.preemptions.push_back(preemption),
                Action::Report(report) => {
                    self.write_nomination(&report.uid, &report.nomination);
                    self.reports.push(report);
                }
                Action::Nominate(change) => {
                    self.set_nomination(&change.pod.uid, change.node.clone());
                }
                Action::ReportGroup(report) => self.group_reports.push(report),
                Action::Acknowledged { generation, .. } => self.acknowledged.push(generation),
                Action::Alone(alone) => self.alone = Some(alone),
                Action::Trace(trace) => self.traces.push(*trace),
                Action::DeviceWaitBegan(wait) => self.device_waits.push(*wait),
                Action::DeviceWaitEnded(end) => self.device_wait_ends.push(*end),
            }
        }
        assert_eq!(self.machine.audit(), []);
    }

    pub(crate) fn node(&mut self, node: NodeInfo) {
        self.tell(Event::NodeApplied(Arc::new(node)));
    }

    pub(crate) fn known_nodes(&self) -> Vec<Arc<NodeInfo>> {
        self.nodes.values().cloned().collect()
    }

    /// The events that create the current namespaces and selectors.
    pub(crate) fn known_selections(&self) -> Vec<Event> {
        self.selections.clone()
    }

    pub(crate) fn pod(&mut self, pod: PodInfo) {
        self.api.insert(Arc::clone(&pod.uid), pod.clone());
        self.observe(Event::PodApplied(Arc::new(pod)));
    }

    pub(crate) fn delete_pod(&mut self, uid: &str) {
        self.api.remove(uid);
        self.observe(Event::PodDeleted { uid: uid.into() });
    }

    /// Delivers watch events in order: at once if none is pending.
    fn observe(&mut self, event: Event) {
        self.watch.push_back(event);
        if self.watch.len() == 1 {
            self.run_watch();
        }
    }

    pub(crate) fn join(&mut self, name: &str) -> WorkerId {
        self.join_with(name, Registry::built_in())
    }

    pub(crate) fn join_with(&mut self, name: &str, registry: Registry) -> WorkerId {
        self.next_worker += 1;
        let id = WorkerId(self.next_worker);
        let (inbox, outbox) = (VecDeque::new(), VecDeque::new());
        let worker = Worker { name: name.to_owned(), replica: Replica::new(registry), inbox, outbox, silent: false };
        self.workers.insert(id, worker);
        self.tell(Event::WorkerJoined { worker: id, name: name.into() });
        id
    }

    /// Disconnects a worker with its unsent messages.
    pub(crate) fn kill(&mut self, id: WorkerId) {
        self.workers.remove(&id);
        self.tell(Event::WorkerLost { worker: id });
    }

    /// Lets a worker read and send one round. Returns whether anything happened.
    pub(crate) fn run_worker(&mut self, id: WorkerId) -> bool {
        let Some(worker) = self.workers.get_mut(&id).filter(|worker| !worker.silent) else { return false };
        let mut busy = false;
        while let Some(word) = worker.inbox.pop_front() {
            busy = true;
            worker.outbox.extend(worker.replica.apply(word));
        }
        assert_eq!(worker.replica.stats().unknown, 0, "{} was told of things that it does not have", worker.name);
        // It has read all its commands, so its shard has to match.
        let shard = worker.replica.nodes();
        assert_eq!(shard.miscounted(), None, "{}", worker.name);
        assert_eq!(shard.differs_from(self.machine.nodes()), None, "{}", worker.name);
        let words: Vec<FromWorker> = worker.outbox.drain(..).collect();
        for word in words {
            busy = true;
            self.tell(Event::FromWorker { worker: id, word });
        }
        busy
    }

    pub(crate) fn run_workers(&mut self) {
        let ids: Vec<WorkerId> = self.workers.keys().copied().collect();
        for id in ids {
            self.run_worker(id);
        }
    }

    /// The first worker and its answers, withheld from the machine.
    pub(crate) fn intercept(&mut self) -> (WorkerId, Vec<FromWorker>) {
        let (&id, worker) = self.workers.iter_mut().next().expect("a worker");
        let mut words = Vec::new();
        while let Some(word) = worker.inbox.pop_front() {
            words.extend(worker.replica.apply(word));
        }
        (id, words)
    }

    /// The API server performs the oldest bind, at most one per pod, and emits a watch event.
    pub(crate) fn run_bind(&mut self) -> bool {
        let Some(binding) = self.binds.pop_front() else { return false };
        let uid = Arc::clone(&binding.uid);
        match self.api.get_mut(&binding.uid) {
            None => self.tell(Event::BindFailed { uid, failure: BindFailure::Gone }),
            Some(pod) if pod.node_name.is_some() => {
                self.tell(Event::BindFailed { uid, failure: BindFailure::Elsewhere });
            }
            Some(pod) => {
                pod.node_name = Some(Arc::clone(&binding.node));
                self.bound.push((pod.name.to_string(), binding.node.to_string()));
                let seen = Event::PodApplied(Arc::new(pod.clone()));
                self.watch.push_back(seen);
                self.tell(Event::Bound { uid });
            }
        }
        true
    }

    /// The API server stores the nomination of a report, and emits a watch event.
    fn write_nomination(&mut self, uid: &str, nomination: &Nomination) {
        match nomination {
            Nomination::Keep => {}
            Nomination::Clear => self.set_nomination(uid, None),
            Nomination::To(node) => self.set_nomination(uid, Some(Arc::clone(node))),
        }
    }

    fn set_nomination(&mut self, uid: &str, node: Option<Arc<str>>) {
        if let Some(pod) = self.api.get_mut(uid)
            && pod.nominated_node_name != node
        {
            pod.nominated_node_name = node;
            self.watch.push_back(Event::PodApplied(Arc::new(pod.clone())));
        }
    }

    /// The API server deletes the victims of the oldest preemption.
    pub(crate) fn run_preemption(&mut self) -> bool {
        let Some(preemption) = self.preemptions.pop_front() else { return false };
        let place = preemption.place().to_owned();
        let Preemption { id, preemptor, victims, in_memory, .. } = preemption;
        let named = victims.iter().chain(&in_memory).map(|victim| victim.pod.name.to_string()).collect();
        self.evicted.push((preemptor.name.to_string(), place, named));
        for victim in &victims {
            self.evict(&victim.pod.uid, &preemptor.uid);
        }
        self.tell(Event::Preempted { uid: preemptor.uid, id, failure: None });
        true
    }

    pub(crate) fn fail_preemption(&mut self) {
        let Some(preemption) = self.preemptions.pop_front() else { return };
        for victim in preemption.victims.iter().rev().skip(1) {
            self.evict(&victim.pod.uid, &preemption.preemptor.uid);
        }
        let (uid, id) = (preemption.preemptor.uid, preemption.id);
        self.tell(Event::Preempted { uid, id, failure: Some("try again".to_owned()) });
    }

    /// Deletes a victim, or starts its termination.
    fn evict(&mut self, uid: &Arc<str>, preemptor: &Arc<str>) {
        let Some(victim) = self.api.get(uid) else { return };
        if let Some(preemptor) = self.api.get(preemptor) {
            // A pod of a group has the priority of the group.
            let is_less = victim.priority < preemptor.priority || victim.scheduling_group.is_some();
            assert!(is_less, "{} preempts {}", preemptor.name, victim.name);
            assert!(!preemptor.never_preempts, "{} never preempts", preemptor.name);
        }
        if self.graceful && victim.node_name.is_some() {
            let class = Class { terminating: true, ..(*victim.class).clone() };
            let going = PodInfo { deleting: true, is_preempted: true, class: Arc::new(class), ..victim.clone() };
            self.api.insert(Arc::clone(uid), going.clone());
            self.watch.push_back(Event::PodApplied(Arc::new(going)));
        } else {
            self.api.remove(uid);
            self.watch.push_back(Event::PodDeleted { uid: Arc::clone(uid) });
        }
    }

    pub(crate) fn finish_deletions(&mut self) {
        let going: Vec<Arc<str>> =
            self.api.values().filter(|pod| pod.deleting).map(|pod| Arc::clone(&pod.uid)).collect();
        for uid in going {
            self.api.remove(&uid);
            self.watch.push_back(Event::PodDeleted { uid });
        }
        self.settle();
    }

    pub(crate) fn run_watch(&mut self) -> bool {
        let Some(event) = self.watch.pop_front() else { return false };
        self.tell(event);
        true
    }

    /// Runs until nothing happens without an advance of time.
    pub(crate) fn settle(&mut self) {
        loop {
            let ids: Vec<WorkerId> = self.workers.keys().copied().collect();
            let mut busy = false;
            for id in ids {
                busy |= self.run_worker(id);
            }
            while self.run_bind() || (!self.evicts_slowly && self.run_preemption()) {
                busy = true;
            }
            while self.run_watch() || self.run_storage_watch() || self.run_pre_bind() {
                busy = true;
            }
            busy |= self.controlled && self.run_volume_controller();
            if self.machine.next_wakeup().is_some_and(|wakeup| wakeup <= self.now_ms) {
                busy = true;
                self.tell(Event::Tick);
            }
            if !busy {
                return;
            }
        }
    }

    /// Advances the time, with a tick at every requested wake-up.
    pub(crate) fn advance(&mut self, ms: u64) {
        let end = self.now_ms + ms;
        self.settle();
        while let Some(wakeup) = self.machine.next_wakeup().filter(|&wakeup| wakeup <= end) {
            self.now_ms = self.now_ms.max(wakeup);
            self.tell(Event::Tick);
            self.settle();
            assert!(self.machine.next_wakeup().is_none_or(|next| next > self.now_ms), "the machine asks for the past");
        }
        self.now_ms = end;
    }

    pub(crate) fn place_of(&self, pod: &str) -> Option<&str> {
        self.bound.iter().find(|(name, _)| name == pod).map(|(_, node)| node.as_str())
    }

    /// The last message about a pod, without PostFilter's part.
    pub(crate) fn message_of(&self, pod: &str) -> Option<&str> {
        let message = self.whole_message_of(pod)?;
        Some(message.split_once(" preemption: ").map_or(message, |(filters, _)| filters))
    }

    pub(crate) fn whole_message_of(&self, pod: &str) -> Option<&str> {
        let events = self.reports.iter().rev();
        events.map(|report| (&report.name, report.message.as_str())).find(|(name, _)| &***name == pod).map(|it| it.1)
    }
}
