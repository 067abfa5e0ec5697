//! Changes since a revision, for views and sorted lists.

use flotilla_framework::{matches::Matches, node::NodeId, select::Move, shard::Revision};

use super::cache::{Cache, Happening, What};

/// The changes since a revision; `None` if there are so many that a new evaluation is cheaper.
pub(super) fn changes(cache: &Cache, since: Revision) -> Option<Vec<Happening>> {
    let bound = (cache.nodes().len() / 2).max(256);
    cache.changes_since(since).filter(|changes| changes.len() <= bound).map(Iterator::collect)
}

pub(super) fn moved(change: Happening, matches: &Matches) -> Move<'_> {
    match change.what {
        What::Came(class) => (change.node, matches.of(class), 1),
        What::Left(class) => (change.node, matches.of(class), -1),
        What::Changed | What::Reshaped => (change.node, &[], 0),
    }
}

pub(super) fn nodes_of(changes: &[Happening]) -> Vec<NodeId> {
    let mut nodes: Vec<NodeId> = changes.iter().map(|change| change.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}
