//! Families: classes that differ only in fields without effect on node-local plugins, such as labels and terms about other pods.
//!
//! The head of a family leaves these fields empty. It has no preferences, and no pod has preferences about it.

use std::sync::Arc;

use crate::{
    class::{Class, PodAffinity},
    extension::{Filter, Score},
    prepared::{Prepared, ScorerPlace},
    registry::Registry,
};

impl Class {
    /// The head of the class's family, with the objects of the class ([`Objects::head`](crate::objects::Objects::head) replaces them). It must
    /// keep each field that a node-local plugin reads.
    #[must_use]
    pub fn head(&self) -> Self {
        // Only volumes make the namespace matter to a single node.
        let namespace = if self.uses_objects() { Arc::clone(&self.namespace) } else { Arc::default() };
        let mut head = Self { namespace, labels: Vec::new(), terminating: false, ..self.clone() };
        if !self.spread.is_empty() || self.pod_affinity != PodAffinity::default() || self.owner.is_some() {
            head.spread = Vec::new();
            head.pod_affinity = PodAffinity::default();
            head.owner = None;
        }
        head
    }
}

impl Prepared {
    /// Whether all its plugins are kube-scheduler's. These read the objects of a class only by its facts.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        let filters = self.filters().iter().map(|known| known.plugin);
        let scorers = self.scorers().iter().map(|scorer| scorer.plugin);
        filters.chain(scorers).all(|plugin| Registry::built_in().find(plugin).is_some())
    }

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
