//! Applies nominations to a view, for one pod after the other.
//!
//! Pods of a class may differ in priority, so nominations do not belong to the class. Each nominated node is evaluated with the nominated
//! pods and without; both must pass. A node that becomes infeasible leaves the view until a later call puts it back.
//!
//! Source: `RunFilterPluginsWithNominatedPods`, `addGENominatedPods` and `evaluateNominatedNode`.

use std::{borrow::Cow, iter::Peekable, vec};

use super::{
    nominated::{Changed, Judged, Nominations},
    sorted::SortedNodes,
    view::View,
};
use crate::{
    class::ClassId,
    evaluation::Refused,
    matches::Matches,
    node::NodeId,
    prepared::{Order, Prepared, RESTRICTION},
    snapshot::{Slot, Snapshot, Stamp},
    status::{Code, Refusal},
    trial_counts::{self, TrialCounts, known},
};

impl View {
    /// Replaces the nominations of the previous pod with these. Returns the pod's own nominated node if feasible: kube-scheduler chooses it
    /// without comparing other nodes. Restores the snapshot after adding pods to nodes.
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
        let back = old.iter().filter(|node| !self.is_out(**node));
        let moved: Vec<NodeId> =
            back.chain(new.iter().filter(|node| old.binary_search(node).is_err())).copied().collect();
        for &node in &moved {
            let slot = nodes.slot(node).filter(|&slot| prepared.holds(nodes, slot));
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

    /// Evaluates the nodes with nominations and records the changes. Returns the pod's own nominated node if feasible.
    fn judge_nominations(
        &mut self,
        prepared: &Prepared,
        nodes: &mut Snapshot,
        nominations: &Nominations,
    ) -> Option<NodeId> {
        let Self { counted, changed, judged, blamed, .. } = self;
        let counts = prepared.is_wide();
        let idle = trial_counts::idle(prepared, counts.then(|| counted.tables()));
        let mut shifts = trial_counts::no_shifts(prepared);
        let tables = counts.then(|| counted.tables_mut());
        let mut beside = TrialCounts { prepared, tables, shifts: &mut shifts, idle: &idle };
        *blamed = 0;
        let mut taken = None;
        if let Some(node) = nominations.own
            && let Some(slot) = nodes.slot(node).filter(|&slot| prepared.holds(nodes, slot))
        {
            // kube-scheduler does not apply the restriction of node names here, and reports the refusal of the filters.
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
        let mut earlier = std::mem::take(judged).into_iter().peekable();
        for (node, classes) in nominations.nodes() {
            let exists = |&slot: &Slot| prepared.holds(nodes, slot) && prepared.admits_name(nodes, slot);
            let Some(slot) = nodes.slot(*node).filter(exists) else { continue };
            let stamp = nodes.changed(slot);
            let known = Judged::take(&mut earlier, *node, stamp, classes).unwrap_or_else(|| {
                let others = known(nodes, classes);
                let before = beside.first_refusal(nodes, slot);
                let after = beside.first_pass(nodes, (*node, slot), &others);
                Judged { node: *node, classes: classes.clone(), stamp, before, after }
            });
            if let Some(after) = known.after
                && known.before != Some(after)
            {
                changed.insert(*node, Changed { before: known.before, after });
            }
            // Counts over domains change with other nodes too.
            if !counts {
                judged.push(known);
            }
        }
        taken
    }

    /// The nodes that are feasible only without the nominations, in ascending order.
    fn out(&self) -> Vec<NodeId> {
        self.changed.iter().filter(|(_, changed)| changed.before.is_none()).map(|(node, _)| *node).collect()
    }

    pub(super) fn is_out(&self, node: NodeId) -> bool {
        self.changed.get(&node).is_some_and(|changed| changed.before.is_none())
    }

    /// Whether nominations change the result of any node, as of the last [`Self::lay_over`].
    #[must_use]
    pub fn is_laid_over(&self) -> bool {
        !self.changed.is_empty() || self.blamed != 0
    }

    /// The error of a filter on any node, which fails the attempt even if other nodes are feasible. It may be outdated if the cluster
    /// changed since the shards answered ([`Self::is_untouched`]).
    #[must_use]
    pub fn error(&self, prepared: &Prepared) -> Option<String> {
        let is_error = |(_, refusal): &(Order, Refusal)| refusal.code == Code::Error;
        // With nominated pods, another filter may refuse the node before the failing one, or a filter may fail because of them.
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

    /// As [`Self::refused`], with the changes by nominations.
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

    /// A refusal as reported. For nodes excluded by PreFilters it names the filter that refuses the pod's own nominated node, as
    /// kube-scheduler.
    pub(crate) fn told(&self, (order, refusal): (Order, Refusal)) -> (Order, Refusal) {
        let detail = if order == RESTRICTION { u64::from(self.blamed) } else { refusal.detail };
        (order, Refusal { detail, ..refusal })
    }

    pub(crate) fn changed(&self, node: NodeId) -> Option<(Order, Refusal)> {
        self.changed.get(&node).map(|changed| changed.after)
    }
}

impl Judged {
    /// The earlier results of a node, if neither the node nor its nominations changed. Nodes are requested in ascending order.
    fn take(
        earlier: &mut Peekable<vec::IntoIter<Self>>,
        node: NodeId,
        stamp: Stamp,
        classes: &[ClassId],
    ) -> Option<Self> {
        while earlier.next_if(|known| known.node < node).is_some() {}
        earlier.next_if(|known| known.node == node && known.stamp == stamp && known.classes[..] == *classes)
    }
}
