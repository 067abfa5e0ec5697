//! Deduplicated lists of node terms.

use std::sync::Arc;

use indexmap::IndexSet;

use crate::{
    class::{NodeTerm, Requirement},
    labels::LabelSelector,
    volumes::{facts::Reach, objects::TopologyTerm},
};

#[derive(Debug, Default)]
pub(super) struct Reaches(IndexSet<Vec<NodeTerm>>);

impl Reaches {
    pub(super) fn of_affinity(&mut self, affinity: Option<&[NodeTerm]>) -> Reach {
        self.number(affinity.and_then(by_labels)?)
    }

    /// Nodes that match the allowed topologies of a storage class. Source: `v1helper.MatchTopologySelectorTerms`.
    pub(super) fn of_topologies(&mut self, terms: &[TopologyTerm]) -> Reach {
        if terms.is_empty() {
            return None;
        }
        let requirement = |(key, values): &(Arc<str>, Vec<Arc<str>>)| Requirement {
            key: Arc::clone(key),
            operator: "In".into(),
            values: values.clone(),
        };
        let terms = terms
            .iter()
            .filter(|term| !term.is_empty())
            .map(|term| NodeTerm { expressions: term.iter().map(requirement).collect(), fields: Vec::new() });
        self.number(terms.collect())
    }

    pub(super) fn of_selector(&mut self, selector: &LabelSelector) -> Reach {
        let requirements = match selector {
            LabelSelector::Nothing => return self.number(Vec::new()),
            LabelSelector::Matching(requirements) if requirements.is_empty() => return None,
            LabelSelector::Matching(requirements) => requirements,
        };
        let expressions = requirements.iter().map(|requirement| Requirement {
            key: Arc::clone(&requirement.key),
            operator: requirement.operator.as_str().into(),
            values: requirement.values.clone(),
        });
        self.number(vec![NodeTerm { expressions: expressions.collect(), fields: Vec::new() }])
    }

    pub(super) fn into_terms(self) -> Vec<Vec<NodeTerm>> {
        self.0.into_iter().collect()
    }

    fn number(&mut self, terms: Vec<NodeTerm>) -> Reach {
        Some(u32::try_from(self.0.insert_full(terms).0).unwrap_or(u32::MAX))
    }
}

/// The label requirements of a volume's node affinity; `None`: all nodes. Node names are not evaluated: a term with only valid name fields
/// matches.
///
/// Source: component-helpers `volume.CheckNodeAffinity`, which evaluates a node that has only labels.
pub(in crate::volumes) fn by_labels(terms: &[NodeTerm]) -> Option<Vec<NodeTerm>> {
    let mut all = Vec::new();
    for NodeTerm { expressions, fields } in terms {
        let can_be_read = |field: &Requirement| matches!(&*field.operator, "In" | "NotIn") && field.values.len() == 1;
        let is_empty = expressions.is_empty() && fields.is_empty();
        if is_empty || !fields.iter().all(can_be_read) {
            continue;
        }
        if expressions.is_empty() {
            return None;
        }
        all.push(NodeTerm { expressions: expressions.clone(), fields: Vec::new() });
    }
    Some(all)
}
