//! The order in which extenders are asked about one pod.
//!
//! Knows: filters one after the other, then all scores at once. Must not know: where objects come from, or what becomes of
//! the answer.
//!
//! Source: `findNodesThatPassExtenders` and `prioritizeNodes` in upstream's schedule_one.go.

use std::sync::Arc;

use flotilla_framework::extender::{Extended, Extender};
use futures::future::join_all;
use serde_json::value::RawValue;
use tracing::{debug, info};

use super::{
    caller::{Callers, Verb},
    wire,
};

/// Why there is no answer about a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The pod is gone.
    Gone,
    /// Anything else.
    Error(String),
}

/// The pod that extenders are asked about and the nodes: as [`super::pod_text`] and [`super::node_text`] have them.
pub trait Objects {
    /// The pod.
    fn pod(&self) -> impl Future<Output = Result<Arc<RawValue>, Failure>> + Send;

    /// The nodes of these names, in this order; one that is gone is left out.
    fn nodes(&self, names: &[Arc<str>]) -> impl Future<Output = Result<Vec<Arc<RawValue>>, String>> + Send;
}

/// Asks `extenders`, all of which are interested in the pod, about nodes. Scores are asked for where at least so many nodes
/// are left as `score_from` says.
///
/// # Errors
/// A pod that is gone or cannot be read, or the reason of an extender that cannot be ignored.
pub async fn ask(
    callers: &Callers,
    extenders: &[Arc<Extender>],
    nodes: Vec<Arc<str>>,
    score_from: usize,
    objects: &(impl Objects + Sync),
) -> Result<Extended, Failure> {
    let mut extended = Extended::new(nodes);
    let question = Question { callers, pod: objects.pod().await?, objects };
    for extender in extenders.iter().filter(|extender| extender.is_filter()) {
        if extended.nodes.is_empty() {
            break;
        }
        let answer = question.put(extender, Verb::Filter, &extended.nodes).await;
        let answer = answer.and_then(|body| wire::filter_answer(&body));
        if let Some(reason) = extended.filter(extender, answer).map_err(Failure::Error)? {
            info!(extender = extender.url_prefix, reason, "passing over an extender that failed and can be ignored");
        }
    }
    if extended.nodes.len() < score_from.max(1) {
        return Ok(extended);
    }
    let prioritizers = extenders.iter().filter(|extender| extender.is_prioritizer());
    let calls = prioritizers.map(async |extender| {
        let answer = question.put(extender, Verb::Prioritize, &extended.nodes).await;
        (extender, answer.and_then(|body| wire::priorities(&body)))
    });
    for (extender, answer) in join_all(calls).await {
        match answer {
            Ok(scores) => extended.prioritize(extender, scores),
            Err(reason) => debug!(extender = extender.url_prefix, reason, "an extender failed to score nodes"),
        }
    }
    Ok(extended)
}

/// A pod that extenders are asked about.
struct Question<'a, O> {
    callers: &'a Callers,
    pod: Arc<RawValue>,
    objects: &'a O,
}

impl<O: Objects + Sync> Question<'_, O> {
    async fn put(&self, extender: &Arc<Extender>, verb: Verb, names: &[Arc<str>]) -> Result<Vec<u8>, String> {
        let body = if extender.node_cache_capable {
            wire::names_args(&self.pod, names)
        } else {
            wire::nodes_args(&self.pod, &self.objects.nodes(names).await?)
        };
        self.callers.call(extender, verb, body?).await.map_err(|error| error.to_string())
    }
}
