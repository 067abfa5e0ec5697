//! Decisions: what is to be done with one pod, as the cluster is now.
//!
//! Knows: when there is enough to decide on, and what has to be asked where there is not. Must not know: the queue, what is
//! done with a decision ([`crate::cycle`], [`crate::groups`]), or how offers are merged or kept exact ([`crate::offers`] and
//! the framework do).

use std::sync::Arc;

use flotilla_framework::{
    diagnosis::{self, Diagnosis, NO_NODES},
    evaluation::Offer,
    node::NodeId,
    prepared::NodeResult,
    select::Best,
    shard::Revision,
    volumes::storage::Plan,
};

use crate::{
    event::TimeMs,
    extend::{Question, Step},
    groups::GroupKey,
    machine::Machine,
    pods::Charge,
    queue::{Subject, Uid},
};

/// What is decided on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt<'a> {
    pub(crate) uid: &'a Uid,
    pub(crate) subject: Subject,
    /// The state of the cluster that the decision has to know of.
    pub(crate) from: Revision,
    /// The group that the pod is decided on with, and whether room is being looked for it. Nobody is asked then.
    pub(crate) group: Option<(&'a GroupKey, bool)>,
}

/// What is to be done with a pod.
#[derive(Debug)]
pub(crate) enum Decision {
    /// It goes there.
    Place(Placement),
    /// No node will do, and what may change that.
    Refuse(Diagnosis, Cure),
    /// Something went wrong that says nothing about the nodes.
    Fail(String),
    /// Workers have to be asked first.
    Ask(Want),
    /// Extenders have to be asked first.
    AskExtenders(Question),
}

/// What may make room for a pod that no node will take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cure {
    /// Nodes: there are none.
    Nodes,
    /// Taking pods away; also on these nodes, which extenders alone turned down.
    Preemption(Vec<NodeId>),
}

/// What workers have to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// The best nodes for a subject.
    Offers(Subject),
    /// All nodes for the head of a family.
    Whole(Subject),
}

/// Where a pod goes by a decision.
#[derive(Debug)]
pub(crate) struct Placement {
    /// What is charged.
    pub(crate) charge: Charge,
    /// What Reserve has to do.
    pub(crate) plan: Option<Plan>,
    /// The weighted score.
    pub(crate) total: i64,
    /// The node was judged anew here.
    pub(crate) repaired: bool,
    /// The state that the decision was made on.
    pub(crate) revision: Revision,
}

impl Machine {
    /// Decides on a pod. Changes nothing but what is known of the nodes.
    pub(crate) fn decide_on(&mut self, now_ms: TimeMs, attempt: &Attempt<'_>) -> Decision {
        let &Attempt { uid, subject, from, group } = attempt;
        if self.cache.nodes.is_empty() {
            let diagnosis = Diagnosis { message: NO_NODES.to_owned(), plugins: Vec::new() };
            return Decision::Refuse(diagnosis, Cure::Nodes);
        }
        if !self.open(subject) {
            return Decision::Fail("its profile or class is unknown".to_owned());
        }
        let extenders = self.extenders_of(uid);
        if extenders.is_empty()
            && self.nominator.of(uid).is_none()
            && let Some(decision) = self.decide_shared(now_ms, attempt)
        {
            return decision;
        }
        loop {
            if let Some(decision) = self.judge_class(subject) {
                return decision;
            }
            if !self.has_offers(now_ms, attempt) {
                return Decision::Ask(Want::Offers(subject));
            }
            if let Some(decision) = self.try_own_node(attempt, &extenders) {
                return decision;
            }
            let Some(dossier) = self.dossiers.get_mut(subject) else { return Decision::Ask(Want::Offers(subject)) };
            let Some(offers) = &mut dossier.offers else { return Decision::Ask(Want::Offers(subject)) };
            // What was asked for since this pod is at the head and still says too little is made up for here.
            // Nor is a group's attempt over while nodes that its own pods were charged to are told apart from the others.
            let is_short = (offers.book.is_laid_over() || group.is_some()) && offers.revision >= from;
            let is_current = offers.book.is_untouched() || offers.revision >= from;
            if let Some(error) = offers.book.error(&dossier.prepared) {
                if is_current {
                    return Decision::Fail(error);
                }
                dossier.offers = None;
                continue;
            }
            match offers.book.best(&dossier.prepared) {
                Best::Dry => {
                    self.status.offers_dry += 1;
                    dossier.offers = None;
                    if is_short {
                        self.evaluate_here(subject);
                    }
                }
                // What is said to the pod's owner is counted in one state, as kube-scheduler's is.
                Best::Nothing if (is_short || is_current) && !offers.book.is_untouched() => self.evaluate_here(subject),
                Best::Nothing if is_current => {
                    let covered = offers.book.covered() as usize;
                    let diagnosis = diagnosis::of_nodes(&dossier.prepared, &offers.book.refused_now(), covered);
                    return Decision::Refuse(diagnosis, Cure::Preemption(Vec::new()));
                }
                Best::Nothing => dossier.offers = None,
                Best::Node { .. } if !extenders.is_empty() => match self.extend(attempt) {
                    Step::Ask(question) => return Decision::AskExtenders(question),
                    Step::Again => {}
                    Step::Told(word) => return self.go_by(attempt, word),
                },
                Best::Node { offer, total, repaired } => {
                    if let Some(decision) = self.take(subject, offer, total, repaired) {
                        return decision;
                    }
                }
            }
        }
    }

