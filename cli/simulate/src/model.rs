//! The model of the cluster around the scheduler: API server, controllers and kubelets.

use std::sync::Arc;

use flotilla_framework::{
    class::{Class, PodInfo},
    volumes::mounts::{Owner, PodVolumes},
};
use flotilla_machine::{action::PodName, event::Event};
use flotilla_model::{Change, Controllers, Deletion, Report, Start};

use crate::{ledger::Ledger, requests::Request, storage::Storage};

/// All objects that the scheduler does not write itself.
pub(super) struct Model {
    storage: Storage,
    controllers: Controllers,
    ledger: Ledger,
}

impl Model {
    pub(super) fn new(start: Start<'_>, drained: &[Arc<str>], ledger: Ledger) -> Self {
        Self { storage: Storage::new(&start.cluster), controllers: Controllers::new(start, drained), ledger }
    }

    /// What controllers do before the first decision.
    pub(super) fn begin(&mut self) -> Vec<Event> {
        let mut events = self.storage.begin();
        let changes = self.controllers.initial();
        events.extend(changes.into_iter().flat_map(|change| self.carry_out(change, "")));
        events
    }

    /// Whether controllers act even if every pod is decided.
    pub(super) const fn has_plans(&self) -> bool {
        self.controllers.have_plans()
    }

    /// How rollouts and drains ended.
    pub(super) fn report(&self) -> Report {
        self.controllers.report()
    }

    /// Answers the requests of one round.
    pub(super) fn answer(&mut self, requests: Vec<Request>) -> Vec<Event> {
        let mut events = Vec::with_capacity(2 * requests.len());
        for request in requests {
            match request {
                Request::Bind(pod) => {
                    self.controllers.bind(&pod);
                    events.push(Event::Bound { uid: Arc::clone(&pod.uid) });
                    events.push(Event::PodApplied(pod));
                }
                Request::PreBind(pod, pre_bind) => events.extend(self.storage.carry_out(&pod, pre_bind)),
                Request::Unreserve(unreserve) => events.extend(self.storage.give_back(&unreserve)),
                Request::Preempt(preemption) => {
                    let PodName { namespace, name, uid } = &preemption.preemptor;
                    events.push(Event::Preempted { uid: Arc::clone(uid), id: preemption.id, failure: None });
                    let by = format!("{namespace}/{name}");
                    let changes = self.controllers.preempt(&preemption);
                    events.extend(changes.into_iter().flat_map(|change| self.carry_out(change, &by)));
                }
            }
        }
        // Watches are never late: written objects come before the answer to the write.
        events.sort_by_key(|event| !matches!(event, Event::ObjectApplied(_) | Event::ObjectDeleted(_)));
        events
    }

    /// Lets kubelets and controllers act once.
    pub(super) fn step(&mut self) -> Vec<Event> {
        let changes = self.controllers.step();
        changes.into_iter().flat_map(|change| self.carry_out(change, "")).collect()
    }

    /// The pod's unbound claims, by name.
    pub(super) fn unbound(&self, pod: &PodInfo) -> Vec<Arc<str>> {
        self.storage.unbound(pod)
    }

    /// Carries out a change of the controllers. `by`: the preemptor.
    fn carry_out(&mut self, change: Change, by: &str) -> Vec<Event> {
        match change {
            Change::Delete { pod, by: deletion } => {
                match deletion {
                    Deletion::Preempted => self.ledger.preempted(&pod, by),
                    _ => self.ledger.removed(&pod, deletion),
                }
                let mut events = self.storage.pod_deleted(&pod);
                events.push(Event::PodDeleted { uid: Arc::clone(&pod.uid) });
                events
            }
            Change::Claim(claim) => self.storage.claim_created(*claim),
            Change::Budget(budget) => vec![Event::BudgetApplied(Arc::new(budget))],
            Change::Create(pod) => {
                let pod = owning_its_claims(pod);
                self.ledger.add(&pod);
                let mut events = self.storage.pod_created(&pod);
                events.push(Event::PodApplied(pod));
                events
            }
        }
    }
}

/// The pod as the owner of its ephemeral volumes' claims.
fn owning_its_claims(pod: Arc<PodInfo>) -> Arc<PodInfo> {
    let Some(PodVolumes { owner: Some(_), mounts }) = pod.class.volumes.as_deref() else { return pod };
    let owner = Some(Owner { name: Arc::clone(&pod.name), uid: Arc::clone(&pod.uid) });
    let volumes = Some(PodVolumes { mounts: mounts.clone(), owner }.into());
    Arc::new(PodInfo { class: Arc::new(Class { volumes, ..Class::clone(&pod.class) }), ..PodInfo::clone(&pod) })
}
