//! The state machine, its only owner of state, and the dispatch of events.

use std::{collections::BTreeSet, sync::Arc};

use flotilla_framework::{
    class::PodInfo,
    extension::pod_fields,
    pod_group::{GroupKey, Membership, PodGroup},
    registry::Registry,
    shard::{Epoch, RequestId},
    snapshot::Snapshot,
    trace::Sampling,
};

use crate::{
    action::Action,
    event::{Configuration, Event, TimeMs},
    extend::Extending,
    gates::Gates,
    groups::Groups,
    held::Held,
    judge::Judge,
    pods::{Pod, PodStage, Pods},
    preempt::{Budgets, Preemptions, Residents, Unresolvable},
    preparations::Preparations,
    queue::{
        Pace, Queue,
        incoming::{CONFIGURED, UNSCHEDULABLE_TIMEOUT},
    },
    recall::Decisions,
    roster::Roster,
    settings::Settings,
    status::Status,
    subject::Uid,
    tally::Tally,
    unread::Unread,
    view::label::Label,
};

/// Interval of the search for pods that are unschedulable for too long, in milliseconds; kube-scheduler's 30 s.
const FLUSH_INTERVAL_MS: TimeMs = 30_000;

/// Interval of audits in release builds, in events. An audit of 5,000 nodes and 150,000 pods takes some 20 ms, less than a thousandth of
/// the time.
const AUDIT_INTERVAL: u64 = 1 << 20;

/// Limit of pods and nodes for an audit after every event in debug builds.
const AUDIT_ALWAYS_BELOW: usize = 200;

/// The scheduler as a pure state machine. Its inputs are [`Event`]s with a time, its outputs [`Action`]s.
///
/// The machine does no I/O, reads no clock, never waits and never fails: the same events give the same actions. One thread of the runtime
/// owns it.
///
/// # Call order
///
/// 1. [`Machine::new`]. The first events are usually [`Event::Configured`], the objects of the initial lists, [`Event::Synced`] and
///    [`Event::Leading`]. The machine decides only when all three conditions hold.
/// 2. For each event [`Machine::apply`], or its halves [`Machine::handle_event`] and [`Machine::poll_actions_as_of`], always as a pair. The time never
///    decreases between calls.
/// 3. The caller executes the actions in order. If the call took long, [`Machine::asked_at`] then moves the start of the workers' deadlines
///    to the time of sending.
/// 4. [`Machine::next_wakeup`] after each event. If no event comes before that time, the caller applies [`Event::Tick`].
///
/// [`Machine::status`], [`Machine::overview`] and other reports read the state between calls; no decision depends on them.
///
/// # Events and actions
///
/// An event is a fact: a watch event, a relist, a change of the configuration or of leadership, a message of a worker, or the answer to an
/// action. Watch events may arrive late or twice. [`Event::is_preferred`] lists the events that go before waiting watch events.
///
/// An action is a request to the runtime: a message to a worker, or a write to the API server. It is complete in itself. Some actions have
/// exactly one event as their answer; [`Action`] names it. The machine acts before the answer: it assumes a pod when it emits the bind, and
/// forgets it if the bind fails.
///
/// # States of a pod
///
/// A pod is `Foreign` if it belongs to another scheduler, is finished, or is terminating without a confirmed node. This can happen in any
/// state. A pod that the watch shows on a node is `Assigned`, from any state. `Member` replaces `Queued` for pods of a pod group; the
/// group is in the queue instead.
///
/// ```text
///               gated
///    Foreign ------------> Gated
///    |  ^                  |  ^
///    |  |     event, flush |  | gated
///    |  |                  v  |
///    |  |   admit      Queued or Member <-----------------+
///    +--|-------------> |            |                    |
///       |       decided |            | decided,           |
///       |               |            | PreBind waits      |
///       |               |            v                    | failed:
///       |               |         Preparing ------------->| forget, retry
///       |               v            |                    |
///       |            Assumed <-------+ PreBind done       |
///       |            |  |  |                              |
///       |<-----------+  |  +----------------------------->+
///       |  bind: gone,  | watch shows the node
///       |  elsewhere    v
///       |<---------- Assigned
///         finished
/// ```
///
/// A `Queued` pod is in one of three queues: activeQ -- infeasible --> unschedulable -- event, flush --> backoffQ -- time --> activeQ. If
/// the backoff is over, the event moves it to activeQ at once. A deleted pod is removed from any state. A restored backup of etcd may
/// revert `Assigned`: the pod is admitted again. A pod on its node with a deferred resize is admitted too. It keeps its charge, is never
/// assumed, and is `Assigned` when its resize is no longer deferred.
#[derive(Debug)]
pub struct Machine {
    pub(crate) settings: Settings,
    pub(crate) leading: Option<Epoch>,
    pub(crate) synced: bool,
    pub(crate) pods: Pods,
    pub(crate) unread: Unread,
    pub(crate) gates: Gates,
    pub(crate) held: Held,
    pub(crate) binding: BTreeSet<Uid>,
    pub(crate) extending: Option<Extending>,
    pub(crate) preparations: Preparations,
    pub(crate) queue: Queue,
    pub(crate) judge: Judge,
    pub(crate) roster: Roster,
    pub(crate) groups: Groups,
    pub(crate) preemptions: Preemptions,
    /// Subjects for which no preemption makes room.
    pub(crate) unresolvable: Unresolvable,
    pub(crate) residents: Residents,
    pub(crate) budgets: Budgets,
    pub(crate) next_request: RequestId,
    /// The number of decisions at which to look ahead again.
    pub(crate) next_look: u64,
    pub(crate) status: Status,
    pub(crate) tally: Tally,
    pub(crate) decisions: Decisions,
    pub(crate) actions: Vec<Action>,
    pub(crate) tracing: Option<Sampling>,
    /// The traced pod for which workers are asked.
    pub(crate) cause: Option<Uid>,
    /// Counts events that may help a refused pod.
    pub(crate) happenings: u64,
    /// The same without pods that got a node: these events may make room for a pod group.
    pub(crate) rooms_made: u64,
    /// Due time of a tick that pops pods from backoffQ, because activeQ is empty.
    pub(crate) idle_until: Option<TimeMs>,
    /// Early pops that are left for the current event.
    pops: usize,
    next_flush: TimeMs,
    pub(crate) events: u64,
    pub(crate) ticked: u64,
}