    /// What can be said of the pod whatever the nodes are.
    fn judge_class(&self, subject: Subject) -> Option<Decision> {
        let nodes = self.cache.nodes.len();
        let prepared = &self.dossiers.get(subject)?.prepared;
        if let Some(error) = prepared.error().map(str::to_owned) {
            return Some(Decision::Fail(error));
        }
        let diagnosis = diagnosis::of_class(prepared, nodes)?;
        Some(Decision::Refuse(diagnosis, Cure::Preemption(Vec::new())))
    }

    /// Takes the best node, if it is as good as it was said to be.
    fn take(&mut self, subject: Subject, offer: Offer, total: i64, repaired: bool) -> Option<Decision> {
        let dossier = self.dossiers.get_mut(subject)?;
        let has_choice = || dossier.offers.as_ref().is_some_and(|offers| offers.book.has_choice());
        let error = dossier.prepared.score_error().filter(|_| has_choice()).map(str::to_owned);
        if let Some(error) = error {
            return Some(Decision::Fail(error));
        }
        self.verify(subject, offer).then(|| self.place(subject, offer, total, repaired))
    }

    /// Brings the subject's offers up to the present, evaluating here where no worker can. `false`: they have to be asked for.
    fn has_offers(&mut self, now_ms: TimeMs, &Attempt { subject, group, .. }: &Attempt<'_>) -> bool {
        let alone = group.is_some() || self.is_alone(now_ms);
        let Some(dossier) = self.dossiers.get_mut(subject) else { return false };
        if dossier.repair(&self.cache) {
            return true;
        }
        if alone || !dossier.can_be_asked() {
            self.status.evaluations_refuted += u64::from(dossier.is_refuted());
            self.evaluate_here(subject);
            return true;
        }
        false
    }

    pub(crate) fn evaluate_here(&mut self, subject: Subject) {
        self.status.evaluations_local += 1;
        self.dossiers.evaluate_here(subject, &self.cache);
    }

    /// Opens the subject's dossier. `false`: its profile or class is not known.
    pub(crate) fn open(&mut self, (index, class_id): Subject) -> bool {
        let Some(configuration) = self.configuration.clone() else { return false };
        let Some(profile) = configuration.profiles.get(index) else { return false };
        let Some(class) = self.cache.classes.get(class_id).map(Arc::clone) else { return false };
        self.dossiers.open((index, class_id), self.registry, profile, &class, &mut self.cache);
        true
    }

    /// Runs every filter for the chosen node against our own view before anything is assumed. An offer that is not
    /// what our own view gives is a worker's error: the worker is given up, and its word does not count.
    fn verify(&mut self, subject: Subject, offer: Offer) -> bool {
        let Some(dossier) = self.dossiers.get_mut(subject) else { return false };
        let slot = self.cache.snapshot.slot(offer.node);
        let result = slot.map(|slot| dossier.prepared.judge_with(&self.cache.snapshot, slot, &dossier.matches));
        if let (Some(NodeResult::Feasible(feasible)), Some(offers)) = (&result, &mut dossier.offers)
            && offers.book.confirms(offer, feasible)
        {
            return true;
        }
        self.give_up_holder(offer);
        false
    }

    /// Gives up the worker that made an offer which is not what our own view gives.
    pub(crate) fn give_up_holder(&mut self, offer: Offer) {
        let reason = format!("it offered node {} with a score that is not the node's", offer.node.0);
        self.give_up_holder_of(offer.node, &reason);
    }

    /// Gives up the worker that holds a node, for what it said of it.
    pub(crate) fn give_up_holder_of(&mut self, node: NodeId, reason: &str) {
        let holder = self.cache.name(node).and_then(|name| self.cache.nodes.get(name)?.worker);
        if let Some(worker) = holder {
            self.dossiers.distrust();
            self.drop_worker(worker, reason.to_owned());
        }
    }

    /// The placement on a node, with what Reserve will have to do there.
    pub(crate) fn place(&self, subject: Subject, offer: Offer, total: i64, repaired: bool) -> Decision {
        let Some(node) = self.cache.name(offer.node).map(Arc::clone) else {
            return Decision::Ask(Want::Offers(subject));
        };
        match self.plan_volumes(subject, &node) {
            Ok(plan) => {
                let charge = Charge { node, class: subject.1 };
                Decision::Place(Placement { charge, plan, total, repaired, revision: self.cache.revision() })
            }
            Err(error) => Decision::Fail(error),
        }
    }
}
