//! HTTP extenders, asked about pods that are only written down.
//!
//! Knows: which of them are asked, and with which texts. Must not know: how they are called, or how the answer is laid out.

use std::sync::Arc;

use flotilla_cluster::Texts;
use flotilla_framework::{
    class::PodInfo,
    extender::{Extended, Extender, in_order},
};
use flotilla_runtime::extender::{self, Callers, Failure, Objects};
use serde_json::value::RawValue;

/// A single node is scored too, as plugins score it here.
const SCORED_FROM: usize = 1;

/// The extenders of a configuration.
pub(super) struct Asking {
    callers: Callers,
    extenders: Vec<Arc<Extender>>,
}

impl Asking {
    /// `None` where there are no extenders.
    ///
    /// # Errors
    /// A file of an extender's that cannot be used.
    pub(super) fn new(extenders: &[Extender]) -> anyhow::Result<Option<Self>> {
        extender::check(extenders)?;
        let asking = Self { callers: Callers::default(), extenders: in_order(extenders) };
        Ok((!extenders.is_empty()).then_some(asking))
    }

    /// What the extenders that are interested in a pod say about nodes, or why kube-scheduler would give up on the attempt.
    pub(super) async fn ask(&self, pod: &PodInfo, nodes: Vec<Arc<str>>, texts: &Texts) -> Result<Extended, String> {
        let interested = self.extenders.iter().filter(|extender| extender.is_interested(pod));
        let interested: Vec<Arc<Extender>> = interested.cloned().collect();
        if nodes.is_empty() || interested.is_empty() {
            return Ok(Extended::new(nodes));
        }
        let written = Written { pod, texts };
        let answer = extender::ask(&self.callers, &interested, nodes, SCORED_FROM, &written).await;
        answer.map_err(|failure| match failure {
            Failure::Error(reason) => reason,
            Failure::Gone => "the pod is gone".to_owned(),
        })
    }
}

struct Written<'a> {
    pod: &'a PodInfo,
    texts: &'a Texts,
}

impl Objects for Written<'_> {
    async fn pod(&self) -> Result<Arc<RawValue>, Failure> {
        self.texts.pod(&self.pod.uid).cloned().ok_or(Failure::Gone)
    }

    async fn nodes(&self, names: &[Arc<str>]) -> Result<Vec<Arc<RawValue>>, String> {
        Ok(names.iter().filter_map(|name| self.texts.node(name).cloned()).collect())
    }
}
