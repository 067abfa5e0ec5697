//! Nodes that are kept free for nominated pods, laid over a book for one pod after the other.
//!
//! Two pods of a class may differ in priority, so what nominated pods take away is not the class's. It is judged for each
//! pod on the few nodes that are kept free, and those nodes are taken out of the book and put back as it has to be. A node
//! is judged twice: with the nominated pods on it, and without; it must do both times.
//!
//! Knows: how both passes change what a book says. Must not know: priorities, or who nominates.
//!
//! Source: `RunFilterPluginsWithNominatedPods`, `addGENominatedPods` and `evaluateNominatedNode`.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::{
    book::{Book, Offers},
    nominated::{Changed, Nominations},
};
use crate::{
    beside::{self, Beside, Idle, Shifts, known},
    evaluation::Refused,
    matches::Matches,
    node::NodeId,
    prepared::{NodeResult, Order, Prepared, RESTRICTION},
    snapshot::Snapshot,
    status::{Code, Refusal},
};

// === impl Book ===

impl Book {
    /// Makes the book what it is for a pod that these nominations concern, instead of those it was last told. Gives the
    /// pod's own nominated node where that will do: upstream takes it without a look at the others.
    ///
    /// The snapshot is as it was afterwards: pods are put on nodes and taken off again.
    pub fn lay_over(
        &mut self,
        prepared: &Prepared,
        nodes: &mut Snapshot,
        matches: &Matches,
        nominations: &Nominations,
    ) -> Option<NodeId> {
        if nominations.is_empty() && !self.is_laid_over() {
            return None;
        }
        let old = std::mem::take(&mut self.changed);
        let mut shifts = beside::no_shifts(prepared);
        let idle = match &self.offers {
            Offers::Plain(_) => beside::idle(prepared, None),
            Offers::Wide(wide) => beside::idle(prepared, Some(wide.tables())),
        };
        self.blamed = 0;
        let mut taken = None;
        if let Some(node) = nominations.own
            && let Some(slot) = nodes.slot(node)
        {
            // The names that PreFilters left are not asked here, and what the filters say of the node is what is told.
            let others = known(nodes, nominations.beside(node));
            match self.counted(prepared, &mut shifts, &idle).both_passes(nodes, (node, slot), &others) {
                None => taken = Some(node),
                Some(after) if prepared.is_restricted() => {
                    self.blamed = after.0;
                    if !prepared.admits_name(nodes, slot) {
                        let before = Some((RESTRICTION, Refusal::unresolvable(0)));
                        self.changed.insert(node, Changed { before, after });
                    }
                }
                Some(_) => {}
            }
        }
        for (node, classes) in &nominations.beside {
            let Some(slot) = nodes.slot(*node).filter(|&slot| prepared.admits_name(nodes, slot)) else { continue };
            let others = known(nodes, classes);
            let mut counted = self.counted(prepared, &mut shifts, &idle);
            let before = counted.first_refusal(nodes, slot);
            if let Some(after) = counted.first_pass(nodes, (*node, slot), &others)
                && before != Some(after)
            {
                self.changed.insert(*node, Changed { before, after });
            }
        }
        let is_out = |changed: Option<&Changed>| changed.is_some_and(|changed| changed.before.is_none());
        for node in old.iter().filter(|(_, old)| old.before.is_none()).map(|(node, _)| *node) {
            if !is_out(self.changed.get(&node)) {
                self.put(prepared, nodes, matches, node);
            }
        }
        let out: SmallVec<[NodeId; 4]> =
            self.changed.iter().filter(|(_, changed)| changed.before.is_none()).map(|(node, _)| *node).collect();
        out.into_iter().for_each(|node| self.replace(node, 0, None));
        taken
    }

    /// Whether nominations change what is said of any node, as of the last [`Self::lay_over`].
    #[must_use]
    pub fn is_laid_over(&self) -> bool {
        !self.changed.is_empty() || self.blamed != 0
    }

    /// As [`Self::refused`], with what nominations change.
    #[must_use]
    pub fn refused_now(&self) -> Cow<'_, [Refused]> {
        if !self.is_laid_over() {
            return Cow::Borrowed(&self.refused);
        }
        let mut refused = self.refused.clone();
        for Changed { before, after } in self.changed.values() {
            let is = |group: &&mut Refused, wanted: &(Order, Refusal)| (group.order, group.refusal) == *wanted;
            if let Some(before) = before
                && let Some(group) = refused.iter_mut().find(|group| is(group, before))
            {
                group.count = group.count.saturating_sub(1);
            }
            match refused.iter_mut().find(|group| is(group, after)) {
                Some(group) => group.count = group.count.saturating_add(1),
                None => {
                    let (order, refusal) = *after;
                    refused.push(Refused { order, refusal, domains: Vec::new(), count: 1 });
                }
            }
        }
        refused.retain(|group| group.count > 0);
        for group in &mut refused {
            (group.order, group.refusal) = self.told((group.order, group.refusal));
        }
        Cow::Owned(refused)
    }

    /// A refusal as it is told. The plugins that are named for the nodes which PreFilters left out are, upstream, in the
    /// set to which the filter that refuses the pod's own nominated node is added before.
    pub(crate) fn told(&self, (order, refusal): (Order, Refusal)) -> (Order, Refusal) {
        let detail = if order == RESTRICTION { u64::from(self.blamed) } else { refusal.detail };
        (order, Refusal { detail, ..refusal })
    }

    /// How a node is refused because of nominations; `None` where they change nothing.
    pub(crate) fn changed(&self, node: NodeId) -> Option<(Order, Refusal)> {
        self.changed.get(&node).map(|changed| changed.after)
    }

    /// What the filters of the class count, for pods that are put on nodes for now.
    fn counted<'a>(&'a mut self, prepared: &'a Prepared, shifts: &'a mut Shifts, idle: &'a Idle) -> Beside<'a> {
        let tables = match &mut self.offers {
            Offers::Plain(_) => None,
            Offers::Wide(wide) => Some(wide.tables_mut()),
        };
        Beside { prepared, tables, shifts, idle }
    }

    /// Puts a node that was taken out back, as it is now.
    fn put(&mut self, prepared: &Prepared, nodes: &Snapshot, matches: &Matches, node: NodeId) {
        let Some(slot) = nodes.slot(node) else { return };
        self.replace(node, nodes.rank(slot), Some(prepared.judge_with(nodes, slot, matches)));
    }

    /// Takes over what a node looks like, or takes it out.
    pub(super) fn replace(&mut self, node: NodeId, rank: u64, result: Option<NodeResult>) {
        match result {
            Some(NodeResult::Refused(order, refusal)) if refusal.code == Code::Error => {
                self.failing.insert(node, (order, refusal));
            }
            _ => _ = self.failing.remove(&node),
        }
        let feasible = match result {
            Some(NodeResult::Feasible(feasible)) => Some(feasible),
            Some(NodeResult::Refused(..)) | None => None,
        };
        match &mut self.offers {
            Offers::Plain(plain) => plain.repair(node, rank, feasible.as_ref()),
            Offers::Wide(wide) => wide.repair(node, rank, feasible),
        }
    }
}
