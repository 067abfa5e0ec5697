//! PostFilter: decides whether and where to search for victims.
//!
//! Source: `Evaluator.Preempt`.

use std::sync::Arc;

use flotilla_framework::{
    diagnosis::Diagnosis,
    extender::Proposal,
    node::NodeId,
    plugins::{default_preemption, dynamic_resources},
    preemption::{DryRunResult, NominatedNode, PlacedPod, why_ineligible, words},
    profile::Profile,
    shard::RequestId,
};

use super::{PreemptionResult, Round, Settled, search::Asked};
use crate::{
    action::{Nomination, Unreserve},
    cycle::Progress,
    event::TimeMs,
    judge::searches::{Outcome, Potential},
    machine::Machine,
    pods::PodStage,
    site::Site,
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
        if self.judge.fails_without_state(subject) {
            return match is_nominated {
                true => self.set_aside(now_ms, uid, diagnosis, Nomination::Keep),
                false => self.turn_down(now_ms, uid, diagnosis, None),
            };
        }
        if self.site().waits_for_victims(now_ms, uid, subject) {
            return Progress::Waiting;
        }
        let diagnosis = self.site().free_claims(uid, subject, diagnosis);
        if !self.settings.profile(profile).is_some_and(default_preemption::is_on) {
            return self.turn_down(now_ms, uid, diagnosis, None);
        }
        self.status.preemption_attempts += 1;
        if self.preemptions.is_under_way(uid) {
            return self.set_aside(now_ms, uid, diagnosis.after(words::because(words::RUNNING)), Nomination::Keep);
        }
        let known = self.pods.get(uid).and_then(|pod| self.unresolvable.message(pod, subject, &self.judge));
        if let Some(message) = known.filter(|_| objected.is_empty()) {
            let diagnosis = diagnosis.after(message.to_owned());
            return self.turn_down(now_ms, uid, diagnosis, None);
        }
        if self.lets_others_preempt_first(now_ms, uid) {
            return Progress::Decided;
        }
        let round = self.site().survey(uid, subject, diagnosis, objected);
        match round.map_or_else(|settled| Some(*settled), |round| self.site().try_nodes(now_ms, round)) {
            Some(settled) => self.settle(now_ms, settled),
            None => Progress::Waiting,
        }
    }

    /// Carries out the result of a search.
    fn settle(&mut self, now_ms: TimeMs, settled: Settled) -> Progress {
        let Settled { uid, subject, diagnosis, result, revision } = settled;
        let is_old = self.judge.cache().revision() != revision;
        let progress = match result {
            PreemptionResult::Undecided(message) => {
                self.set_aside(now_ms, &uid, diagnosis.after(message), Nomination::Keep)
            }
            PreemptionResult::Unresolvable(message) => {
                let pod = self.pods.get(&uid).filter(|_| !is_old);
                if let Some(pod) = pod.filter(|pod| self.settings.extenders_of(Some(pod)).is_empty()) {
                    self.unresolvable.remember(pod, subject, &self.judge, &message);
                }
                self.turn_down(now_ms, &uid, diagnosis.after(message), None)
            }
            PreemptionResult::Found(candidate) => self.preempt(now_ms, &uid, diagnosis, &candidate),
            PreemptionResult::Refuted(node) => {
                // The pod is still at the head of the queue, and is decided again.
                self.judge.refute_refusal(subject, node);
                self.shards().drop_mismatched();
                Progress::Decided
            }
        };
        if is_old {
            // The pod missed events while it waited at the head of the queue.
            self.wake(now_ms, &uid);
        }
        progress
    }

    /// Continues a search once its answers are complete.
    pub(crate) fn continue_preemption(&mut self, now_ms: TimeMs) {
        let is_answered = |round: &mut Round| {
            round.proposed.is_none() && round.asked.as_ref().is_none_or(|asked| asked.owing.is_empty())
        };
        let Some(mut round) = self.preemptions.search.take_if(is_answered) else { return };
        if !self.site().is_waited_for(&round) {
            self.status.dry_runs_discarded += 1;
            return;
        }
        if let Some(Asked { nodes, mut outcomes, .. }) = round.asked.take() {
            for (place, (node, layout)) in nodes.into_iter().enumerate() {
                if round.shortlist.is_enough() {
                    break;
                }
                match layout {
                    Some(layout) => {
                        let result = outcomes.remove(&place).unwrap_or(DryRunResult::Stale);
                        round.add(node, Outcome::of(&layout, result, self.judge.cache().snapshot()));
                    }
                    None => round.skip(node),
                }
            }
        }
        let settled = self.site().try_nodes(now_ms, round);
        settled.into_iter().for_each(|settled| _ = self.settle(now_ms, settled));
    }

    pub(crate) fn proposed(&mut self, now_ms: TimeMs, request: RequestId, outcome: Result<Box<Proposal>, String>) {
        let is_it = |round: &mut Round| round.proposed.is_some_and(|(known, _)| known == request);
        let round = self.preemptions.search.take_if(is_it);
        let Some(round) = round.filter(|round| self.site().is_waited_for(round)) else {
            self.status.extensions_discarded += 1;
            return;
        };
        let verdict = match outcome {
            Err(reason) => PreemptionResult::Undecided(words::because(&reason)),
            Ok(proposal) => self.site().judge_proposal(&round, &proposal),
        };
        self.settle(now_ms, round.settle(verdict));
    }

    /// Gives up an overdue answer, so that the queue continues.
    pub(crate) fn give_up_proposal(&mut self, now_ms: TimeMs) {
        let is_late = |round: &mut Round| round.proposed.is_some_and(|(_, until_ms)| until_ms <= now_ms);
        let Some(round) = self.preemptions.search.take_if(is_late) else { return };
        self.status.extensions_lost += 1;
        if self.site().is_waited_for(&round) {
            let verdict = PreemptionResult::Undecided(words::because("the extenders' answer was lost"));
            self.settle(now_ms, round.settle(verdict));
        }
    }
}

