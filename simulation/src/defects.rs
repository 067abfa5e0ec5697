//! Planted defects at the boundary of the machine: events that are withheld or changed, and actions that it did not decide.
//!
//! Each has the same effect on the cluster as a defect of the machine, so that the machine needs no hook for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::{class::PodInfo, devices::objects::DeviceObject, extension::objects::Object};
use flotilla_machine::{
    action::{Action, Binding, PodName, PreBind, Preemption, PreemptorKind, Reason, Report, Victim},
    event::{BindFailure, Configuration, Event, PreemptionId, TimeMs},
    machine::Machine,
    outlook::{PodName as Asked, PodState},
};
use flotilla_planted::planted;
use flotilla_runtime::driver::Course;

/// Longer than any run, in milliseconds.
const NEVER_MS: TimeMs = 1 << 40;

/// A machine with the planted defect.
pub struct Defective {
    machine: Machine,
    /// The pods that the machine knows.
    pods: BTreeMap<Arc<str>, Arc<PodInfo>>,
    /// Pods that the machine has lost.
    lost: BTreeSet<Arc<str>>,
}

impl Defective {
    /// Without a planted defect it is the machine.
    #[must_use]
    pub const fn new(machine: Machine) -> Self {
        Self { machine, pods: BTreeMap::new(), lost: BTreeSet::new() }
    }

    /// The event that the machine gets instead. Further ones are handled at once.
    fn instead(&mut self, now_ms: TimeMs, event: Event) -> Event {
        match event {
            Event::Configured(configuration) => Event::Configured(configured(configuration)),
            Event::PodApplied(info) if self.lost.contains(&info.uid) => Event::Tick,
            Event::PodApplied(info) => {
                self.pod_applied(now_ms, &info);
                Event::PodApplied(info)
            }
            Event::PodDeleted { .. } if planted("ignores-deleted-pods") => Event::Tick,
            Event::PodDeleted { uid } => {
                let before = self.pods.remove(&uid);
                self.keep_nomination(now_ms, before.as_deref(), None);
                Event::PodDeleted { uid }
            }
            Event::NodeApplied(info) if info.unschedulable && planted("ignores-cordons") => Event::Tick,
            Event::NodeDeleted { .. } if planted("ignores-deleted-nodes") => Event::Tick,
            Event::ObjectApplied(Object::Device(DeviceObject::TaintRule(_))) if planted("ignores-taint-rules") => {
                Event::Tick
            }
            Event::BudgetApplied(_) if planted("ignores-budgets") => Event::Tick,
            Event::BindFailed { failure: BindFailure::Error(_), .. } if planted("never-forgets") => Event::Tick,
            Event::BindFailed { uid, failure: BindFailure::Error(_) } if planted("never-retries-a-bind") => {
                Event::BindFailed { uid, failure: BindFailure::Gone }
            }
            event => event,
        }
    }

    fn pod_applied(&mut self, now_ms: TimeMs, info: &Arc<PodInfo>) {
        let before = self.pods.insert(Arc::clone(&info.uid), Arc::clone(info));
        self.keep_nomination(now_ms, before.as_deref(), Some(info));
        if before.is_some_and(|before| before.condition != info.condition) && planted("wakes-itself") {
            let asked = Asked { namespace: Arc::clone(&info.class.namespace), name: Arc::clone(&info.name) };
            let standing = self.machine.outlook(now_ms, &asked).map(|outlook| outlook.standing);
            if let Some(PodState::Unschedulable { .. } | PodState::BackingOff { .. }) = standing {
                // The pod is new, so that it is tried at once.
                self.machine.handle_event(now_ms, Event::PodDeleted { uid: Arc::clone(&info.uid) });
            }
        }
    }

    /// A gated pod keeps the nomination of a pod that is placed or gone.
    fn keep_nomination(&mut self, now_ms: TimeMs, before: Option<&PodInfo>, after: Option<&PodInfo>) {
        let Some(before) = before.filter(|pod| pod.nominated_node_name.is_some() && pod.node_name.is_none()) else {
            return;
        };
        if after.is_some_and(|pod| pod.node_name.is_none()) || !planted("keeps-nominations") {
            return;
        }
        let uid = format!("{}-nominated", before.uid).into();
        let kept = PodInfo { uid, gates: vec!["kept".into()], ..before.clone() };
        self.machine.handle_event(now_ms, Event::PodApplied(Arc::new(kept)));
    }

