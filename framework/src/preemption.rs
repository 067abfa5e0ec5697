//! DefaultPreemption: selects victims of lower priority for a pod without a feasible node, and the node to preempt on.
//!
//! [`why_ineligible`] decides whether the pod may preempt. Nodes refused with [`Code::Unschedulable`](crate::status::Code) are tried, one
//! [`Trial`] each, in the order of [`Shortlist`]. [`lay_out`] lists potential victims, [`DryRun::dry_run`] the necessary ones. [`pick_one`]
//! selects a [`Candidate`]. [`words`] has the messages. With pod groups, a group that is disrupted as a whole is one
//! [`Unit`]: [`lay_out_units`]. Preemption for a whole group considers all nodes at once, with the same units and the same [`reprieve`].
//!
//! Source: `pkg/scheduler/framework/preemption` and `pkg/scheduler/framework/plugins/defaultpreemption`.

mod budget;
mod candidate;
mod dry_run;
mod eligibility;
mod evaluate;
mod placed_pod;
mod shortlist;
mod trial;
mod unit;
pub mod words;

pub use budget::Budget;
pub use candidate::{Candidate, pick_one, tied};
pub use dry_run::{DryRun, DryRunResult, concerns_other_nodes, dry_run, is_local};
pub use eligibility::{NominatedNode, why_ineligible};
pub use evaluate::{Evaluated, evaluate};
pub use placed_pod::PlacedPod;
pub use shortlist::Shortlist;
pub use trial::{Layout, Trial, Whole, lay_out, lay_out_units};
pub use unit::{Unit, UnitKind, reprieve, sort_by_importance, violations};

#[cfg(test)]
mod tests;
