//! PostFilter: decides whether and where to search for victims.
//!
//! Source: `Evaluator.Preempt`.

use std::sync::Arc;

use flotilla_framework::{
    diagnosis::Diagnosis,
    node::NodeId,
    plugins::{default_preemption, dynamic_resources},
    preemption::{DryRun, DryRunResult, NominatedNode, PlacedPod, why_ineligible, words},
    profile::Profile,
    select::Nominations,
    status::Code,
};
use flotilla_planted::planted;

use super::{PreemptionResult, Round, memory::AsOf};
use crate::{
    action::{Action, Nomination, Unreserve},
    cycle::Progress,
    event::TimeMs,
    judge::{cache::Cache, class_state::ClassState, work::POTENTIAL_NODE},
    machine::Machine,
    pods::PodStage,
    subject::{Subject, Uid},
};

impl Machine {
    /// Runs PostFilter for an infeasible pod. `objected`: nodes that only extenders rejected, which are candidates too.
    pub(crate) fn refuse_beside(
        &mut self,
        now_ms: TimeMs,
        uid: &Uid,
        diagnosis: Diagnosis,
        objected: &[NodeId],
    ) -> Progress {
        let Some(pod) = self.pods.get(uid) else { return Progress::Decided };
        let PodStage::Queued(profile) = pod.stage else { return Progress::Decided };
        let subject = (profile, pod.class);
        let is_nominated = pod.nominated_node().is_some();
        if self.fails_without_state(subject) {
            return match is_nominated {
                true => self.set_aside(now_ms, uid, diagnosis, Nomination::Keep),
                false => self.turn_down(now_ms, uid, diagnosis, None),
            };
        }
        let diagnosis = self.free_claims(uid, subject, diagnosis);
        if !self.profile(profile).is_some_and(default_preemption::is_on) {
            return self.turn_down(now_ms, uid, diagnosis, None);
        }
        self.status.preemption_attempts += 1;
        if self.preemptions.is_under_way(uid) {
            return self.set_aside(now_ms, uid, diagnosis.after(words::because(words::RUNNING)), Nomination::Keep);
        }
        if let Some(message) = self.known_unresolvable(uid, subject).filter(|_| objected.is_empty()) {
            let diagnosis = diagnosis.after(message);
            return self.turn_down(now_ms, uid, diagnosis, None);
        }
        if self.lets_others_preempt_first(now_ms, uid) {
            return Progress::Decided;
        }
        match self.survey(uid, subject, diagnosis, objected) {
            Ok(round) => self.try_nodes(now_ms, round),
            Err((diagnosis, verdict)) => self.conclude_preemption(now_ms, uid, subject, diagnosis, verdict, false),
        }
    }

    /// Whether PostFilter of DynamicResources fails because its PreFilter did not run. Then no other PostFilter runs, and nominations stay.
    ///
    /// Source: `getStateData`, `RunPostFilterPlugins`. kube-scheduler's message `not found` is omitted.
    fn fails_without_state(&self, subject: Subject) -> bool {
        let Some(plugins) = self.profile(subject.0).map(|profile| &profile.plugins) else { return false };
        let is_among = |names: &[String]| names.iter().any(|name| name == dynamic_resources::NAME);
        let ended_by = self.judge.states().get(subject).and_then(|state| state.prepared.ended_by());
        let last = ended_by.and_then(|last| plugins.pre_filter.iter().position(|name| name == last));
        let asked = last.and_then(|last| plugins.pre_filter.get(..=last)).unwrap_or(&plugins.pre_filter);
        is_among(&plugins.post_filter) && !is_among(asked)
    }

    fn free_claims(&mut self, uid: &Uid, subject: Subject, diagnosis: Diagnosis) -> Diagnosis {
        let is_on = |profile: &Profile| profile.plugins.post_filter.iter().any(|name| name == dynamic_resources::NAME);
        if !self.profile(subject.0).is_some_and(is_on) {
            return diagnosis;
        }
        let Some((unreserve, words)) = self.claim_to_free(uid, subject) else { return diagnosis };
        self.free(unreserve);
        diagnosis.after(words)
    }

    /// Writes to a claim that blocks a pod.
    pub(crate) fn free(&mut self, unreserve: Unreserve) {
        if self.leading.is_some() {
            self.actions.push(Action::Unreserve(unreserve));
        }
    }

