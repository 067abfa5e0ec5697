//! Explanations after HTTP extenders: plugins score the nodes that extenders left, and objections replace the removed nodes.

use std::sync::Arc;

use super::{Explanation, NodeExplanation, evaluation, shard::Local, shard::Page};
use crate::{
    extender::{EXTENDER, Extended},
    node::NodeId,
    prepared::Prepared,
    profile::Profile,
    select::View,
    status::Code,
};

impl Explanation {
    /// The explanation after extenders filtered and scored the feasible nodes. `name` returns a node's name. It applies to every profile
    /// with extenders, even if none is interested in the pod. Source: `findNodesThatPassExtenders` and `prioritizeNodes`. A node that an
    /// extender removed without a message has no reason, or that of the PreFilters that restrict node names.
    #[must_use]
    pub fn extended<'a>(
        self,
        prepared: &Prepared,
        profile: &Profile,
        pages: &[Page],
        name: impl Fn(NodeId) -> &'a str,
        extended: &Extended,
    ) -> Self {
        let taken = extended.taken();
        let took = |node: NodeId| taken.contains(name(node));
        let mut kept = pages.to_vec();
        for page in &mut kept {
            page.nodes.retain(|account| !matches!(account.local, Local::Feasible(_)) || !took(account.node));
        }
        let count = self.nodes.len();
        let taken: Vec<NodeId> = self
            .nodes
            .iter()
            .filter(|(_, outcome)| outcome.is_feasible())
            .map(|(&node, _)| node)
            .filter(|&node| took(node))
            .collect();
        let mut explanation = if taken.is_empty() { self } else { Self::new(prepared, profile, &kept) };
        for node in taken {
            explanation.nodes.insert(node, objection(prepared, extended, name(node)));
        }
        // With extenders, kube-scheduler does not add the total of 1 for profiles without Score plugins.
        let floor = i64::from(profile.plugins.score.is_empty());
        for (&node, outcome) in &mut explanation.nodes {
            if let NodeExplanation::Feasible { total: Some(total), .. } = outcome {
                *total = total.wrapping_sub(floor).wrapping_add(extended.bonus(name(node)));
            }
        }
        if explanation.feasible() == 0 && extended.took_any() {
            let view = View::new(prepared, kept.iter().map(|page| evaluation(prepared, page)).collect());
            explanation.message = extended.diagnosis(prepared, view.refused(), count).message;
        }
        explanation
    }

    /// The explanation after an extender that is not ignorable failed: kube-scheduler fails the attempt and scores nothing.
    #[must_use]
    pub fn failed(mut self, error: String) -> Self {
        for outcome in self.nodes.values_mut() {
            if let NodeExplanation::Feasible { scores, total } = outcome {
                scores.clear();
                *total = None;
            }
        }
        Self { error: Some(error), ..self }
    }
}

fn objection(prepared: &Prepared, extended: &Extended, name: &str) -> NodeExplanation {
    let (code, reasons): (Code, Arc<[String]>) = match extended.objections.get(name) {
        Some(objection) => (objection.code, [objection.message.clone()].into()),
        None => (Code::UnschedulableAndUnresolvable, prepared.reasons_unnamed().into()),
    };
    NodeExplanation::Refused { code, plugin: Some(EXTENDER), reasons, domain: None }
}
