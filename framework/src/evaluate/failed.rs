//! Nodes that a plugin cannot score: they are refused with an error, at the plugin's place in the order.

use super::{Columns, RefusalKey};
use crate::{
    extension::NodeScore,
    prepared::{Order, Prepared},
    snapshot::{Slot, Snapshot},
    status::Refusal,
};

pub(super) type Failed = (Slot, Order, Refusal);

/// Adds a column of scores. Nodes that cannot be scored go to `failed`, with the score's place in the order.
pub(super) fn add_column(
    score: &dyn NodeScore,
    nodes: &Snapshot,
    todo: &[Slot],
    weight: i64,
    sums: &mut [i64],
    (order, failed): (Order, &mut Vec<Failed>),
) {
    match score.fallible() {
        None => score.add_column(nodes, todo, weight, sums),
        Some(score) => score.try_add_column(nodes, todo, weight, sums, &mut |slot, refusal| {
            failed.push((slot, order, refusal));
        }),
    }
}

impl Columns {
    /// Refuses the nodes that some plugin could not score, by the first such plugin. Leaves each node once, sorted.
    pub(super) fn refuse_failed(&mut self, prepared: &Prepared, nodes: &Snapshot, failed: &mut Vec<Failed>) {
        failed.sort_unstable();
        failed.dedup_by_key(|(slot, ..)| *slot);
        for &(slot, order, refusal) in failed.iter() {
            let keys = if prepared.is_judged_before(order) { prepared.keys() } else { &[] };
            let domains = keys.iter().map(|&key| nodes.label(key, slot)).collect();
            let number = self.refusal_keys.insert_full(RefusalKey { order, refusal, domains }, ()).0;
            self.verdicts.set_refused(slot, number);
        }
    }
}