    /// The actions that are performed instead of one.
    fn instead_of(&mut self, now_ms: TimeMs, action: Action) -> Option<Action> {
        match action {
            Action::Bind(binding) => {
                let victim = self.anyone_below(&binding.uid).filter(|_| planted("evicts-first"));
                let assumes = !planted("assumes-nothing");
                if !assumes || victim.is_some() {
                    let (uid, reason) = (Arc::clone(&binding.uid), "it evicts first".to_owned());
                    let failure = if assumes { BindFailure::Error(reason) } else { BindFailure::Gone };
                    self.machine.handle_event(now_ms, Event::BindFailed { uid, failure });
                }
                Some(victim.map_or(Action::Bind(binding.clone()), |victim| preempt(binding, victim)))
            }
            Action::PreBind(pre_bind) if planted("binds-before-volumes") => {
                Some(Action::Bind(self.binding(now_ms, pre_bind)))
            }
            Action::DropWorker { reason, .. }
                if reason.ends_with("unexpected messages") && planted("listens-without-end") =>
            {
                None
            }
            Action::Report(Report { uid, reason: Reason::SchedulerError, .. }) if planted("loses-errors") => {
                self.machine.handle_event(now_ms, Event::PodDeleted { uid: Arc::clone(&uid) });
                self.lost.insert(uid);
                None
            }
            action => Some(action),
        }
    }

    /// A placed pod of lower priority than a pod.
    fn anyone_below(&self, uid: &str) -> Option<Arc<PodInfo>> {
        let priority = self.pods.get(uid)?.priority;
        let is_below =
            |pod: &&Arc<PodInfo>| pod.priority < priority && pod.node_name.is_some() && !pod.deleting && !pod.finished;
        self.pods.values().find(is_below).cloned()
    }

    fn binding(&self, now_ms: TimeMs, PreBind { uid, namespace, name, node, .. }: PreBind) -> Binding {
        let scheduler_name = self.pods.get(&uid).map(|pod| Arc::clone(&pod.scheduler_name)).unwrap_or_default();
        Binding {
            uid,
            namespace,
            name,
            node,
            scheduler_name,
            attempt: 1,
            waited_ms: 0,
            began_ms: now_ms,
            decided_ms: now_ms,
            prepared_ms: None,
            pre_bound: Vec::new(),
            flushed: false,
            revision: 0,
            total: 0,
            extender: None,
            trace: None,
        }
    }
}

impl Course for Defective {
    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn machine_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }

    fn handle_event(&mut self, now_ms: TimeMs, event: Event) -> Option<&'static str> {
        let event = self.instead(now_ms, event);
        self.machine.handle_event(now_ms, event)
    }

    fn poll_actions(&mut self, now_ms: TimeMs, heard_ms: TimeMs) -> Vec<Action> {
        let actions = self.machine.poll_actions_as_of(now_ms, heard_ms);
        actions.into_iter().filter_map(|action| self.instead_of(now_ms, action)).collect()
    }
}

fn configured(configuration: Arc<Configuration>) -> Arc<Configuration> {
    let mut configuration = Configuration::clone(&configuration);
    if planted("backs-off-for-ever") {
        (configuration.pod_initial_backoff_ms, configuration.pod_max_backoff_ms) = (NEVER_MS, NEVER_MS);
    }
    if planted("waits-for-late-workers") {
        (configuration.worker_hedge_ms, configuration.worker_deadline_ms) = (NEVER_MS, NEVER_MS);
    }
    Arc::new(configuration)
}

fn preempt(binding: Binding, victim: Arc<PodInfo>) -> Action {
    let Binding { uid, namespace, name, scheduler_name, .. } = binding;
    let PodInfo { uid: of_victim, name: victim_name, class, node_name, generation, .. } = &*victim;
    let (of_victim, victim_name) = (Arc::clone(of_victim), Arc::clone(victim_name));
    let pod = PodName { uid: of_victim, namespace: Arc::clone(&class.namespace), name: victim_name };
    Action::Preempt(Preemption {
        id: PreemptionId(u64::MAX),
        pods: vec![Arc::clone(&uid)],
        preemptor: PodName { uid, namespace, name },
        kind: PreemptorKind::Pod,
        scheduler_name,
        node: node_name.clone(),
        victims: vec![Victim { pod, generation: *generation }],
        in_memory: Vec::new(),
    })
}