    /// A claim to deallocate because its nodes are infeasible, or a claim for extended resources to delete because it is left from an
    /// earlier attempt. With the message.
    pub(crate) fn claim_to_free(&self, uid: &Uid, subject: Subject) -> Option<(Unreserve, &'static str)> {
        let pod = self.pods.get(uid).filter(|pod| pod.info.class.devices.is_some())?;
        let state = self.judge.states().get(subject)?;
        let refused = state.own().map(|own| own.view.refused_now());
        let unavailable = refused.map_or(0, |refused| dynamic_resources::unavailable(&state.prepared, &refused));
        let plugin = dynamic_resources::NAME;
        let (writes, words) = self.judge.cache().objects.post_filter(plugin, &pod.info, unavailable)?;
        Some((Unreserve { pod: pod.name(), plugin, writes }, words))
    }

    /// Carries out the result of a search. `is_old`: the cluster changed since it began.
    pub(super) fn conclude_preemption(
        &mut self,
        now_ms: TimeMs,
        uid: &Uid,
        subject: Subject,
        diagnosis: Diagnosis,
        verdict: PreemptionResult,
        is_old: bool,
    ) -> Progress {
        match verdict {
            PreemptionResult::Undecided(message) => {
                let diagnosis = diagnosis.after(message);
                self.set_aside(now_ms, uid, diagnosis, Nomination::Keep)
            }
            PreemptionResult::Unresolvable(message) => {
                if !is_old {
                    self.remember_unresolvable(uid, subject, &message);
                }
                let diagnosis = diagnosis.after(message);
                self.turn_down(now_ms, uid, diagnosis, None)
            }
            PreemptionResult::Found(candidate) => self.preempt(now_ms, uid, diagnosis, &candidate),
            PreemptionResult::Refuted(node) => {
                // The pod is still at the head of the queue, and is decided again.
                self.judge.refute_refusal(subject, node);
                self.drop_mismatched_workers();
                Progress::Decided
            }
        }
    }

    /// Finds the nodes to try, in order. `Err`: no search is needed.
    pub(super) fn survey(
        &mut self,
        uid: &Uid,
        subject: Subject,
        diagnosis: Diagnosis,
        objected: &[NodeId],
    ) -> Result<Round, (Diagnosis, PreemptionResult)> {
        let Some(pod) = self.pods.get(uid) else { return Err((diagnosis, PreemptionResult::Undecided(String::new()))) };
        let (priority, info) = (pod.info.priority, Arc::clone(&pod.info));
        if let Some(reason) = why_ineligible(&info, None) {
            return Err((diagnosis, PreemptionResult::Undecided(words::because(reason))));
        }
        if objected.is_empty()
            && !self.residents.any_at_all_below(priority)
            && !self.groups.any_below(priority)
            && let Some(message) = self.no_pod_is_below(subject)
        {
            return Err((diagnosis, PreemptionResult::Unresolvable(message)));
        }
        let own =
            pod.nominated_node().and_then(|node| Some((self.judge.cache().nodes.get(node)?.id, Arc::clone(node))));
        let (potential, code) = match self.potential_nodes(uid, subject, own.as_ref().map(|(id, _)| *id), objected) {
            Ok(potential) => potential,
            Err(suiting) => return Err((diagnosis, PreemptionResult::Refuted(suiting))),
        };
        if let Some((_, name)) = &own {
            let pods: Vec<PlacedPod> = self.ranked_on(name).collect();
            if let Some(reason) = why_ineligible(&info, Some(NominatedNode { code, pods: &pods })) {
                return Err((diagnosis, PreemptionResult::Undecided(words::because(reason))));
            }
        }
        Ok(self.round(uid, subject, diagnosis, priority, potential, objected))
    }

    /// The message if no pod has a lower priority, which needs no dry run.
    fn no_pod_is_below(&self, (profile, class): Subject) -> Option<String> {
        let state = self.judge.states().get((profile, class))?;
        let potential: usize = match state.own() {
            _ if state.prepared.refusal().is_some() => 0,
            Some(own) => {
                let refused = own.view.refused_now();
                let potential = refused.iter().filter(|group| group.refusal.code == Code::Unschedulable);
                potential.map(|group| group.count as usize).sum()
            }
            None => return None,
        };
        let outcomes = std::iter::repeat_n(("", &DryRunResult::NoVictims), potential);
        words::fruitless(&state.prepared, outcomes, self.judge.cache().nodes.len()).ok()
    }

