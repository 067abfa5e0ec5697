//! Dry runs of preemption on workers.
//!
//! Results of workers are proposals: the coordinator repeats the dry run on the chosen node. The part of a lost or slow worker is tried on
//! the coordinator.

use std::collections::BTreeMap;

use flotilla_framework::{
    node::NodeId,
    preemption::{DryRunResult, Layout, Trial, is_local},
    shard::{Command, MAX_TRIAL_PODS, MAX_TRIALS, RequestId},
    weight::MAX_TOLD,
};

use super::{Round, search::Asked};
use crate::{
    event::{TimeMs, WorkerId},
    machine::Machine,
    pods::PodStage,
};

/// Minimum number of nodes per round, if available: a round trip costs as much as ten dry runs.
const MIN_TRIALS: usize = 64;

impl Machine {
    /// Whether workers can try the remaining nodes: the class counts nothing over the whole cluster, and uses no objects.
    pub(super) fn may_ask(&self, round: &Round) -> bool {
        let class = self.judge.cache().classes.get(round.subject.1);
        let state = self.judge.states().get(round.subject);
        !round.is_local
            && self.can_ask()
            && class.is_some_and(|class| !class.uses_objects())
            && state.is_some_and(|state| {
                state.can_be_asked() && is_local(&state.prepared) && state.facts.weight() <= MAX_TOLD
            })
    }

    /// Requests dry runs on the next nodes. `false`: not possible, or not necessary.
    pub(super) fn ask_for_trials(&mut self, now_ms: TimeMs, round: &mut Round) -> bool {
        let beside = self.judge.nominator().concerning(&round.uid, round.priority, self.judge.cache());
        let wanted = round.shortlist.wanted().clamp(MIN_TRIALS, MAX_TRIALS);
        let (mut nodes, mut pods) = (Vec::new(), 0);
        let mut trials: BTreeMap<WorkerId, Vec<(usize, Trial)>> = BTreeMap::new();
        while nodes.len() < wanted {
            let Some(node) = round.left.pop() else { break };
            let layout = self.layout(node, beside.beside(node), round.priority);
            let holder = self.judge.cache().name(node).and_then(|name| self.judge.cache().nodes.get(name)?.worker);
            let holder = holder.filter(|worker| self.roster.is_ready(*worker));
            let size = layout.as_ref().map_or(0, |layout| layout.trial.victims.len() + layout.trial.beside.len());
            let classes = layout.iter().flat_map(|layout| &layout.trial.beside);
            let can_be_told = classes.copied().all(|class| self.judge.cache().classes.is_sendable(class));
            let holder = holder.filter(|_| can_be_told);
            let has_room = pods + size <= MAX_TRIAL_PODS;
            if let (Some(layout), Some(holder), true) = (&layout, holder, has_room) {
                pods += size;
                trials.entry(holder).or_default().push((nodes.len(), layout.trial.clone()));
            } else if layout.is_some() {
                round.left.push(node);
                round.is_local |= nodes.is_empty() || holder.is_none();
                break;
            }
            nodes.push((node, layout));
        }
        if trials.is_empty() {
            nodes.into_iter().for_each(|(node, _)| round.skip(node));
            return false;
        }
        round.asked = Some(self.send_trials(now_ms, round, nodes, trials));
        round.is_from_workers = true;
        true
    }

    fn send_trials(
        &mut self,
        now_ms: TimeMs,
        round: &Round,
        nodes: Vec<(NodeId, Option<Layout>)>,
        trials: BTreeMap<WorkerId, Vec<(usize, Trial)>>,
    ) -> Asked {
        self.next_request += 1;
        let (request, generation, class) = (self.next_request, round.generation, round.subject.1);
        let profile = self.profile(round.subject.0).map(|profile| profile.scheduler_name.clone()).unwrap_or_default();
        let facts = self.judge.states().get(round.subject).map(|state| state.facts.clone()).unwrap_or_default();
        let mut owing = BTreeMap::new();
        for (worker, trials) in trials {
            let (places, trials): (Vec<usize>, Vec<Trial>) = trials.into_iter().unzip();
            let beside = trials.iter().flat_map(|trial| &trial.beside).copied();
            std::iter::once(class).chain(beside).for_each(|class| self.send_class(worker, class));
            self.flush_outbox(worker);
            let (profile, facts) = (profile.clone(), facts.clone());
            let trials = trials.into();
            self.command(worker, Command::DryRun { request, generation, profile, class, facts, trials });
            owing.insert(worker, places);
        }
        self.status.dry_runs_asked += 1;
        Asked { request, asked_ms: now_ms, owing, nodes, outcomes: BTreeMap::new() }
    }

