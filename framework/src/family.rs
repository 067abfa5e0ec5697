//! Families: classes that differ only in fields without effect on node-local plugins, such as labels and terms about other pods.
//!
//! The head of a family leaves these fields empty. It has no preferences, and no pod has preferences about it.

use std::sync::Arc;

use crate::{
    class::{Class, PodAffinity},
    extension::{Filter, Score},
    prepared::{Prepared, ScorerPlace},
};

impl Class {
    /// The head of the class's family. It must keep each field that a node-local plugin reads.
    #[must_use]
    pub fn head(&self) -> Self {
        // Only volumes make the namespace matter to a single node.
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
    /// Whether node-local results of this class equal those of `head`: the same node-local plugins, and `head` has no others.
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
