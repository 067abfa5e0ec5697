//! Validity of evictions.
//!
//! The need for an eviction is checked only without faults. The decision's view is then as old as the following requests, and everything
//! unchanged for [`PRESENT_MS`] was known.

use std::collections::BTreeMap;

use super::{Places, Pod, State};
use crate::{
    api::{Commit, Object},
    check::text,
};

/// Older changes were known at the decision: a decision and the two requests of an eviction take some ten milliseconds.
const PRESENT_MS: u64 = 400;
/// Pods per simulated node.
const PODS: usize = 20;

#[derive(Debug, Default)]
pub(super) struct Budget {
    /// Application of the protected pods.
    app: String,
    /// Allowed disruptions.
    allowed: u64,
    since_ms: u64,
}

impl Places {
    pub(super) fn see_budget(&mut self, key: &str, object: Option<&Object>, at_ms: u64) {
        let Some(object) = object else {
            self.budgets.remove(key);
            return;
        };
        let app = text(object, "/spec/selector/matchLabels/app").to_owned();
        let allowed = object.at("/status/disruptionsAllowed").as_u64().unwrap_or(0);
        let budget = self.budgets.entry(key.to_owned()).or_default();
        if (&*budget.app, budget.allowed) != (&*app, allowed) {
            *budget = Budget { app, allowed, since_ms: at_ms };
        }
    }

    /// Violations of a coordinator's deletion.
    pub(in crate::check) fn evict(&self, commit: &Commit) -> Vec<(&'static str, String)> {
        let Some(victim) = self.pods.get(commit.key()) else { return Vec::new() };
        let (key, priority) = (commit.key(), victim.priority);
        let above: Vec<&Pod> = self.pods.values().filter(|pod| pod.is_ours && pod.priority > priority).collect();
        let from_ms = commit.at_ms.saturating_sub(self.view_ms);
        let gone = self.gone.iter().any(|(at_ms, other)| *at_ms >= from_ms && *other > priority);
        if above.is_empty() && !gone {
            return vec![("P1", format!("{key} of priority {priority} is evicted, and no pod has a higher one"))];
        }
        if gone || !self.is_sharp() {
            return Vec::new();
        }
        let (waiting, present_ms) =
            (above.into_iter().filter(|pod| pod.waits()), commit.at_ms.saturating_sub(PRESENT_MS));
        let waiting: Vec<&Pod> = waiting.collect();
        let is_crowded = self.pods.values().filter(|pod| pod.waits() && pod.since_ms > present_ms).count() > 1;
        if waiting.is_empty() || is_crowded || !waiting.iter().all(|pod| pod.is_plain && pod.devices.is_empty()) {
            return Vec::new();
        }
        let mut found = Vec::new();
        if waiting.iter().all(|pod| self.takes(pod, present_ms, |_| false)) {
            found.push(("P3", format!("{key} is evicted, and every pod that waits fits without that")));
        }
        let is_protected =
            |budget: &Budget| budget.app == victim.app && budget.allowed == 0 && budget.since_ms <= present_ms;
        let is_free = |pod: &Pod| !self.budgets.values().any(|budget| budget.app == pod.app);
        if self.budgets.values().any(is_protected) && waiting.iter().all(|pod| self.takes(pod, present_ms, is_free)) {
            found.push(("P2", format!("{key} is evicted against its budget, and other pods would have done")));
        }
        found
    }

    /// Whether a node without changes since then is feasible after evicting lower-priority pods for which `may_go` holds.
    fn takes(&self, waiting: &Pod, since_ms: u64, may_go: impl Fn(&Pod) -> bool) -> bool {
        let mut left: BTreeMap<&str, (u64, usize, bool)> = BTreeMap::new();
        for pod in self.pods.values().filter(|pod| !pod.has_ended && pod.uid != waiting.uid) {
            let place = if pod.node.is_empty() { &pod.nominated } else { &pod.node };
            let goes = !pod.node.is_empty() && !pod.terminating && pod.priority < waiting.priority && may_go(pod);
            if place.is_empty() || goes {
                continue;
            }
            let (milli, count, repels) = left.entry(place).or_default();
            *milli += pod.milli_cpu;
            *count += 1;
            *repels |= pod.repels.as_ref() == Some(&waiting.app);
        }
        let takes = |name: &str, state: &State| {
            let (milli, count, repels) = left.get(name).copied().unwrap_or_default();
            let zone = waiting.zone.is_empty() || waiting.zone == state.zone;
            let still = state.from_ms <= since_ms && self.touched.get(name).is_none_or(|at_ms| *at_ms <= since_ms);
            let room = milli + waiting.milli_cpu <= state.milli_cpu && count < PODS;
            state.exists && state.takes_pods && still && zone && !repels && room
        };
        self.nodes.iter().any(|(name, node)| node.states.last().is_some_and(|state| takes(name, state)))
    }
}
