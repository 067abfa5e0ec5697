//! Asks one extender about the victims of a preemption.
//!
//! Source: `callExtenders` of upstream's preemption.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::extender::{Extender, Proposal};
use serde_json::value::RawValue;

use super::{
    caller::{Callers, Verb},
    wire,
};

/// Asks an extender which victims of a proposal it accepts. Returns, by node, the victims' names and the number of violated budgets.
/// `known` has the victims by UID, for an extender that receives whole pods.
///
/// # Errors
/// The error of the extender or of the call.
pub async fn propose(
    callers: &Callers,
    extender: &Arc<Extender>,
    pod: &RawValue,
    proposal: &Proposal,
    known: &BTreeMap<Arc<str>, Arc<RawValue>>,
) -> Result<BTreeMap<String, (Vec<String>, i64)>, String> {
    let body = if extender.node_cache_capable {
        wire::meta_victims_args(pod, proposal)?
    } else {
        wire::victims_args(pod, proposal, known)?
    };
    let answer = callers.call(extender, Verb::Preempt, body).await.map_err(|error| error.to_string())?;
    wire::meta_victims(&answer)
}
