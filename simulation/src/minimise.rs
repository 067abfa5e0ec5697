//! Minimises a failed run while it violates the same invariant.

use crate::{course::RunOutcome, guard::Guard, plan::Plan};

/// Maximum number of tried runs, of some ten milliseconds each.
const TRIES: usize = 200;

/// The smallest run that violates the same invariant, and its outcome.
#[must_use]
pub fn minimise(plan: &Plan, outcome: &RunOutcome) -> (Plan, RunOutcome) {
    // A hung run takes a minute each time.
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
