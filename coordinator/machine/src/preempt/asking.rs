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
    shards::Shards,
    site::Site,
};

/// Minimum number of nodes per round, if available: a round trip costs as much as ten dry runs.
const MIN_TRIALS: usize = 64;

impl Site<'_> {
    /// Whether workers can try the remaining nodes: the class counts nothing over the whole cluster, and uses no objects.
    pub(super) fn may_ask(&self, round: &Round) -> bool {
        let class = self.shards.judge.cache().classes().get(round.subject.1);
        let state = self.shards.judge.states().get(round.subject);
        !round.is_local
            && self.shards.roster.is_any_ready()
            && class.is_some_and(|class| !class.uses_objects())
            && state.is_some_and(|state| {
                state.can_be_asked() && is_local(state.prepared()) && state.facts().weight() <= MAX_TOLD
            })
    }

    /// Requests dry runs on the next nodes. `false`: not possible, or not necessary.
    pub(super) fn ask_for_trials(&mut self, now_ms: TimeMs, round: &mut Round) -> bool {
        let beside = self.shards.judge.nominator().concerning(&round.uid, round.priority);
        let wanted = round.shortlist.wanted().clamp(MIN_TRIALS, MAX_TRIALS);
        let (mut nodes, mut pods) = (Vec::new(), 0);
        let mut trials: BTreeMap<WorkerId, Vec<(usize, Trial)>> = BTreeMap::new();
        while nodes.len() < wanted {
            let Some(node) = round.left.pop() else { break };
            let layout = self.layout(node, beside.beside(node), round.priority);
            let holder = self
                .shards
                .judge
                .cache()
                .name(node)
                .and_then(|name| self.shards.judge.cache().nodes().get(name)?.worker);
            let holder = holder.filter(|worker| self.shards.roster.is_ready(*worker));
            let size = layout.as_ref().map_or(0, |layout| layout.trial.victims.len() + layout.trial.beside.len());
            let classes = layout.iter().flat_map(|layout| &layout.trial.beside);
            let can_be_told = classes.copied().all(|class| self.shards.judge.cache().classes().is_sendable(class));
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
        let (request, generation, class) = (self.shards.next_request(), round.generation, round.subject.1);
        let profile =
            self.settings.profile(round.subject.0).map(|profile| profile.scheduler_name.clone()).unwrap_or_default();
        let facts =
            self.shards.judge.states().get(round.subject).map(|state| state.facts().clone()).unwrap_or_default();
        let mut owing = BTreeMap::new();
        for (worker, trials) in trials {
            let (places, trials): (Vec<usize>, Vec<Trial>) = trials.into_iter().unzip();
            let beside = trials.iter().flat_map(|trial| &trial.beside).copied();
            std::iter::once(class).chain(beside).for_each(|class| self.shards.send_class(worker, class));
            self.shards.flush_outbox(worker);
            let (profile, facts) = (profile.clone(), facts.clone());
            let trials = trials.into();
            let command = Command::DryRun { request, generation, profile, class, facts, trials };
            self.shards.command(worker, command);
            owing.insert(worker, places);
        }
        self.shards.status.dry_runs_asked += 1;
        Asked { request, asked_ms: now_ms, owing, nodes, outcomes: BTreeMap::new() }
    }
}

impl Shards<'_> {
    /// Stores a worker's dry runs; the next decision uses them.
    pub(crate) fn dry_run_results(&mut self, worker: WorkerId, request: RequestId, outcomes: Vec<DryRunResult>) {
        let asked = self.preemptions.search.as_mut().and_then(|round| round.asked.as_mut());
        let Some(asked) = asked.filter(|asked| asked.request == request) else {
            self.status.dry_runs_discarded += 1;
            return;
        };
        let Some(places) = asked.owing.remove(&worker) else { return };
        let nodes = self.judge.cache().snapshot();
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
        let asked = self.preemptions.search.as_ref().and_then(|round| round.asked.as_ref());
        if asked.is_some_and(|asked| asked.request == request && asked.owing.contains_key(&worker)) {
            self.give_up(worker, format!("it cannot try preemption: {why}"));
        }
    }
}
