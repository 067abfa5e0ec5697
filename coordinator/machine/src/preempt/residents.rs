//! The pods on each node, by priority.

use flotilla_framework::map::Map;
use std::{collections::BTreeMap, sync::Arc};

use crate::{judge::cache::Charge, subject::Uid};

/// The pods charged to each node, known or not; one entry per charge.
#[derive(Debug, Default)]
pub(crate) struct Residents {
    /// Sorted by priority, lowest first.
    nodes: Map<Arc<str>, Vec<(i32, Uid)>>,
    priorities: BTreeMap<i32, usize>,
}

impl Residents {
    pub(crate) fn moves(&mut self, uid: &Uid, priority: i32, old: Option<&Charge>, new: Option<&Charge>) {
        if let Some(old) = old
            && let Some(pods) = self.nodes.get_mut(&old.node)
        {
            if let Some(at) = pods.iter().position(|(_, known)| known == uid) {
                let (priority, _) = pods.remove(at);
                if let Some(count) = self.priorities.get_mut(&priority) {
                    *count -= 1;
                    if *count == 0 {
                        self.priorities.remove(&priority);
                    }
                }
            }
            if pods.is_empty() {
                self.nodes.swap_remove(&old.node);
            }
        }
        if let Some(new) = new {
            let pods = self.nodes.entry(Arc::clone(&new.node)).or_default();
            // Most pods of a node have the same priority. Then the others are not read, which would miss the cache.
            let is_last = pods.last().is_none_or(|(known, _)| *known <= priority);
            let at = if is_last { pods.len() } else { pods.partition_point(|(known, _)| *known <= priority) };
            pods.insert(at, (priority, Arc::clone(uid)));
            *self.priorities.entry(priority).or_insert(0) += 1;
        }
    }

    pub(crate) fn on(&self, node: &str) -> impl Iterator<Item = &Uid> {
        self.nodes.get(node).into_iter().flatten().map(|(_, uid)| uid)
    }

    pub(crate) fn any_below(&self, node: &str, priority: i32) -> bool {
        self.nodes.get(node).and_then(|pods| pods.first()).is_some_and(|(lowest, _)| *lowest < priority)
    }

    pub(crate) fn any_at_all_below(&self, priority: i32) -> bool {
        self.priorities.first_key_value().is_some_and(|(lowest, _)| *lowest < priority)
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.values().map(Vec::len).sum()
    }
}
