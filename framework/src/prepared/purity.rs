//! Checks in debug builds that plugins are pure, by calling them twice for some nodes.

use super::Prepared;
use crate::{
    extension::Filter,
    snapshot::{Slot, Snapshot},
};

/// One of this many nodes is evaluated twice.
const SAMPLE: usize = 8;

impl Prepared {
    /// In debug builds: repeats the node-local filters and scores for some nodes.
    ///
    /// # Panics
    /// With the name of a plugin that returns another result the second time.
    pub(super) fn assert_pure(&self, nodes: &Snapshot, slot: Slot) {
        if !cfg!(debug_assertions) || !(slot as usize).is_multiple_of(SAMPLE) {
            return;
        }
        for prepared in &self.filters {
            if let Filter::Node(filter) = &prepared.filter {
                compare(prepared.plugin, "Filter", || filter.filter(nodes, slot));
            }
        }
        for scored in self.local_scores() {
            match scored.score.fallible() {
                None => compare(scored.plugin, "Score", || scored.score.score(nodes, slot)),
                Some(score) => compare(scored.plugin, "Score", || score.try_score(nodes, slot)),
            }
        }
    }
}

fn compare<T: PartialEq + std::fmt::Debug>(plugin: &str, point: &str, ask: impl Fn() -> T) {
    let (first, second) = (ask(), ask());
    assert!(
        first == second,
        "plugin {plugin:?} is not pure: its {point} returned {first:?} and then {second:?} for the same pod and node; \
         it may read only its arguments (docs/tasks/plugins.md)"
    );
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use crate::{
        extension::{NodeScore, Plugin, Preparation, Score},
        snapshot::{Slot, Snapshot},
        testing::{checks::alone_of, node, pod},
    };

    struct Counting;

    struct Count(AtomicI64);

    impl Plugin for Counting {
        fn name(&self) -> &'static str {
            "Counting"
        }

        fn score(&self, _: &mut Preparation<'_>) -> Option<Score> {
            Some(Score::Node(Box::new(Count(AtomicI64::new(0)))))
        }
    }

    impl NodeScore for Count {
        fn score(&self, _: &Snapshot, _: Slot) -> i64 {
            self.0.fetch_add(1, Ordering::Relaxed)
        }
    }

    #[test]
    #[should_panic(expected = "plugin \"Counting\" is not pure: its Score returned 0 and then 1")]
    fn a_plugin_that_keeps_a_state_is_found_out() {
        let _ = alone_of(Counting).scores(&pod("p"), &[(node("n"), vec![])]);
    }
}
