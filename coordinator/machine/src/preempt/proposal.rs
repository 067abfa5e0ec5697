//! Extenders that filter the victims of a preemption.
//!
//! Source: `callExtenders`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::{
    extender::{Extender, Proposal, Victims},
    preemption::{Candidate, PlacedPod, pick_one, words},
};

use super::{NOW_NS, PreemptionResult, Round};
use crate::{
    action::{Action, PreemptionProposal},
    event::TimeMs,
    extend::MARGIN_MS,
    site::Site,
};

impl Site<'_> {
    /// Calls the extenders for all candidates. `false`: there is no candidate or no extender.
    pub(super) fn propose(&mut self, now_ms: TimeMs, round: &mut Round) -> bool {
        let extenders: Vec<Arc<Extender>> = self
            .settings
            .interested(self.pods.get(&round.uid))
            .filter(|extender| extender.is_preemptor())
            .cloned()
            .collect();
        let Some(preemptor) = self.pods.get(&round.uid).map(crate::pods::Pod::name) else { return false };
        if extenders.is_empty() || round.candidates.is_empty() {
            return false;
        }
        let (mut nodes, mut residents, mut victims) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for candidate in &round.candidates {
            let Some(name) = self.shards.judge.cache().name(candidate.node) else { continue };
            let pods = candidate.victims.iter().map(|pod| Arc::clone(&pod.uid)).collect();
            nodes.insert(Arc::clone(name), Victims { pods, violations: i64::from(candidate.violations) });
            let here: BTreeSet<Arc<str>> = self.residents.on(name).cloned().collect();
            let named = here.iter().filter_map(|uid| Some((Arc::clone(uid), self.pods.get(uid)?.name())));
            victims.extend(named);
            let elsewhere = candidate.victims.iter().filter_map(|pod| self.pods.get(&pod.uid));
            victims.extend(elsewhere.map(|pod| (Arc::clone(&pod.info.uid), pod.name())));
            residents.insert(Arc::clone(name), here);
        }
        let request = self.shards.next_request();
        let patience = extenders.iter().map(|extender| extender.timeout_ms()).fold(MARGIN_MS, TimeMs::saturating_add);
        round.proposed = Some((request, now_ms.saturating_add(patience)));
        self.shards.actions.push(Action::ExtendPreemption(PreemptionProposal {
            request,
            preemptor,
            proposal: Proposal::new(nodes, residents),
            victims,
            extenders: extenders.into(),
        }));
        self.shards.status.extensions_asked += 1;
        true
    }

    /// The best candidate that extenders left. Pods of the same or a higher priority are never victims.
    pub(super) fn judge_proposal(&self, round: &Round, proposal: &Proposal) -> PreemptionResult {
        let mut candidates = Vec::new();
        for (name, victims) in &proposal.nodes {
            let Some(node) = self.shards.judge.cache().nodes().get(name).map(|node| node.id) else { continue };
            let standing: BTreeMap<Arc<str>, PlacedPod> =
                self.pods_on(name).map(|pod| (Arc::clone(&pod.uid), pod)).collect();
            let mut pods: Vec<PlacedPod> = victims.pods.iter().filter_map(|uid| standing.get(uid).cloned()).collect();
            let rank = |pod: &PlacedPod| self.pods.get(&pod.uid).map_or(pod.priority, |pod| self.rank_of(pod));
            if let Some(pod) = pods.iter().find(|pod| rank(pod) >= round.priority) {
                let reason =
                    format!("an extender claims to preempt pod {} on node {name}, which is as important", pod.name);
                return PreemptionResult::Undecided(words::because(&reason));
            }
            pods.sort_by(|left, right| left.importance(right, NOW_NS));
            let rank = self
                .shards
                .judge
                .cache()
                .snapshot()
                .slot(node)
                .map_or(0, |slot| self.shards.judge.cache().snapshot().hash(slot));
            let violations = u32::try_from(victims.violations.max(0)).unwrap_or(u32::MAX);
            candidates.push(Candidate { node, rank, violations, victims: pods });
        }
        match pick_one(&candidates, NOW_NS) {
            Some(best) => PreemptionResult::Found(candidates.swap_remove(best)),
            None => PreemptionResult::Undecided(words::because(words::NO_CANDIDATE)),
        }
    }
}