    /// Stores a worker's dry runs; the next decision uses them.
    pub(crate) fn dry_run_results(&mut self, worker: WorkerId, request: RequestId, outcomes: Vec<DryRunResult>) {
        let asked = self.preempting.as_mut().and_then(|round| round.asked.as_mut());
        let Some(asked) = asked.filter(|asked| asked.request == request) else {
            self.status.dry_runs_discarded += 1;
            return;
        };
        let Some(places) = asked.owing.remove(&worker) else { return };
        let nodes = &self.judge.cache().snapshot;
        let sound = |(place, outcome): (&usize, &DryRunResult)| match outcome {
            DryRunResult::Victims { .. } => {
                let asked =
                    asked.nodes.get(*place).and_then(|(node, layout)| Some((nodes.slot(*node), layout.as_ref()?)));
                asked.is_some_and(|(slot, layout)| slot.is_none() || layout.candidate(outcome, nodes).is_some())
            }
            DryRunResult::Refused(..) | DryRunResult::NoVictims | DryRunResult::Needless | DryRunResult::Stale => true,
        };
        if places.len() == outcomes.len() && places.iter().zip(&outcomes).all(sound) {
            asked.outcomes.extend(places.into_iter().zip(outcomes));
        } else {
            asked.owing.insert(worker, places);
            self.give_up(worker, "its dry run of preemption does not match the request".to_owned());
        }
    }

    pub(crate) fn cannot_dry_run(&mut self, worker: WorkerId, request: RequestId, why: &str) {
        let asked = self.preempting.as_ref().and_then(|round| round.asked.as_ref());
        if asked.is_some_and(|asked| asked.request == request && asked.owing.contains_key(&worker)) {
            self.give_up(worker, format!("it cannot try preemption: {why}"));
        }
    }

    /// A worker is gone: its part is tried on the coordinator, with all remaining nodes.
    pub(crate) fn give_up_trials(&mut self, worker: WorkerId) {
        let Some(round) = &mut self.preempting else { return };
        if let Some(asked) = round.asked.take_if(|asked| asked.owing.contains_key(&worker)) {
            round.left.extend(asked.nodes.into_iter().rev().map(|(node, _)| node));
            round.is_local = true;
        }
    }

    /// The pending request for dry runs: number, time, and the workers that have not answered.
    pub(crate) fn trials_owed(&self) -> Option<(RequestId, TimeMs, impl Iterator<Item = WorkerId>)> {
        let asked = self.preempting.as_ref()?.asked.as_ref()?;
        Some((asked.request, asked.asked_ms, asked.owing.keys().copied()))
    }

    pub(crate) fn trials_asked(&mut self) -> Option<&mut TimeMs> {
        Some(&mut self.preempting.as_mut()?.asked.as_mut()?.asked_ms)
    }

    /// Continues a search once its answers are complete.
    pub(crate) fn continue_preemption(&mut self, now_ms: TimeMs) {
        let is_answered = |round: &mut Round| {
            round.proposed.is_none() && round.asked.as_ref().is_none_or(|asked| asked.owing.is_empty())
        };
        let Some(mut round) = self.preempting.take_if(is_answered) else { return };
        if !self.is_waited_for(&round) {
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
                        let outcome = outcomes.remove(&place).unwrap_or(DryRunResult::Stale);
                        round.take(&layout, outcome, &self.judge.cache().snapshot);
                    }
                    None => round.skip(node),
                }
            }
        }
        self.try_nodes(now_ms, round);
    }

    /// Whether the pod of a search still waits, unchanged and under the same configuration.
    pub(super) fn is_waited_for(&mut self, round: &Round) -> bool {
        let generation = self.configuration.as_ref().map(|configuration| configuration.generation);
        let pod = self.pods.get(&round.uid).filter(|pod| pod.class == round.subject.1);
        let is_queued = pod.is_some_and(|pod| pod.stage == PodStage::Queued(round.subject.0));
        let waits = is_queued && self.queue.is_active(&round.uid) && generation == Some(round.generation);
        // A change of the facts may have closed the class state.
        waits && self.leading.is_some() && self.judge.open(round.subject)
    }
}
