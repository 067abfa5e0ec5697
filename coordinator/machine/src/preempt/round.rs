//! One pod's search for victims over the nodes.
//!
//! Source: `DryRunPreemption`. kube-scheduler's threads try nodes in parallel, and the first results are the candidates. Here the
//! candidates are the first ones in the order, independent of threads and workers.

use std::sync::Arc;

use flotilla_framework::{
    class::ClassId,
    contain::contain,
    diagnosis::Diagnosis,
    node::NodeId,
    preemption::{
        Candidate, DryRun, DryRunResult, Layout, PlacedPod, Shortlist, Unit, lay_out, lay_out_units, pick_one, words,
    },
    shard::Revision,
};

use super::{NOW_NS, PreemptionResult, Round};
use crate::{
    cycle::Progress,
    event::TimeMs,
    machine::Machine,
    subject::{Subject, Uid},
};

impl Machine {
    pub(super) fn round(
        &self,
        uid: &Uid,
        subject: Subject,
        diagnosis: Diagnosis,
        priority: i32,
        mut potential: Vec<NodeId>,
        objected: &[NodeId],
    ) -> Round {
        let configuration = self.configuration.as_ref();
        let (generation, seed) =
            configuration.map_or((0, 0), |configuration| (configuration.generation, configuration.tie_break_seed));
        let args = self.profile(subject.0).map(|profile| profile.args.default_preemption.clone()).unwrap_or_default();
        let shortlist = Shortlist::new(potential.len(), &args);
        let first = shortlist.first(uid, seed).min(potential.len());
        potential.rotate_left(first);
        potential.reverse();
        Round {
            uid: Arc::clone(uid),
            subject,
            generation,
            revision: self.judge.cache().revision(),
            after: self.next_request,
            diagnosis,
            priority,
            objected: objected.to_vec(),
            left: potential,
            shortlist,
            candidates: Vec::new(),
            failures: Vec::new(),
            asked: None,
            is_from_workers: false,
            // Extenders get the coordinator's results.
            is_local: self.interested(uid).any(|extender| extender.is_preemptor()),
            proposed: None,
        }
    }

    /// Tries nodes until there are enough candidates or no nodes left, or until workers have to answer.
    pub(super) fn try_nodes(&mut self, now_ms: TimeMs, mut round: Round) -> Progress {
        while !round.left.is_empty() && !round.shortlist.is_enough() {
            if !self.may_ask(&round) {
                self.try_nodes_here(&mut round);
            } else if self.ask_for_trials(now_ms, &mut round) {
                self.preempting = Some(round);
                return Progress::Waiting;
            }
        }
        if self.propose(now_ms, &mut round) {
            self.preempting = Some(round);
            return Progress::Waiting;
        }
        let Some(verdict) = self.choose(&mut round) else { return self.try_nodes_again(now_ms, round) };
        let Round { uid, subject, diagnosis, revision, .. } = round;
        self.finish(now_ms, &uid, subject, diagnosis, verdict, revision)
    }

    pub(super) fn settle_round(&mut self, now_ms: TimeMs, round: Round, verdict: PreemptionResult) {
        let Round { uid, subject, diagnosis, revision, .. } = round;
        self.finish(now_ms, &uid, subject, diagnosis, verdict, revision);
    }

    fn finish(
        &mut self,
        now_ms: TimeMs,
        uid: &Uid,
        subject: Subject,
        diagnosis: Diagnosis,
        verdict: PreemptionResult,
        revision: Revision,
    ) -> Progress {
        let is_old = self.judge.cache().revision() != revision;
        let progress = self.conclude_preemption(now_ms, uid, subject, diagnosis, verdict, is_old);
        if is_old {
            // The pod missed events while it waited at the head of the queue.
            self.wake(now_ms, uid);
        }
        progress
    }

    /// A worker's result was incorrect: repeats the search on the coordinator.
    fn try_nodes_again(&mut self, now_ms: TimeMs, round: Round) -> Progress {
        let Round { uid, subject, diagnosis, objected, revision, .. } = round;
        match self.survey(&uid, subject, diagnosis, &objected) {
            Ok(round) => self.try_nodes(now_ms, Round { is_local: true, revision, ..round }),
            Err((diagnosis, verdict)) => self.finish(now_ms, &uid, subject, diagnosis, verdict, revision),
        }
    }

