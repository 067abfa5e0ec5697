//! The model of the cluster around the scheduler: API server, controllers and kubelets.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use flotilla_framework::{
    class::{Class, PodInfo},
    devices::objects::{ClaimPatch, DeviceObject},
    extension::objects::{ObjectKey, Patch, Write},
    volumes::{
        mounts::{Owner, PodVolumes},
        objects::StorageObject,
    },
};
use flotilla_machine::{
    action::{PodName, Preemption},
    event::Event,
};
use flotilla_model::{Change, Controllers, Deletion, Report, Start};

use crate::{
    ledger::{Ledger, Saved},
    requests::Request,
    storage::Storage,
};

/// The limit of the preemptions of one pod or group; later ones are not answered. A pod needs one or two. With more, it is not bound after
/// them, controllers recreate its victims, and a cluster would repeat this without end.
const MOST_PREEMPTIONS: usize = 20;

/// All objects that the scheduler does not write itself.
#[derive(Clone)]
pub(super) struct Model {
    storage: Storage,
    controllers: Controllers,
    ledger: Ledger,
    /// The objects that change in an attempt.
    journal: Option<Journal>,
    /// The preemptions of each pod and group, by UID.
    preemptions: HashMap<Arc<str>, usize>,
}

/// The objects that an attempt has changed.
#[derive(Clone, Default)]
pub(super) struct Journal {
    pub(super) pods: BTreeMap<Arc<str>, Arc<PodInfo>>,
    pub(super) objects: BTreeSet<ObjectKey>,
    /// Namespaces and names.
    pub(super) budgets: BTreeSet<(Arc<str>, Arc<str>)>,
}

impl Model {
    /// `follows`: all pods are followed, as removals of nodes need.
    pub(super) fn new(start: Start<'_>, drained: &[Arc<str>], ledger: Ledger, follows: bool) -> Self {
        let storage = Storage::new(&start.cluster);
        let (controllers, preemptions) = (Controllers::new(start, drained, follows), HashMap::new());
        Self { storage, controllers, ledger, journal: None, preemptions }
    }

    pub(super) const fn controllers(&self) -> &Controllers {
        &self.controllers
    }

    /// Begins to evict the pods of a cordoned node, and to note all changes.
    pub(super) fn vacate(&mut self, node: &Arc<str>) {
        self.journal = Some(Journal::default());
        self.controllers.vacate(node);
    }

    /// Deletes the pods that leave with a node. Returns the watch events, the deletion of the node among them.
    pub(super) fn remove_node(&mut self, node: &Arc<str>) -> Vec<Event> {
        let changes = self.controllers.remove_node(node);
        self.storage.forget_node(node);
        let mut events: Vec<Event> = changes.into_iter().flat_map(|change| self.carry_out(change, "")).collect();
        self.note(&events);
        events.push(Event::NodeDeleted { name: Arc::clone(node) });
        events
    }

    /// Ends an attempt, and returns the objects that it has changed.
    pub(super) fn take_journal(&mut self) -> Journal {
        self.journal.take().unwrap_or_default()
    }

    /// Returns to this state, which was saved before an attempt. Returns the watch events that revert the attempt, except those of nodes.
    pub(super) fn revert(&mut self, mut later: Self, saved: &Saved) -> Vec<Event> {
        let Journal { pods, objects, budgets } = later.take_journal();
        self.controllers.continue_names(&later.controllers);
        let mut events: Vec<Event> = pods.keys().map(|uid| Event::PodDeleted { uid: Arc::clone(uid) }).collect();
        events.extend(self.storage.revert(&later.storage, &objects));
        for pod in pods.values() {
            if let Some(before) = saved.undecided(&pod.uid).or_else(|| self.controllers.pod(pod)) {
                events.push(Event::PodApplied(Arc::clone(before)));
            }
        }
        let budgets = budgets.iter().filter_map(|(namespace, name)| self.controllers.budget(namespace, name));
        events.extend(budgets.map(|budget| Event::BudgetApplied(Arc::new(budget.clone()))));
        events
    }

    /// Notes the changed objects of an attempt.
    fn note(&mut self, events: &[Event]) {
        let Some(journal) = &mut self.journal else { return };
        for event in events {
            match event {
                Event::PodApplied(pod) => _ = journal.pods.insert(Arc::clone(&pod.uid), Arc::clone(pod)),
                Event::ObjectApplied(object) => _ = journal.objects.insert(object.key()),
                Event::ObjectDeleted(key) => _ = journal.objects.insert(key.clone()),
                Event::BudgetApplied(budget) => {
                    journal.budgets.insert((Arc::clone(&budget.namespace), Arc::clone(&budget.name)));
                }
                _ => {}
            }
        }
    }

    /// What controllers do before the first decision.
    pub(super) fn begin(&mut self) -> Vec<Event> {
        let mut events = self.storage.begin();
        let changes = self.controllers.initial();
        events.extend(changes.into_iter().flat_map(|change| self.carry_out(change, "")));
        events
    }

    /// All storage objects and ResourceClaims.
    pub(super) fn into_objects(self) -> (Vec<StorageObject>, Vec<DeviceObject>) {
        self.storage.into_objects()
    }

