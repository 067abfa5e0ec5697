//! One pod's search for victims over the nodes.
//!
//! Source: `DryRunPreemption`. kube-scheduler's threads try nodes in parallel, and the first results are the candidates. Here the
//! candidates are the first ones in the order, independent of threads and workers.

use std::sync::Arc;

use flotilla_framework::{
    class::ClassId,
    diagnosis::Diagnosis,
    node::NodeId,
    preemption::{
        Candidate, DryRunResult, Layout, PlacedPod, Shortlist, Unit, lay_out, lay_out_units, pick_one, words,
    },
};

use super::{NOW_NS, PreemptionResult, Round, Settled};
use crate::{
    event::TimeMs,
    judge::searches::Outcome,
    site::Site,
    subject::{Subject, Uid},
};

impl Site<'_> {
    pub(super) fn round(
        &self,
        uid: &Uid,
        subject: Subject,
        diagnosis: Diagnosis,
        priority: i32,
        mut potential: Vec<NodeId>,
        objected: &[NodeId],
    ) -> Round {
        let configuration = self.settings.configuration();
        let (generation, seed) =
            configuration.map_or((0, 0), |configuration| (configuration.generation, configuration.tie_break_seed));
        let args =
            self.settings.profile(subject.0).map(|profile| profile.args.default_preemption.clone()).unwrap_or_default();
        let shortlist = Shortlist::new(potential.len(), &args);
        let first = shortlist.first(uid, seed).min(potential.len());
        potential.rotate_left(first);
        potential.reverse();
        Round {
            uid: Arc::clone(uid),
            subject,
            generation,
            revision: self.shards.judge.cache().revision(),
            after: *self.shards.last_request,
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
            is_local: self.settings.interested(self.pods.get(uid)).any(|extender| extender.is_preemptor()),
            proposed: None,
        }
    }

    /// Tries nodes until there are enough candidates or no nodes left. `None`: workers or extenders have to answer.
    pub(super) fn try_nodes(&mut self, now_ms: TimeMs, mut round: Round) -> Option<Settled> {
        loop {
            while !round.left.is_empty() && !round.shortlist.is_enough() {
                if !self.may_ask(&round) {
                    self.try_nodes_here(&mut round);
                } else if self.ask_for_trials(now_ms, &mut round) {
                    self.shards.preemptions.search = Some(round);
                    return None;
                }
            }
            if self.propose(now_ms, &mut round) {
                self.shards.preemptions.search = Some(round);
                return None;
            }
            if let Some(result) = self.choose(&mut round) {
                return Some(round.settle(result));
            }
            // A worker's result was incorrect: repeats the search on the coordinator.
            let Round { uid, subject, diagnosis, objected, revision, .. } = round;
            match self.survey(&uid, subject, diagnosis, &objected) {
                Ok(again) => round = Round { is_local: true, revision, ..again },
                Err(settled) => return Some(Settled { revision, ..*settled }),
            }
        }
    }

    fn try_nodes_here(&mut self, round: &mut Round) {
        self.shards.status.dry_runs_local += 1;
        let beside = self.shards.judge.nominator().concerning(&round.uid, round.priority);
        let Some(mut dry_run) = self.shards.judge.dry_run(round.subject) else { return round.left.clear() };
        let of = (round.subject, round.priority);
        let state = self.shards.judge.search_state(self.shards.budgets.version());
        // Units with pods on other nodes change with these.
        let has_groups = self.groups.any();
        while !round.shortlist.is_enough() {
            let Some(node) = round.left.pop() else { return };
            if let Some(known) = self.shards.judge.searches().outcome(of, node, state).filter(|_| !has_groups) {
                round.add(node, known.clone());
                continue;
            }
            let Some(layout) = self.layout(node, beside.beside(node), round.priority) else {
                round.failures.push((node, DryRunResult::NoVictims));
                continue;
            };
            let Some(outcome) = self.shards.judge.dry_run_whole(round.subject, &mut dry_run, &layout) else { return };
            self.shards.judge.count_dry_run(round.subject);
            let outcome = match outcome {
                Ok(result) => Outcome::of(&layout, result, self.shards.judge.cache().snapshot()),
                Err(panic) => {
                    self.shards.judge.recover(round.subject, &panic);
                    return round.left.clear();
                }
            };
            if !has_groups {
                self.shards.judge.searches_mut().remember(of, node, state, &outcome);
            }
            round.add(node, outcome);
        }
    }

    /// The dry run on a node; `None` if there is no potential victim.
    pub(super) fn layout(&mut self, node: NodeId, beside: &[ClassId], priority: i32) -> Option<Layout> {
        let name = self.shards.judge.cache().name(node)?;
        let classes = self.shards.judge.cache().classes();
        let of = |pod: &PlacedPod| Some((pod.class, classes.get(pod.class)?.as_ref()));
        if self.groups.any() {
            let units = self.units_of(self.residents.on(name), priority);
            let units: Vec<_> = units.into_iter().map(|unit| unit.map(|(at, _)| at)).collect();
            if units.is_empty() {
                return None;
            }
            let budgets = self.shards.budgets.covering(units.iter().flat_map(Unit::standing).filter_map(of));
            let class = |id: ClassId| classes.get(id).map(Arc::clone);
            return Some(lay_out_units(node, units, beside.to_vec(), priority, NOW_NS, &budgets, class));
        }
        if !self.residents.any_below(name, priority) {
            return None;
        }
        let standing: Vec<PlacedPod> = self.pods_on(name).filter(|pod| pod.priority < priority).collect();
        let budgets = self.shards.budgets.covering(standing.iter().filter_map(of));
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
            if self.shards.judge.cache().revision() == round.revision {
                self.shards.status.dry_runs_refuted += 1;
                let reason = "its dry run of preemption had an incorrect result";
                self.shards.drop_holder_of(candidate.node, round.after, reason);
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
        let Some(state) = self.shards.judge.states().get(round.subject) else {
            return Some(PreemptionResult::Undecided(String::new()));
        };
        let name = |node: &NodeId| self.shards.judge.cache().name(*node).map_or("", |name| &**name);
        let outcomes = round.failures.iter().map(|(node, outcome)| (name(node), outcome));
        Some(match words::fruitless(state.prepared(), outcomes, self.shards.judge.cache().nodes().len()) {
            Ok(message) => PreemptionResult::Unresolvable(message),
            Err(message) => PreemptionResult::Undecided(message),
        })
    }

    fn try_here(&mut self, round: &Round, node: NodeId) -> Option<Candidate> {
        let beside = self.shards.judge.nominator().concerning(&round.uid, round.priority);
        let layout = self.layout(node, beside.beside(node), round.priority)?;
        let mut dry_run = self.shards.judge.dry_run(round.subject)?;
        match self.shards.judge.dry_run_whole(round.subject, &mut dry_run, &layout)? {
            Ok(outcome) => layout.candidate(&outcome, self.shards.judge.cache().snapshot()),
            Err(panic) => {
                self.shards.judge.recover(round.subject, &panic);
                None
            }
        }
    }
}