    fn try_nodes_here(&mut self, round: &mut Round) {
        self.status.dry_runs_local += 1;
        let beside = self.judge.nominator().concerning(&round.uid, round.priority, self.judge.cache());
        let Some((state, cache)) = self.judge.with_nodes(round.subject) else { return round.left.clear() };
        let mut dry_run = DryRun::new(&state.prepared, &cache.snapshot, &state.matches);
        while !round.shortlist.is_enough() {
            let Some(node) = round.left.pop() else { return };
            let Some(layout) = self.layout(node, beside.beside(node), round.priority) else {
                round.failures.push((node, DryRunResult::NoVictims));
                continue;
            };
            let Some((prepared, cache)) = self.judge.with_prepared(round.subject) else { return };
            let outcome = contain(|| dry_run.dry_run_whole(prepared, &mut cache.snapshot, &layout));
            self.judge.count_dry_run(round.subject);
            let outcome = match outcome {
                Ok(outcome) => outcome,
                Err(panic) => {
                    self.judge.recover(round.subject, &panic);
                    return round.left.clear();
                }
            };
            let cache = self.judge.cache();
            round.take(&layout, outcome, &cache.snapshot);
        }
    }

    /// The dry run on a node; `None` if there is no potential victim.
    pub(super) fn layout(&mut self, node: NodeId, beside: &[ClassId], priority: i32) -> Option<Layout> {
        let name = self.judge.cache().name(node)?;
        let classes = &self.judge.cache().classes;
        let of = |pod: &PlacedPod| Some((pod.class, classes.get(pod.class)?.as_ref()));
        if self.groups.any() {
            let units = self.units_of(self.residents.on(name), priority);
            let units: Vec<_> = units.into_iter().map(|unit| unit.map(|(at, _)| at)).collect();
            if units.is_empty() {
                return None;
            }
            let budgets = self.budgets.covering(units.iter().flat_map(Unit::standing).filter_map(of));
            let class = |id: ClassId| classes.get(id).map(Arc::clone);
            return Some(lay_out_units(node, units, beside.to_vec(), priority, NOW_NS, &budgets, class));
        }
        if !self.residents.any_below(name, priority) {
            return None;
        }
        let standing: Vec<PlacedPod> = self.pods_on(name).filter(|pod| pod.priority < priority).collect();
        let budgets = self.budgets.covering(standing.iter().filter_map(of));
        let class = |id: ClassId| classes.get(id).map(Arc::clone);
        Some(lay_out(node, &standing, beside.to_vec(), priority, NOW_NS, &budgets, class))
    }

    /// The best candidate, or none. `None`: a worker's result was incorrect.
    fn choose(&mut self, round: &mut Round) -> Option<PreemptionResult> {
        let mut was_wrong = false;
        while let Some(best) = pick_one(&round.candidates, NOW_NS) {
            let candidate = round.candidates.swap_remove(best);
            if !round.is_from_workers {
                return Some(PreemptionResult::Found(candidate));
            }
            let own = self.try_here(round, candidate.node);
            if own.as_ref() == Some(&candidate) {
                return Some(PreemptionResult::Found(candidate));
            }
            if self.judge.cache().revision() == round.revision {
                self.status.dry_runs_refuted += 1;
                let reason = "its dry run of preemption had an incorrect result";
                self.drop_holder_of(candidate.node, round.after, reason);
                return None;
            }
            // The cluster changed since. The node may still be the best with its current result.
            if let Some(own) = own {
                return Some(PreemptionResult::Found(own));
            }
            was_wrong = true;
        }
        if was_wrong {
            return None;
        }
        let Some(state) = self.judge.states().get(round.subject) else {
            return Some(PreemptionResult::Undecided(String::new()));
        };
        let name = |node: &NodeId| self.judge.cache().name(*node).map_or("", |name| &**name);
        let outcomes = round.failures.iter().map(|(node, outcome)| (name(node), outcome));
        Some(match words::fruitless(&state.prepared, outcomes, self.judge.cache().nodes.len()) {
            Ok(message) => PreemptionResult::Unresolvable(message),
            Err(message) => PreemptionResult::Undecided(message),
        })
    }

    fn try_here(&mut self, round: &Round, node: NodeId) -> Option<Candidate> {
        let beside = self.judge.nominator().concerning(&round.uid, round.priority, self.judge.cache());
        let layout = self.layout(node, beside.beside(node), round.priority)?;
        let (state, cache) = self.judge.with_nodes(round.subject)?;
        let mut dry_run = DryRun::new(&state.prepared, &cache.snapshot, &state.matches);
        match contain(|| dry_run.dry_run_whole(&state.prepared, &mut cache.snapshot, &layout)) {
            Ok(outcome) => layout.candidate(&outcome, &cache.snapshot),
            Err(panic) => {
                self.judge.recover(round.subject, &panic);
                None
            }
        }
    }
}
