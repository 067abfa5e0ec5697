//! Calls extenders about the victims of a preemption: in sequence, each with the previous one's result.
//!
//! Source: `callExtenders` of upstream's preemption.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::extender::Proposal;
use flotilla_machine::action::{PodName, PreemptionProposal};
use flotilla_runtime::extender::{Callers, Failure, propose};
use futures::{StreamExt as _, stream};
use serde_json::value::RawValue;
use tracing::info;

use super::objects;

const AT_ONCE: usize = 16;

/// The candidates that extenders leave of a proposal.
///
/// # Errors
/// A pod that no longer exists or cannot be read, or the error of an extender that is not ignorable.
pub(super) async fn ask(
    callers: &Callers,
    client: &kube::Client,
    question: PreemptionProposal,
) -> Result<Proposal, String> {
    let PreemptionProposal { preemptor, mut proposal, victims, extenders, .. } = question;
    let pod = read(client, &preemptor).await?;
    let mut known = BTreeMap::new();
    for extender in &*extenders {
        if proposal.nodes.is_empty() {
            break;
        }
        if !extender.node_cache_capable {
            read_missing(client, &proposal, &victims, &mut known).await;
        }
        let answer = propose(callers, extender, &pod, &proposal, &known).await;
        if let Some(reason) = proposal.take(extender, answer)? {
            info!(extender = extender.url_prefix, reason, "skipping a failed extender that is ignorable");
        }
    }
    Ok(proposal)
}

async fn read(client: &kube::Client, pod: &PodName) -> Result<Arc<RawValue>, String> {
    objects::pod(client, &pod.namespace, &pod.name, &pod.uid).await.map_err(|failure| match failure {
        Failure::Gone => format!("pod {}/{} is gone", pod.namespace, pod.name),
        Failure::Error(reason) => reason,
    })
}

async fn read_missing(
    client: &kube::Client,
    proposal: &Proposal,
    victims: &BTreeMap<Arc<str>, PodName>,
    known: &mut BTreeMap<Arc<str>, Arc<RawValue>>,
) {
    let wanted = proposal.nodes.values().flat_map(|victims| &victims.pods).filter(|uid| !known.contains_key(*uid));
    let wanted: Vec<PodName> = wanted.filter_map(|uid| victims.get(uid).cloned()).collect();
    let reads = stream::iter(wanted).map(async |pod| Some((Arc::clone(&pod.uid), read(client, &pod).await.ok()?)));
    let found: Vec<_> = reads.buffer_unordered(AT_ONCE).collect().await;
    known.extend(found.into_iter().flatten());
}
