//! The order of extender calls for one pod: filters in sequence, then all scores in parallel.
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

/// The reason for a pod without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The pod no longer exists.
    Gone,
    /// Any other reason.
    Error(String),
}

/// The pod and the nodes of a call, in the form of [`super::pod_text`] and [`super::node_text`].
pub trait Objects {
    /// The pod.
    fn pod(&self) -> impl Future<Output = Result<Arc<RawValue>, Failure>> + Send;

    /// The nodes of these names, in this order, without nodes that no longer exist.
    fn nodes(&self, names: &[Arc<str>]) -> impl Future<Output = Result<Vec<Arc<RawValue>>, String>> + Send;
}

/// Calls `extenders`, all of which are interested in the pod. Requests scores only if at least `score_from` nodes are left.
///
/// # Errors
/// A pod that no longer exists or cannot be read, or the error of an extender that is not ignorable.
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
            info!(extender = extender.url_prefix, reason, "skipping a failed extender that is ignorable");
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
