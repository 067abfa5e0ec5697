//! One pod's search for victims, node after node.
//!
//! Knows: which nodes are still to be tried, what came of the others, and when it is enough. Must not know: which pods may
//! be victims, or what is done to them.
//!
//! Source: `DryRunPreemption`. There threads try nodes side by side and the first to be ready are the candidates; here they
//! are those that come first in the order, whoever tries them.

use std::sync::Arc;

use flotilla_framework::{
    class::ClassId,
    diagnosis::Diagnosis,
    node::NodeId,
    preemption::{Candidate, Layout, Outcome, Rehearsal, Shortlist, Standing, lay_out, pick_one, words},
    shard::Generation,
};

use super::{NOW_NS, Verdict};
use crate::{
    cycle::Progress,
    event::TimeMs,
    machine::Machine,
    queue::{Subject, Uid},
};

/// A search.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) uid: Uid,
    pub(crate) subject: Subject,
    pub(crate) generation: Generation,
    diagnosis: Diagnosis,
    priority: i32,
    /// What is left to try, the next one last.
    left: Vec<NodeId>,
    shortlist: Shortlist,
    candidates: Vec<Candidate>,
    /// Of nodes that are no candidates.
    failures: Vec<(NodeId, Outcome)>,
}

impl Machine {
    /// A search on these nodes, which has not begun.
    pub(super) fn round(
        &self,
        uid: &Uid,
        subject: Subject,
        diagnosis: Diagnosis,
        priority: i32,
        mut potential: Vec<NodeId>,
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
            diagnosis,
            priority,
            left: potential,
            shortlist,
            candidates: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// Tries nodes until there are enough candidates, or no nodes.
    pub(super) fn rehearse(&mut self, now_ms: TimeMs, mut round: Round) -> Progress {
        self.rehearse_here(&mut round);
        let verdict = self.choose(&mut round);
        let Round { uid, subject, diagnosis, .. } = round;
        self.conclude_preemption(now_ms, &uid, subject, diagnosis, verdict)
    }

    /// Tries the nodes that are left by our own view.
    fn rehearse_here(&mut self, round: &mut Round) {
        if round.left.is_empty() {
            return;
        }
        self.status.dry_runs_local += 1;
        let beside = self.nominator.concerning(&round.uid, round.priority, &self.cache);
        let Some(dossier) = self.dossiers.get_mut(round.subject) else { return };
        dossier.matches.refresh(&dossier.prepared, &self.cache.snapshot);
        let mut rehearsal = Rehearsal::new(&dossier.prepared, &self.cache.snapshot, &dossier.matches);
        while !round.shortlist.is_enough() {
            let Some(node) = round.left.pop() else { return };
            let Some(layout) = self.layout(node, beside.beside(node), round.priority) else {
                round.failures.push((node, Outcome::NoVictims));
                continue;
            };
            let Some(dossier) = self.dossiers.get(round.subject) else { return };
            let outcome = rehearsal.dry_run(&dossier.prepared, &mut self.cache.snapshot, &layout.trial);
            round.take(layout, outcome, &self.cache.snapshot);
        }
    }

    /// What is to be tried on a node; `None` where no pod may go.
    fn layout(&mut self, node: NodeId, beside: &[ClassId], priority: i32) -> Option<Layout> {
        let name = self.cache.name(node)?;
        if !self.residents.any_below(name, priority) {
            return None;
        }
        let standing: Vec<Standing> = self.standing_on(name).filter(|pod| pod.priority < priority).collect();
        let classes = &self.cache.classes;
        let of = |pod: &Standing| Some((pod.class, classes.get(pod.class)?.as_ref()));
        let budgets = self.budgets.covering(standing.iter().filter_map(of));
        let class = |id: ClassId| classes.get(id).map(Arc::clone);
        Some(lay_out(node, &standing, beside.to_vec(), priority, NOW_NS, &budgets, class))
    }

    /// The best candidate, or that there is none.
    fn choose(&mut self, round: &mut Round) -> Verdict {
        if let Some(best) = pick_one(&round.candidates, NOW_NS) {
            return Verdict::Found(round.candidates.swap_remove(best));
        }
        let Some(dossier) = self.dossiers.get(round.subject) else { return Verdict::Undecided(String::new()) };
        let name = |node: &NodeId| self.cache.name(*node).map_or("", |name| &**name);
        let outcomes = round.failures.iter().map(|(node, outcome)| (name(node), outcome));
        match words::fruitless(&dossier.prepared, outcomes, self.cache.nodes.len()) {
            Ok(message) => Verdict::Hopeless(message),
            Err(message) => Verdict::Undecided(message),
        }
    }
}

// === impl Round ===

impl Round {
    /// Takes what came of trying a node.
    fn take(&mut self, layout: Layout, outcome: Outcome, nodes: &flotilla_framework::snapshot::Snapshot) {
        let Layout { trial, mut pods } = layout;
        match outcome {
            Outcome::Victims { indexes, violations } => {
                if self.shortlist.add(violations) {
                    let mut index = 0;
                    pods.retain(|_| {
                        index += 1;
                        indexes.binary_search(&(index - 1)).is_ok()
                    });
                    let rank = nodes.slot(trial.node).map_or(0, |slot| nodes.rank(slot));
                    self.candidates.push(Candidate { node: trial.node, rank, violations, victims: pods });
                }
            }
            other => self.failures.push((trial.node, other)),
        }
    }
}
