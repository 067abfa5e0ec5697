//! Classes that differ only in what they wish of other pods, and in what others wish of them.
//!
//! As far as one node tells, all of a family find the same nodes feasible and equally good. Its head is the class that
//! has no preferences and that no other pod has preferences about.
//!
//! Knows: which fields no node-local plugin reads. Must not know: who makes use of it.

use std::sync::Arc;

use crate::{
    class::{Class, PodAffinity},
    extension::{Filter, Score},
    prepared::{Prepared, ScorerPlace},
};

impl Class {
    /// The head of the class's family. A field that a node-local plugin reads must stay.
    #[must_use]
    pub fn head(&self) -> Self {
        // Only volumes make it matter to one node alone in which namespace a pod is.
        let namespace = if self.uses_objects() { Arc::clone(&self.namespace) } else { Arc::default() };
        Self {
            namespace,
            labels: Vec::new(),
            spread: Vec::new(),
            pod_affinity: PodAffinity::default(),
            owner: None,
            terminating: false,
            ..self.clone()
        }
    }
}

impl Prepared {
    /// Whether what one node says of a class is what it says of the head of its family: the same node-local plugins, of
    /// which `head` has no others.
    #[must_use]
    pub fn follows(&self, head: &Self) -> bool {
        let judged = |prepared: &Self| prepared.error().is_none() && prepared.refusal().is_none();
        let filters = |prepared: &Self| {
            let of_nodes = prepared.filters().iter().filter(|known| matches!(known.filter, Filter::Node(_)));
            of_nodes.map(|known| known.plugin).collect::<Vec<_>>()
        };
        let scores = |prepared: &Self| {
            let of_nodes = prepared.scorers().iter().filter(|scorer| match scorer.place {
                ScorerPlace::Plain(_) => true,
                ScorerPlace::Normalized(at) => matches!(prepared.normalized()[at].score, Score::Node(_)),
            });
            of_nodes.map(|scorer| (scorer.plugin, scorer.weight)).collect::<Vec<_>>()
        };
        judged(self)
            && judged(head)
            && !head.is_wide()
            && self.has_same_names(head)
            && filters(self) == filters(head)
            && scores(self) == scores(head)
    }
}
