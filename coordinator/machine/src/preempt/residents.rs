//! Which pods are on which node, by priority.
//!
//! Knows: where each charge of a pod is. Must not know: what the pods are, or who may preempt them.

use flotilla_framework::map::Map;
use std::{collections::BTreeMap, sync::Arc};

use crate::{judge::cache::Charge, subject::Uid};

/// The pods that are charged to each node, whether it is known or not: as many entries as there are charges.
#[derive(Debug, Default)]
pub(crate) struct Residents {
    /// Those of lower priority first.
    nodes: Map<Arc<str>, Vec<(i32, Uid)>>,
    /// How many of each priority.
    priorities: BTreeMap<i32, usize>,
}

// === impl Residents ===

impl Residents {
    /// The charge of a pod is another one from now on.
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
            // Most pods of a node are of one priority: then the others are not read, for which there is no cache.
            let is_last = pods.last().is_none_or(|(known, _)| *known <= priority);
            let at = if is_last { pods.len() } else { pods.partition_point(|(known, _)| *known <= priority) };
            pods.insert(at, (priority, Arc::clone(uid)));
            *self.priorities.entry(priority).or_insert(0) += 1;
        }
    }

    /// The pods on a node.
    pub(crate) fn on(&self, node: &str) -> impl Iterator<Item = &Uid> {
        self.nodes.get(node).into_iter().flatten().map(|(_, uid)| uid)
    }

    /// Whether any pod on a node has a lower priority than this.
    pub(crate) fn any_below(&self, node: &str, priority: i32) -> bool {
        self.nodes.get(node).and_then(|pods| pods.first()).is_some_and(|(lowest, _)| *lowest < priority)
    }

    /// Whether any pod on any node has a lower priority than this.
    pub(crate) fn any_at_all_below(&self, priority: i32) -> bool {
        self.priorities.first_key_value().is_some_and(|(lowest, _)| *lowest < priority)
    }

    /// How many pods are on nodes.
    pub(crate) fn len(&self) -> usize {
        self.nodes.values().map(Vec::len).sum()
    }
}
