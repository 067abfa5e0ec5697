//! All trials of one preemption, for a process that has all nodes.

use super::{Candidate, DryRun, DryRunResult, Layout, Shortlist};
use crate::{matches::Matches, node::NodeId, prepared::Prepared, snapshot::Snapshot};

/// The results of the trials.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evaluated {
    /// The nodes on which preemption helps; those without budget violations first.
    pub candidates: Vec<Candidate>,
    /// The result of each trial, in order.
    pub outcomes: Vec<(NodeId, DryRunResult)>,
}

/// Tries nodes in order until there are enough candidates. `nodes`: all nodes; `matches` must be refreshed. Source: `DryRunPreemption`.
pub fn evaluate(
    prepared: &Prepared,
    nodes: &mut Snapshot,
    matches: &Matches,
    layouts: impl IntoIterator<Item = Layout>,
    mut shortlist: Shortlist,
) -> Evaluated {
    let mut dry_run = DryRun::new(prepared, nodes, matches);
    let (mut others, mut violating, mut outcomes) = (Vec::new(), Vec::new(), Vec::new());
    for layout in layouts {
        if shortlist.is_enough() {
            break;
        }
        let node = layout.trial.node;
        let outcome = dry_run.dry_run_whole(prepared, nodes, &layout);
        if let Some(candidate) = layout.candidate(&outcome, nodes)
            && shortlist.add(candidate.violations)
        {
            if candidate.violations == 0 { &mut others } else { &mut violating }.push(candidate);
        }
        outcomes.push((node, outcome));
    }
    others.append(&mut violating);
    Evaluated { candidates: others, outcomes }
}

impl Layout {
    /// The candidate from a trial's outcome; `None` without victims, or if it names unknown pods or only a part of a unit.
    #[must_use]
    pub fn candidate(&self, outcome: &DryRunResult, nodes: &Snapshot) -> Option<Candidate> {
        let DryRunResult::Victims { indexes, violations } = outcome else { return None };
        let (node, slot) = (self.trial.node, nodes.slot(self.trial.node)?);
        let of = |victims, violations| Candidate { node, rank: nodes.hash(slot), violations, victims };
        if self.wholes.is_empty() {
            let victims: Option<Vec<_>> = indexes.iter().map(|&index| self.pods.get(index as usize).cloned()).collect();
            return Some(of(victims?, *violations));
        }
        let (mut left, mut victims, mut violations) = (indexes.as_slice(), Vec::new(), 0_u32);
        for (span, whole) in self.trial.spans().into_iter().zip(&self.wholes) {
            if left.first().is_none_or(|&first| first as usize != span.start) {
                continue;
            }
            let (these, others) = left.split_at_checked(span.len())?;
            if !these.iter().map(|&index| index as usize).eq(span.clone()) {
                return None;
            }
            left = others;
            victims.extend(self.pods.get(span)?.iter().chain(whole.elsewhere.iter().map(|(_, pod)| pod)).cloned());
            violations = violations.saturating_add(whole.violations);
        }
        left.is_empty().then(|| of(victims, violations))
    }
}