    /// Whether controllers act even if every pod is decided.
    pub(super) const fn has_plans(&self) -> bool {
        self.controllers.have_plans()
    }

    /// How rollouts and drains ended.
    pub(super) fn report(&self) -> Report {
        self.controllers.report()
    }

    /// Answers the requests of one round, except preemptions above [`MOST_PREEMPTIONS`].
    pub(super) fn answer(&mut self, requests: Vec<Request>) -> Vec<Event> {
        let mut events = Vec::with_capacity(2 * requests.len());
        for request in requests {
            match request {
                Request::Bind(pod) => {
                    self.controllers.bind(&pod);
                    events.push(Event::Bound { uid: Arc::clone(&pod.uid) });
                    events.push(Event::PodApplied(pod));
                }
                Request::PreBind(pod, pre_bind) => {
                    self.write_amounts(&pre_bind.writes);
                    events.extend(self.storage.carry_out(&pod, pre_bind));
                }
                Request::Unreserve(unreserve) => {
                    self.write_amounts(&unreserve.writes);
                    events.extend(self.storage.give_back(&unreserve));
                }
                Request::Preempt { preemption, .. } if self.is_repeated(&preemption) => {
                    let PodName { namespace, name, .. } = preemption.preemptor;
                    self.ledger.stopped(format!("{namespace}/{name}"));
                }
                Request::Preempt { preemption, .. } => {
                    let PodName { namespace, name, uid } = &preemption.preemptor;
                    events.push(Event::Preempted { uid: Arc::clone(uid), id: preemption.id, failure: None });
                    let by = format!("{namespace}/{name}");
                    let changes = self.controllers.preempt(&preemption);
                    events.extend(changes.into_iter().flat_map(|change| self.carry_out(change, &by)));
                }
            }
        }
        self.note(&events);
        // Watches are never late: written objects come before the answer to the write.
        events.sort_by_key(|event| !matches!(event, Event::ObjectApplied(_) | Event::ObjectDeleted(_)));
        events
    }

    /// Writes the amounts that the devices of a pod take to its status. The bound pod has them.
    fn write_amounts(&self, writes: &[Write]) {
        for write in writes {
            if let Patch::Claim(ClaimPatch::SetAmounts { uid, claims, .. }) = &write.patch {
                self.ledger.set_amounts(uid, claims);
            }
        }
    }

    /// Records the victims of a preemption that is not carried out.
    pub(super) fn note_victims(&self, preemption: &Preemption) {
        let PodName { namespace, name, .. } = &preemption.preemptor;
        let by = format!("{namespace}/{name}");
        for victim in &preemption.victims {
            let pod = self.controllers.pods().find(|pod| pod.uid == victim.pod.uid);
            pod.into_iter().for_each(|pod| self.ledger.preempted(pod, &by));
        }
    }

    /// Counts a preemption, and returns whether its preemptor has had too many.
    fn is_repeated(&mut self, preemption: &Preemption) -> bool {
        let count = self.preemptions.entry(Arc::clone(&preemption.preemptor.uid)).or_default();
        *count += 1;
        *count > MOST_PREEMPTIONS
    }

    /// Lets kubelets and controllers act once.
    pub(super) fn step(&mut self) -> Vec<Event> {
        let changes = self.controllers.step();
        let events: Vec<Event> = changes.into_iter().flat_map(|change| self.carry_out(change, "")).collect();
        self.note(&events);
        events
    }

    /// The pod's unbound claims, by name.
    pub(super) fn unbound(&self, pod: &PodInfo) -> Vec<Arc<str>> {
        self.storage.unbound(pod)
    }

    /// Carries out a change of the controllers. `by`: the preemptor.
    fn carry_out(&mut self, change: Change, by: &str) -> Vec<Event> {
        match change {
            Change::Delete { pod, by: deletion } => {
                if let Some(journal) = &mut self.journal {
                    journal.pods.insert(Arc::clone(&pod.uid), Arc::clone(&pod));
                }
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

#[cfg(test)]
mod tests {
    use flotilla_cluster::Cluster;
    use flotilla_machine::action::PreemptorKind;

    use super::*;

    #[test]
    fn a_preemptor_without_end_is_stopped() {
        let (cluster, ledger) = (Cluster::default(), Ledger::new(&[]));
        let mut model = Model::new(Start::of(&cluster), &[], ledger.clone(), false);
        let preemption = Preemption {
            id: Default::default(),
            preemptor: PodName { uid: "g".into(), namespace: "default".into(), name: "gang".into() },
            kind: PreemptorKind::PodGroup,
            pods: vec!["a".into()],
            scheduler_name: "default-scheduler".into(),
            node: None,
            victims: Vec::new(),
            in_memory: Vec::new(),
        };
        let request = || Request::Preempt { preemption: preemption.clone(), is_first: false };
        let answers = (0..2 * MOST_PREEMPTIONS).map(|_| model.answer(vec![request()]).len());
        assert_eq!(answers.sum::<usize>(), MOST_PREEMPTIONS);
        let notes = ledger.close(Vec::new()).notes();
        assert!(notes[0].starts_with("note: default/gang preempts pods, but is not bound after that"), "{notes:?}");
    }
}
