//! Nodes that are kept free for nominated pods, laid over a view for one pod after the other.
//!
//! Two pods of a class may differ in priority, so what nominated pods take away is not the class's. It is judged for each
//! pod on the few nodes that are kept free, and those nodes are taken out of the view and put back as it has to be. A node
//! is judged twice: with the nominated pods on it, and without; it must do both times.
//!
//! Knows: how both passes change what a view says. Must not know: priorities, or who nominates.
//!
//! Source: `RunFilterPluginsWithNominatedPods`, `addGENominatedPods` and `evaluateNominatedNode`.

use std::borrow::Cow;

use super::{
    nominated::{Changed, Nominations},
    sorted::SortedNodes,
    view::View,
};
use crate::{
    beside::{self, Beside, known},
    evaluation::Refused,
    matches::Matches,
    node::NodeId,
    prepared::{Order, Prepared, RESTRICTION},
    snapshot::Snapshot,
    status::{Code, Refusal},
};

// === impl View ===

impl View {
    /// Makes the view what it is for a pod that these nominations concern, instead of those it was last told. Gives the
    /// pod's own nominated node where that will do: upstream takes it without a look at the others.
    ///
    /// The snapshot is as it was afterwards: pods are put on nodes and taken off again.
    pub fn lay_over(
        &mut self,
        prepared: &Prepared,
        nodes: &mut Snapshot,
        matches: &Matches,
        nominations: &Nominations,
        family: Option<&SortedNodes>,
    ) -> Option<NodeId> {
        if nominations.is_empty() && !self.is_laid_over() {
            return None;
        }
        let old = self.out();
        self.changed.clear();
        let taken = self.judge_nominations(prepared, nodes, nominations);
        let new = self.out();
        let moved: Vec<NodeId> =
            old.iter().chain(&new).copied().filter(|&node| self.is_out(node) != old.contains(&node)).collect();
        for &node in &moved {
            let slot = nodes.slot(node);
            let judged = || slot.map(|slot| prepared.judge_with(nodes, slot, matches));
            match &mut self.own {
                Some(own) => own.repair(nodes, node, judged().as_ref()),
                None if family.is_some() => {}
                None => {
                    let result = if self.is_out(node) { None } else { judged() };
                    self.replace(nodes, node, result);
                    continue;
                }
            }
            self.single_out(&[node]);
            self.note(family, node);
        }
        self.learn_own_strata(prepared);
        self.refresh(prepared, nodes, matches, family);
        taken
    }

    /// Judges the nodes that nominations are about, and notes what they change. Gives the pod's own nominated node where that
    /// will do.
    fn judge_nominations(
        &mut self,
        prepared: &Prepared,
        nodes: &mut Snapshot,
        nominations: &Nominations,
    ) -> Option<NodeId> {
        let Self { counted, changed, blamed, .. } = self;
        let counts = prepared.is_wide();
        let idle = beside::idle(prepared, counts.then(|| counted.tables()));
        let mut shifts = beside::no_shifts(prepared);
        let tables = counts.then(|| counted.tables_mut());
        let mut beside = Beside { prepared, tables, shifts: &mut shifts, idle: &idle };
        *blamed = 0;
        let mut taken = None;
        if let Some(node) = nominations.own
            && let Some(slot) = nodes.slot(node)
        {
            // The names that PreFilters left are not asked here, and what the filters say of the node is what is told.
            let others = known(nodes, nominations.beside(node));
            match beside.both_passes(nodes, (node, slot), &others) {
                None => taken = Some(node),
                Some(after) if prepared.is_restricted() => {
                    *blamed = after.0;
                    if !prepared.admits_name(nodes, slot) {
                        let before = Some((RESTRICTION, Refusal::unresolvable(0)));
                        changed.insert(node, Changed { before, after });
                    }
                }
                Some(_) => {}
            }
        }
        for (node, classes) in &nominations.beside {
            let Some(slot) = nodes.slot(*node).filter(|&slot| prepared.admits_name(nodes, slot)) else { continue };
            let others = known(nodes, classes);
            let before = beside.first_refusal(nodes, slot);
            if let Some(after) = beside.first_pass(nodes, (*node, slot), &others)
                && before != Some(after)
            {
                changed.insert(*node, Changed { before, after });
            }
        }
        taken
    }

    /// The nodes that would do but for nominations.
    fn out(&self) -> Vec<NodeId> {
        self.changed.iter().filter(|(_, changed)| changed.before.is_none()).map(|(node, _)| *node).collect()
    }

    /// Whether a node would do but for nominations.
    pub(super) fn is_out(&self, node: NodeId) -> bool {
        self.changed.get(&node).is_some_and(|changed| changed.before.is_none())
    }

    /// Whether nominations change what is said of any node, as of the last [`Self::lay_over`].
    #[must_use]
    pub fn is_laid_over(&self) -> bool {
        !self.changed.is_empty() || self.blamed != 0
    }

    /// The error of a filter on any node, for which an attempt fails even if other nodes are feasible. If the cluster has changed
    /// since the shards answered, the error of an answer may be out of date ([`Self::is_untouched`]).
    #[must_use]
    pub fn error(&self, prepared: &Prepared) -> Option<String> {
        let is_error = |(_, refusal): &(Order, Refusal)| refusal.code == Code::Error;
        // With nominated pods, another filter may refuse a node before the one that fails, and a filter may fail because of them.
        let changed = |node: &NodeId| self.changed.contains_key(node);
        let eased = |group: &Refused| {
            let before = Some((group.order, group.refusal));
            let is_eased =
                |(node, changed): &(&NodeId, &Changed)| changed.before == before && !self.failing.contains_key(node);
            self.changed.iter().filter(is_eased).count()
        };
        let among = self.refused.iter().filter(|group| group.refusal.code == Code::Error);
        let among = among.filter(|group| group.count as usize > eased(group));
        let among = among.map(|group| (group.order, group.refusal));
        let failing = self.failing.iter().filter(|(node, _)| !changed(node)).map(|(_, failed)| *failed);
        let beside = self.changed.values().map(|changed| changed.after).filter(is_error);
        let (order, refusal) = among.chain(failing).chain(beside).min()?;
        Some(prepared.reasons(order, refusal.detail).join(", "))
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
}
