//! Makes a run that failed smaller, while it fails in the same way.
//!
//! Knows: that a smaller run is easier to understand. Must not know: what a run is made of.

use crate::{course::Outcome, guard::Guard, plan::Plan};

/// Runs that are tried at most: a run takes some ten milliseconds.
const TRIES: usize = 200;

/// The smallest run found that breaks the same invariant, and what came of it.
#[must_use]
pub fn minimise(plan: &Plan, outcome: &Outcome) -> (Plan, Outcome) {
    // A run that never ends takes a minute each time.
    let Some(invariant) = outcome.violations.first().map(|violation| violation.invariant).filter(|name| *name != "E1")
    else {
        return (plan.clone(), outcome.clone());
    };
    let (mut smallest, mut tries, mut guard) = ((plan.clone(), outcome.clone()), 0, Guard::default());
    loop {
        let mut smaller = smallest.0.smaller().into_iter();
        let found = smaller.find_map(|plan| {
            tries += 1;
            if tries > TRIES {
                return None;
            }
            let outcome = guard.run(&plan);
            let is_same = outcome.violations.iter().any(|violation| violation.invariant == invariant);
            is_same.then_some((plan, outcome))
        });
        match found {
            Some(found) => smallest = found,
            None => return smallest,
        }
    }
}
