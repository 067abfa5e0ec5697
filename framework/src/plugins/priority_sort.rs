//! PrioritySort: higher priority first, then who waited longer.
//!
//! Knows: how two pods compare. Must not know: what a queue is made of.

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

/// Which of two pods, given as (priority, time queued), goes first: `Less` means the left one.
#[must_use]
pub fn order<T: Ord>(left: (i32, T), right: (i32, T)) -> Ordering {
    right.0.cmp(&left.0).then_with(|| left.1.cmp(&right.1))
}

#[cfg(test)]
mod tests;
