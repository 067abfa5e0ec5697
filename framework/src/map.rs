//! Maps with keys that clients cannot choose: numbers, UIDs, node names.
//!
//! They need no protection against deliberate collisions. std's protection slows each lookup and draws a random number; maps with
//! user-chosen keys (labels, classes, images) keep it.

use foldhash::fast::FixedState;
use indexmap::{IndexMap, IndexSet};

/// A map in insertion order, for numbers, UIDs or node names. A client that may name nodes can do worse than collisions.
pub type Map<K, V> = IndexMap<K, V, FixedState>;

/// A set in the order of insertion, as [`Map`].
pub type Set<K> = IndexSet<K, FixedState>;
