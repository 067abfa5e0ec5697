//! The law of DefaultPreemption: which pods of lower priority a pod that fits nowhere may have taken away, and on which
//! node that is done.
//!
//! The steps follow each other like this. [`why_ineligible`] tells whether the pod may preempt at all. The nodes that
//! are refused with [`Code::Unschedulable`](crate::status::Code) are tried, one [`Trial`] each, in an order and up to a
//! number that [`Shortlist`] knows: [`lay_out`] says which pods may go, [`DryRun::dry_run`] which of them must. What
//! comes of it are [`Candidate`]s, of which [`pick_one`] takes one. [`words`] has what is told of it.
//!
//! Knows: the order of those steps. Must not know: how victims are evicted, who waits for that, or extenders.
//!
//! Where pod groups count, pods of a group that is disrupted as a whole are one victim, wherever they are: [`lay_out_units`]. Room for a whole group is
//! sought on all nodes at once: [`group`].
//!
//! Source: `pkg/scheduler/framework/preemption` and `pkg/scheduler/framework/plugins/defaultpreemption`.

mod budget;
mod candidate;
mod dry_run;
mod eligibility;
mod evaluate;
pub mod group;
mod shortlist;
mod standing;
mod trial;
pub mod words;

pub use budget::Budget;
pub use candidate::{Candidate, pick_one, tied};
pub use dry_run::{DryRun, Outcome, dry_run, is_local};
pub use eligibility::{NominatedNode, why_ineligible};
pub use evaluate::{Evaluated, evaluate};
pub use shortlist::Shortlist;
pub use standing::Standing;
pub use trial::{Layout, Trial, Unit, Whole, lay_out, lay_out_units};

#[cfg(test)]
mod tests;
