//! PrioritySort: higher priority first, then longer waiting time.

use std::cmp::Ordering;

use crate::extension::Plugin;

/// The plugin.
#[derive(Debug)]
pub struct PrioritySort;

impl Plugin for PrioritySort {
    fn name(&self) -> &'static str {
        "PrioritySort"
    }
}

/// Order of two pods, given as (priority, time queued). `Less`: the left pod is first.
#[must_use]
pub fn order<T: Ord>(left: (i32, T), right: (i32, T)) -> Ordering {
    right.0.cmp(&left.0).then_with(|| left.1.cmp(&right.1))
}

#[cfg(test)]
mod tests;
