//! Who times single plugins.
//!
//! Knows: when a plugin has been through the nodes of a shard. Must not know: any clock.

use crate::prepared::parts::Point;

/// Is told of each plugin that has been through nodes, right after it has.
///
/// Source: `plugin_execution_duration_seconds`, which upstream observes for each node; here a plugin goes through a column
/// of nodes at once.
pub trait Laps {
    /// Plugins begin from here.
    fn begin(&mut self);

    /// A plugin has been through so many nodes since the last lap, or since the beginning.
    fn lap(&mut self, plugin: &'static str, point: Point, nodes: usize);
}

/// Nothing is timed.
impl Laps for () {
    fn begin(&mut self) {}

    fn lap(&mut self, _: &'static str, _: Point, _: usize) {}
}