impl Site<'_> {
    /// Whether the pod of a search still waits, unchanged and under the same configuration.
    fn is_waited_for(&mut self, round: &Round) -> bool {
        let pod = self.pods.get(&round.uid).filter(|pod| pod.class == round.subject.1);
        let is_queued = pod.is_some_and(|pod| pod.stage == PodStage::Queued(round.subject.0));
        let waits =
            is_queued && self.queue.is_active(&round.uid) && self.settings.generation() == Some(round.generation);
        // A change of the facts may have closed the class state.
        waits && self.shards.epoch.is_some() && self.shards.judge.open(round.subject)
    }

    /// Whether a pod that may preempt has to wait, because the victims of others are still being deleted. A pod with extenders does not, because
    /// each of its attempts calls them.
    fn waits_for_victims(&mut self, now_ms: TimeMs, uid: &Uid, subject: Subject) -> bool {
        let Some(pod) = self.pods.get(uid).filter(|pod| !pod.info.never_preempts) else { return false };
        let waits = self.shards.preemptions.waits_until(now_ms).is_some()
            && self.settings.profile(subject.0).is_some_and(default_preemption::is_on)
            && (self.residents.any_at_all_below(pod.info.priority) || self.groups.any_below(pod.info.priority))
            && !self.shards.preemptions.is_under_way(uid)
            && self.settings.extenders_of(Some(pod)).is_empty();
        self.shards.status.preemptions_delayed += u64::from(waits && self.shards.preemptions.delay(uid));
        waits
    }

    fn free_claims(&mut self, uid: &Uid, subject: Subject, diagnosis: Diagnosis) -> Diagnosis {
        let is_on = |profile: &Profile| profile.plugins.post_filter.iter().any(|name| name == dynamic_resources::NAME);
        if !self.settings.profile(subject.0).is_some_and(is_on) || self.pods.is_resize_deferred(uid) {
            return diagnosis;
        }
        let Some((unreserve, words)) = self.claim_to_free(uid, subject) else { return diagnosis };
        self.shards.free(unreserve);
        diagnosis.after(words)
    }

    /// A claim to deallocate because its nodes are infeasible, or a claim for extended resources to delete because it is left from an
    /// earlier attempt. With the message.
    pub(crate) fn claim_to_free(&self, uid: &Uid, subject: Subject) -> Option<(Unreserve, &'static str)> {
        let pod = self.pods.get(uid).filter(|pod| pod.info.class.devices.is_some())?;
        self.shards.judge.states().get(subject)?;
        let (plugin, unavailable) = (dynamic_resources::NAME, self.unavailable_claims(subject));
        let (writes, words) = self.shards.judge.cache().objects().post_filter(plugin, &pod.info, unavailable)?;
        Some((Unreserve { pod: pod.name(), plugin, writes }, words))
    }

    /// The claims for which a node is infeasible, one bit each.
    pub(crate) fn unavailable_claims(&self, subject: Subject) -> u64 {
        let Some(state) = self.shards.judge.states().get(subject) else { return 0 };
        let refused = state.own().map(|own| own.view.refused_now());
        refused.map_or(0, |refused| dynamic_resources::unavailable(state.prepared(), &refused))
    }

    /// Finds the nodes to try, in order. `Err`: no search is needed.
    pub(super) fn survey(
        &mut self,
        uid: &Uid,
        subject: Subject,
        diagnosis: Diagnosis,
        objected: &[NodeId],
    ) -> Result<Round, Box<Settled>> {
        let revision = self.shards.judge.cache().revision();
        let end =
            |diagnosis, result| Err(Box::new(Settled { uid: Arc::clone(uid), subject, diagnosis, result, revision }));
        let Some(pod) = self.pods.get(uid) else {
            return end(diagnosis, PreemptionResult::Undecided(String::new()));
        };
        let (priority, info) = (pod.info.priority, Arc::clone(&pod.info));
        if let Some(reason) = why_ineligible(&info, None) {
            return end(diagnosis, PreemptionResult::Undecided(words::because(reason)));
        }
        if objected.is_empty()
            && !self.residents.any_at_all_below(priority)
            && !self.groups.any_below(priority)
            && let Some(message) = self.shards.judge.no_pod_is_below(subject)
        {
            return end(diagnosis, PreemptionResult::Unresolvable(message));
        }
        let own = pod
            .nominated_node()
            .and_then(|node| Some((self.shards.judge.cache().nodes().get(node)?.id, Arc::clone(node))));
        let own_id = own.as_ref().map(|(id, _)| *id);
        let budgets = self.shards.budgets.version();
        let found = self.shards.judge.potential_nodes((uid, priority), subject, own_id, objected, budgets);
        let Potential { nodes: potential, own_code: code, is_known } = match found {
            Ok(potential) => potential,
            Err(suiting) => return end(diagnosis, PreemptionResult::Refuted(suiting)),
        };
        if let Some((_, name)) = &own {
            let pods: Vec<PlacedPod> = self.ranked_on(name).collect();
            if let Some(reason) = why_ineligible(&info, Some(NominatedNode { code, pods: &pods })) {
                return end(diagnosis, PreemptionResult::Undecided(words::because(reason)));
            }
        }
        let round = self.round(uid, subject, diagnosis, priority, potential, objected);
        // The coordinator remembers its dry runs, but not those of workers.
        Ok(Round { is_local: round.is_local || is_known, ..round })
    }

    /// The pods on a node. Victims of preemptions in flight count as terminating before the watch shows it.
    pub(crate) fn pods_on(&self, node: &str) -> impl Iterator<Item = PlacedPod> {
        self.residents.on(node).filter_map(|uid| {
            let pod = self.pods.get(uid)?;
            let charge = pod.charge.as_ref()?;
            let mut standing = PlacedPod::of(&pod.info, charge.class);
            standing.is_preempted |= self.shards.preemptions.is_doomed(uid);
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
}
