//! Timing of single plugins.

use crate::prepared::parts::Point;

/// Called after each plugin that evaluated nodes. Source: `plugin_execution_duration_seconds`, which kube-scheduler observes for each node;
/// here a plugin evaluates a column of nodes at once.
pub trait Laps {
    /// Starts the clock.
    fn begin(&mut self);

    /// A plugin evaluated this many nodes since the last lap, or since the start.
    fn lap(&mut self, plugin: &'static str, point: Point, nodes: usize);
}

impl Laps for () {
    fn begin(&mut self) {}

    fn lap(&mut self, _: &'static str, _: Point, _: usize) {}
}
