//! Maps whose keys no client chooses: numbers, UIDs, names of nodes.
//!
//! Knows: that such keys need no protection against an attacker that makes them collide, and that std's protection
//! takes time in every look-up and draws a random number. Must not know: what is looked up.
//!
//! What is keyed by words of users (labels, classes, images) keeps std's hasher.

use foldhash::fast::FixedState;
use indexmap::{IndexMap, IndexSet};

/// A map in the order of insertion, by numbers, UIDs or names of nodes. The API server draws UIDs, and who may name nodes
/// may do worse.
pub type Map<K, V> = IndexMap<K, V, FixedState>;

/// A set in the order of insertion, as [`Map`].
pub type Set<K> = IndexSet<K, FixedState>;