    /// The nodes where preemption may help, in the order of ranks, and the status of the pod's nominated node. `Err`: this node is
    /// feasible, although workers reported that none is.
    fn potential_nodes(
        &mut self,
        uid: &Uid,
        subject: Subject,
        own: Option<NodeId>,
        objected: &[NodeId],
    ) -> Result<(Vec<NodeId>, Code), NodeId> {
        let priority = self.pods.get(uid).map_or(0, |pod| pod.info.priority);
        let nominations = self.judge.nominations(uid, priority);
        let is_from_workers = self.judge.is_from_workers(subject);
        let nodes = self.judge.cache().nodes.len() as u64;
        self.judge.spend(POTENTIAL_NODE * nodes);
        let found = self.judge.contained(subject, |judge| {
            let known = judge.with_nodes(subject).filter(|(known, _)| known.prepared.refusal().is_none());
            known.map(|(state, cache)| potential_nodes(state, cache, &nominations, own, objected, is_from_workers))
        });
        found.flatten().unwrap_or(Ok((Vec::new(), Code::UnschedulableAndUnresolvable)))
    }

    /// The pods on a node. Victims of preemptions in flight count as terminating before the watch shows it.
    pub(crate) fn pods_on(&self, node: &str) -> impl Iterator<Item = PlacedPod> {
        self.residents.on(node).filter_map(|uid| {
            let pod = self.pods.get(uid)?;
            let charge = pod.charge.as_ref()?;
            let mut standing = PlacedPod::of(&pod.info, charge.class);
            standing.is_preempted |= self.preemptions.is_doomed(uid);
            Some(standing)
        })
    }

    /// The same, with the priority at which each is preempted.
    fn ranked_on(&self, node: &str) -> impl Iterator<Item = PlacedPod> {
        self.pods_on(node).map(|standing| {
            let priority = self.pods.get(&standing.uid).map_or(standing.priority, |pod| self.rank_of(pod));
            PlacedPod { priority, ..standing }
        })
    }

    fn as_of(&self, subject: Subject) -> Option<AsOf> {
        let class = self.judge.cache().classes.get(subject.1).filter(|class| !class.uses_objects())?;
        let facts = self.judge.cache().facts_version(class);
        Some(AsOf { revision: self.judge.cache().revision(), nominations: self.judge.nominator().version(), facts })
    }

    /// The cached message, if no preemption makes room for the pod.
    fn known_unresolvable(&self, uid: &Uid, subject: Subject) -> Option<String> {
        let pod = self.pods.get(uid).filter(|pod| pod.nominated_node().is_none() && !pod.info.never_preempts)?;
        let known = self.unresolvable.message(subject, pod.info.priority, self.as_of(subject)?);
        known.map(str::to_owned)
    }

    pub(crate) fn forget_unresolvable(&mut self) {
        self.unresolvable.clear();
    }

    fn remember_unresolvable(&mut self, uid: &Uid, subject: Subject, message: &str) {
        let asks_none = self.extenders_of(uid).is_empty();
        let Some(pod) = self.pods.get(uid).filter(|pod| pod.nominated_node().is_none() && asks_none) else { return };
        if let Some(as_of) = self.as_of(subject) {
            self.unresolvable.remember(subject, pod.info.priority, as_of, message);
        }
    }
}

fn potential_nodes(
    state: &ClassState,
    cache: &mut Cache,
    nominations: &Nominations,
    own: Option<NodeId>,
    objected: &[NodeId],
    is_from_workers: bool,
) -> Result<(Vec<NodeId>, Code), NodeId> {
    let mut own_code = Code::UnschedulableAndUnresolvable;
    let snapshot = &mut cache.snapshot;
    let mut dry_run = DryRun::new(&state.prepared, snapshot, &state.matches);
    let slots: Vec<_> = snapshot.live().collect();
    let mut potential = Vec::new();
    for slot in slots {
        let Some(node) = snapshot.id(slot) else { continue };
        let beside = nominations.beside(node);
        let refusal = dry_run.refusal(&state.prepared, snapshot, node, beside);
        let code = match refusal {
            Some((_, refusal)) => Some(refusal.code),
            None if is_from_workers && !planted("trusts-refusals") => return Err(node),
            None => objected.contains(&node).then_some(Code::Unschedulable),
        };
        if own == Some(node) {
            let refusal = dry_run.filters_refuse(&state.prepared, snapshot, node, beside);
            own_code = refusal.map_or(Code::Unschedulable, |(_, refusal)| refusal.code);
        }
        if code == Some(Code::Unschedulable) {
            potential.push((snapshot.rank(slot), node));
        }
    }
    potential.sort_unstable();
    Ok((potential.into_iter().map(|(_, node)| node).collect(), own_code))
}