impl Machine {
    /// Creates a follower without configuration. It decides nothing until it is configured, synced and leader.
    #[must_use]
    pub fn new(now_ms: TimeMs, registry: Registry) -> Self {
        Self {
            settings: Settings::new(registry),
            leading: None,
            synced: false,
            pods: Pods::default(),
            unread: Unread::default(),
            gates: Gates::default(),
            held: Held::default(),
            binding: BTreeSet::new(),
            extending: None,
            preparations: Preparations::default(),
            queue: Queue::default(),
            judge: Judge::new(registry),
            roster: Roster::default(),
            groups: Groups::default(),
            preemptions: Preemptions::default(),
            unresolvable: Unresolvable::default(),
            residents: Residents::default(),
            budgets: Budgets::default(),
            next_request: 0,
            next_look: 0,
            status: Status::default(),
            tally: Tally::default(),
            decisions: Decisions::default(),
            actions: Vec::new(),
            tracing: None,
            cause: None,
            happenings: 0,
            rooms_made: 0,
            idle_until: None,
            pops: 0,
            next_flush: now_ms + FLUSH_INTERVAL_MS,
            events: 0,
            ticked: 0,
        }
    }

    /// The plugins that profiles may name.
    #[must_use]
    pub const fn registry(&self) -> Registry {
        self.settings.registry()
    }

    /// Handles an event at `now_ms` and returns the resulting actions in order.
    pub fn apply(&mut self, now_ms: TimeMs, event: Event) -> Vec<Action> {
        self.handle_event(now_ms, event);
        self.poll_actions(now_ms)
    }

