//! HTTP extender requests of the machine; each gets exactly one answer.

use std::{panic::AssertUnwindSafe, sync::Arc};

use flotilla_framework::extender::Extended;
use flotilla_machine::{
    action::{Extension, PreemptionProposal},
    event::{Event, ExtensionOutcome},
};
use flotilla_runtime::{
    driver::Handle,
    extender::{Callers, Failure, Objects, SCORED_FROM, ask},
};
use futures::FutureExt as _;
use serde_json::value::RawValue;

mod nodes;
mod objects;
mod preemption;

use nodes::Nodes;

/// Performs [`flotilla_machine::action::Action::Extend`]. Cheap to clone.
#[derive(Clone)]
pub struct Extenders {
    inner: Arc<Inner>,
}

struct Inner {
    client: kube::Client,
    handle: Handle,
    callers: Callers,
    nodes: Nodes,
    runtime: tokio::runtime::Handle,
}

impl Extenders {
    /// Reads objects with `client`, and reports extenders' answers to `handle`.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn new(client: kube::Client, handle: Handle, callers: Callers) -> Self {
        let runtime = tokio::runtime::Handle::current();
        let nodes = Nodes::new(client.clone());
        Self { inner: Arc::new(Inner { client, handle, callers, nodes, runtime }) }
    }

    /// Calls extenders for one pod at a time; exactly one [`Event::Extended`] follows. Never blocks.
    pub fn extend(&self, extension: Extension) {
        let inner = Arc::clone(&self.inner);
        self.inner.runtime.spawn(async move {
            let asked = AssertUnwindSafe(inner.carry_out(&extension)).catch_unwind().await;
            let asked =
                asked.unwrap_or_else(|_| Err(Failure::Error("the task that called extenders panicked".to_owned())));
            let outcome = match asked {
                Ok(extended) => ExtensionOutcome::Done(Box::new(extended)),
                Err(Failure::Error(reason)) => ExtensionOutcome::Failed(reason),
                Err(Failure::Gone) => ExtensionOutcome::Gone,
            };
            // An error means that the machine has stopped and the process is ending.
            let _ = inner.handle.send_event(Event::Extended { request: extension.request, outcome }).await;
        });
    }

    /// Calls extenders for the victims of a preemption; exactly one [`Event::Proposed`] follows. Never blocks.
    pub fn extend_preemption(&self, proposal: PreemptionProposal) {
        let inner = Arc::clone(&self.inner);
        self.inner.runtime.spawn(async move {
            let request = proposal.request;
            let asked = AssertUnwindSafe(preemption::ask(&inner.callers, &inner.client, proposal)).catch_unwind().await;
            let asked = asked.unwrap_or_else(|_| Err("the task that called extenders panicked".to_owned()));
            // An error means that the machine has stopped and the process is ending.
            let _ = inner.handle.send_event(Event::Proposed { request, outcome: asked.map(Box::new) }).await;
        });
    }
}

impl Inner {
    async fn carry_out(&self, extension: &Extension) -> Result<Extended, Failure> {
        let score_from = if extension.may_score { SCORED_FROM } else { usize::MAX };
        let live = Live { client: &self.client, nodes: &self.nodes, extension };
        ask(&self.callers, &extension.extenders, extension.nodes.clone(), score_from, &live).await
    }
}

struct Live<'a> {
    client: &'a kube::Client,
    nodes: &'a Nodes,
    extension: &'a Extension,
}

impl Objects for Live<'_> {
    async fn pod(&self) -> Result<Arc<RawValue>, Failure> {
        let Extension { namespace, name, uid, .. } = self.extension;
        objects::pod(self.client, namespace, name, uid).await
    }

    async fn nodes(&self, names: &[Arc<str>]) -> Result<Vec<Arc<RawValue>>, String> {
        self.nodes.get(names).await
    }
}
