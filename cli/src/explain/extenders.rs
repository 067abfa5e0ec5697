//! Calls HTTP extenders for pods from files.

use std::sync::Arc;

use flotilla_cluster::Texts;
use flotilla_framework::{
    class::PodInfo,
    extender::{Extended, Extender, in_order},
};
use flotilla_runtime::extender::{self, Callers, Failure, Objects};
use serde_json::value::RawValue;

/// Score a single node too, as plugins do here.
const SCORED_FROM: usize = 1;

pub(super) struct Asking {
    callers: Callers,
    extenders: Vec<Arc<Extender>>,
}

impl Asking {
    /// `None` without extenders.
    ///
    /// # Errors
    /// A file of an extender is unusable.
    pub(super) fn new(extenders: &[Extender]) -> anyhow::Result<Option<Self>> {
        extender::check(extenders)?;
        let asking = Self { callers: Callers::default(), extenders: in_order(extenders) };
        Ok((!extenders.is_empty()).then_some(asking))
    }

    /// Calls the extenders that manage a pod. The error is the one that ends kube-scheduler's attempt.
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