    /// The first half of [`Self::apply`], for callers that measure the halves: updates the state and wakes pods. [`Self::poll_actions`] has to
    /// follow. Returns kube-scheduler's label of the event, if it has one.
    pub fn handle_event(&mut self, now_ms: TimeMs, event: Event) -> Option<&'static str> {
        flotilla_planted::begin_event();
        self.tally.begin(now_ms);
        self.judge.begin_event();
        let label = Label::before(self, &event);
        self.pops = self.pops_for(&event);
        self.dispatch(now_ms, event);
        label.after(self)
    }

    /// The second half of [`Self::apply`]: decisions, and deadlines.
    pub fn poll_actions(&mut self, now_ms: TimeMs) -> Vec<Action> {
        self.poll_actions_as_of(now_ms, now_ms)
    }

    /// As [`Self::poll_actions`], if answers that arrived after `heard_ms` may be unread. Deadlines are checked against `heard_ms`, so that no
    /// worker is late because of the caller.
    pub fn poll_actions_as_of(&mut self, now_ms: TimeMs, heard_ms: TimeMs) -> Vec<Action> {
        self.record_evaluations();
        self.pass_time(now_ms, heard_ms);
        self.turns().review_groups(now_ms);
        self.decide(now_ms, self.pops);
        self.judge.take_released().into_iter().for_each(|head| self.shards().release_class(head));
        self.shards().flush_outboxes();
        self.record_evaluations();
        self.tally.recent.count(now_ms, self.status.decisions);
        self.events += 1;
        flotilla_planted::end_event();
        self.audit_now_and_then();
        std::mem::take(&mut self.actions)
    }

    fn dispatch(&mut self, now_ms: TimeMs, event: Event) {
        match event {
            Event::Configured(configuration) => self.configured(now_ms, configuration),
            Event::Leading { epoch } => self.lead(now_ms, epoch),
            Event::Following => self.stop_leading(now_ms),
            Event::Synced => self.synced = true,
            Event::PodApplied(pod) => self.pod_applied(now_ms, &pod),
            Event::PodDeleted { uid } => self.pod_deleted(now_ms, &uid),
            Event::WentBack | Event::PodsRelisted => self.unconfirm_all(),
            Event::ObjectsWentBack => self.unconfirm_preparations(now_ms),
            Event::StorageRelisted(kind) => self.preparations.unconfirm_written(kind),
            Event::ClaimsRelisted => self.claims_listed(now_ms, None),
            Event::ClaimsListed { version } => self.claims_listed(now_ms, Some(&version)),
            Event::NodeApplied(node) => self.node_applied(now_ms, &node),
            Event::NodeDeleted { name } => self.node_deleted(now_ms, &name),
            Event::NamespaceApplied { name, labels } => self.namespace_applied(now_ms, &name, Some(&labels)),
            Event::NamespaceDeleted { name } => self.namespace_applied(now_ms, &name, None),
            Event::SelectorApplied { object, selector } => self.selector_applied(now_ms, &object, Some(&selector)),
            Event::SelectorDeleted { object } => self.selector_applied(now_ms, &object, None),
            Event::WorkerJoined { worker, name } => self.shards().worker_joined(worker, name),
            Event::WorkerLost { worker } => self.shards().worker_lost(worker),
            Event::FromWorker { worker, word } => self.handle_reply(worker, word),
            Event::Bound { uid } => self.bound(&uid),
            Event::BindFailed { uid, failure } => self.bind_failed(now_ms, &uid, failure),
            Event::Extended { request, outcome } => self.extended(now_ms, request, outcome),
            Event::PodGroupApplied(group) => self.pod_group_changed(&group.group_key(), Some(&group)),
            Event::PodGroupDeleted(key) => self.pod_group_changed(&key, None),
            Event::ObjectApplied(object) => self.object_applied(now_ms, &object),
            Event::ObjectDeleted(key) => self.object_deleted(now_ms, &key),
            Event::Written { uid, id, versions, failure } => self.written(now_ms, &uid, id, versions, failure),
            Event::BudgetApplied(budget) => {
                let old = self.budgets.apply(&budget);
                self.budget_changed(&budget.namespace, old.as_ref(), Some(&budget.selector));
            }
            Event::BudgetDeleted { namespace, name } => {
                let old = self.budgets.delete(&namespace, &name);
                self.budget_changed(&namespace, old.as_ref(), None);
            }
            Event::Proposed { request, outcome } => self.proposed(now_ms, request, outcome),
            Event::Preempted { uid, id, failure } => self.preempted(now_ms, &uid, id, failure),
            Event::Tick => {}
        }
    }

    fn pod_group_changed(&mut self, key: &GroupKey, object: Option<&Arc<PodGroup>>) {
        self.judge.set_pod_group(key, object);
        let is_other_victim = match object {
            Some(object) => self.groups.apply(object),
            None => self.groups.delete(key),
        };
        if is_other_victim {
            self.unresolvable.clear();
        }
    }

    /// The time for [`Event::Tick`] if no other event comes first; a time in the past means at once.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<TimeMs> {
        let configuration = self.settings.configuration()?;
        let waits_for_workers = self.leading.is_some() && self.synced && self.roster.waits_for_first();
        let head = self.queue.head().filter(|_| waits_for_workers);
        let grace = head.map(|_| self.roster.since_ms + configuration.worker_grace_ms);
        let next = [
            self.queue.next_backoff(),
            Some(self.next_flush),
            grace,
            self.roster.next_deadline(configuration, self.judge.states(), &self.preemptions),
            self.roster.quarantine.next_end(self.tally.now_ms),
            self.extending.as_ref().map(|extending| extending.until_ms),
            self.preemptions.proposal_deadline(),
            self.preemptions.waits_until(self.tally.now_ms).filter(|_| self.queue.head().is_some()),
            self.preparations.next_deadline(),
            self.idle_until,
        ];
        next.into_iter().flatten().min()
    }

    /// The cached nodes; every worker's shard is a part of them.
    #[must_use]
    pub const fn nodes(&self) -> &Snapshot {
        self.judge.cache().snapshot()
    }

    /// The gauges and counters.
    #[must_use]
    pub fn status(&self) -> Status {
        let [active, backoff, parked] = self.queue.lengths().map(|length| length as u64);
        Status {
            leading: u64::from(self.leading.is_some()),
            synced: u64::from(self.synced),
            epoch: self.leading.unwrap_or(0),
            generation: self.settings.generation().unwrap_or(0),
            nodes: self.judge.cache().nodes().len() as u64,
            workers: self.roster.workers.len() as u64,
            workers_ready: self.roster.ready().count() as u64,
            workers_quarantined: self.roster.quarantine.addresses(self.tally.now_ms).count() as u64,
            pods_active: active,
            pods_backoff: backoff,
            pods_unschedulable: parked,
            pods_gated: self.gates.len() as u64,
            pods_too_large: self.gates.count_too_large(&self.pods, &self.judge),
            binds_in_flight: self.binding.len() as u64,
            evaluations_in_flight: self.judge.states().asks_len() as u64,
            extensions_in_flight: u64::from(self.extending.is_some()),
            preparations: self.preparations.len() as u64,
            pod_groups: self.groups.objects() as u64,
            pods_in_groups: self.groups.waiting() as u64,
            preemptions_in_flight: self.preemptions.len() as u64,
            victims_in_flight: self.preemptions.victims() as u64,
            classes: self.judge.cache().classes().len() as u64,
            text_bytes: self.judge.cache().snapshot().symbols.bytes() as u64,
            class_bytes: self.judge.cache().classes().bytes() as u64,
            fact_bytes: self.judge.states().bytes() as u64,
            decisions_kept: self.decisions.size().0 as u64,
            decision_bytes: self.decisions.size().1 as u64,
            resource_bytes: self.judge.cache().snapshot().accounts.scalar_bytes() as u64,
            taint_sets: self.judge.cache().snapshot().taint_sets() as u64,
            event_work_largest: self.judge.states().work().most(),
            revision: self.judge.cache().revision(),
            pods_untold: self.judge.cache().unsent(),
            ..self.status.plus(self.judge.counts())
        }
    }

    /// The largest work of one event, in units of some 10 ns. An event exceeds 15,000,000 units by one attempt at most.
    #[must_use]
    pub const fn largest_work(&self) -> u64 {
        self.judge.states().work().most()
    }

    fn configured(&mut self, now_ms: TimeMs, configuration: Arc<Configuration>) {
        let registry = self.settings.registry();
        if let Some(old) = self.settings.configure(&configuration) {
            self.tally.reconfigured(registry, &old.profiles);
        }
        self.judge.configure(&configuration);
        self.set_membership(now_ms, Membership::new(configuration.generic_workload, &configuration.profiles));
        self.show(pod_fields(registry, &configuration.profiles));
        self.queue.set_pace(Pace {
            initial_ms: configuration.pod_initial_backoff_ms,
            max_ms: configuration.pod_max_backoff_ms,
            pops: configuration.pops_from_backoff,
        });
        self.groups.forget_attempts();
        self.unresolvable.clear();
        self.shards().configure_workers();
        // A changed configuration may change the stage of every pod without a node.
        let undecided =
            |pod: &Pod| !pod.stage.is_decided() && (pod.stage != PodStage::Assigned || pod.info.class.resize_deferred);
        for uid in self.pods.uids(undecided) {
            self.admit_by(now_ms, &uid, CONFIGURED);
        }
    }

    fn lead(&mut self, now_ms: TimeMs, epoch: Epoch) {
        self.shards().drop_all("a new leadership has begun");
        self.leading = Some(epoch);
        self.roster.lead(now_ms);
        self.extending = None;
        self.groups.forget_attempts();
        self.preemptions.search = None;
        self.judge.close_all();
        // A follower reports nothing.
        let untried: Vec<Uid> = self.gates.untried().cloned().collect();
        untried.iter().for_each(|uid| self.admit_by(now_ms, uid, CONFIGURED));
    }

    fn stop_leading(&mut self, now_ms: TimeMs) {
        self.shards().drop_all("this coordinator is no longer the leader");
        self.leading = None;
        // A follower decides nothing, so it drops the extenders' answers.
        self.extending = None;
        self.give_up_preemptions(now_ms);
        self.unreserve_all(now_ms);
        self.judge.close_all();
    }

    /// Requeues pods without events for too long, and runs PreEnqueue of gated ones: a safety net for incomplete hints.
    fn flush(&mut self, now_ms: TimeMs) {
        let longest_ms = self.settings.configuration().map_or(TimeMs::MAX, |known| known.pod_max_in_unschedulable_ms);
        self.status.flushed += self.queue.flush(longest_ms, now_ms) as u64;
        self.tally.flush(self.queue.take_flushed(), now_ms);
        let due = self.held.due(now_ms, longest_ms);
        if !due.is_empty() {
            self.judge.forget_panics();
            self.release(now_ms, due, UNSCHEDULABLE_TIMEOUT);
        }
        self.turns().flush_held_groups(now_ms, longest_ms);
        for uid in self.gates.asked_before(now_ms.saturating_sub(longest_ms)) {
            self.admit_by(now_ms, &uid, UNSCHEDULABLE_TIMEOUT);
        }
    }

    /// A changed configuration may change the groups of all pods. The caller admits the pods without a node again.
    fn set_membership(&mut self, now_ms: TimeMs, membership: Membership) {
        let Some(old) = self.settings.set_membership(membership) else { return };
        let infos: Vec<Arc<PodInfo>> = self.pods.values().map(|pod| Arc::clone(&pod.info)).collect();
        for info in infos {
            let now = self.settings.group_of(&info).filter(|_| !info.finished);
            if let Some(key) = old.group_of(&info).filter(|key| now.as_ref() != Some(key)) {
                self.groups.drop_member(&info.uid, &key);
                if self.pods.get(&info.uid).is_some_and(|pod| pod.stage.is_member()) {
                    self.edit(now_ms, &info.uid, |pod| pod.enter(PodStage::Foreign));
                }
            }
            if let Some(key) = now {
                self.groups.add_member(&info.uid, key, info.priority);
            }
        }
    }

    /// Handles deadlines, backoffs and flushes that are due.
    fn pass_time(&mut self, now_ms: TimeMs, heard_ms: TimeMs) {
        self.give_up_extension(heard_ms);
        self.give_up_proposal(heard_ms);
        self.idle_until.take_if(|until| *until <= now_ms);
        self.queue.bring_back(now_ms);
        if now_ms >= self.next_flush {
            self.next_flush = now_ms + FLUSH_INTERVAL_MS;
            self.flush(now_ms);
        }
        self.expire_preparations(now_ms);
        self.shards().hedge(heard_ms);
        self.shards().enforce_deadlines(heard_ms);
    }

    fn audit_now_and_then(&mut self) {
        let small = self.pods.len() + self.judge.cache().nodes().len() < AUDIT_ALWAYS_BELOW;
        if (cfg!(debug_assertions) && small) || self.events.is_multiple_of(AUDIT_INTERVAL) {
            let violations = self.audit();
            debug_assert!(violations.is_empty(), "{violations:?}");
            self.status.invariant_violations += violations.len() as u64;
        }
    }
}
