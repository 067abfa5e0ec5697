//! Creates pods, and lists pods and events.

use std::collections::BTreeMap;

use anyhow::Context;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;
use kube::api::{Api, ListParams};

use super::ControlPlane;
use super::create::create_all;

/// A pod with one container for that scheduler.
#[must_use]
pub fn pod(name: &str, scheduler: &str, requests: &[(&str, &str)]) -> Pod {
    let mut container = Container {
        name: "main".into(),
        // Never pulled: only kwok runs it.
        image: Some("registry.k8s.io/pause:3.10".into()),
        ..Container::default()
    };
    container.resources.get_or_insert_default().requests =
        Some(requests.iter().map(|(resource, amount)| ((*resource).into(), Quantity((*amount).into()))).collect());
    let mut pod = Pod::default();
    pod.metadata.name = Some(name.into());
    pod.spec =
        Some(PodSpec { containers: vec![container], scheduler_name: Some(scheduler.into()), ..PodSpec::default() });
    pod
}

impl ControlPlane {
    /// Creates pods concurrently, in `default` if they have no namespace, and returns the stored pods in the same order.
    pub async fn create_pods(&self, pods: impl IntoIterator<Item = Pod>) -> anyhow::Result<Vec<Pod>> {
        let client = self.client();
        let pods = pods.into_iter().map(|pod| {
            let namespace = pod.namespace().unwrap_or_else(|| "default".into());
            (Api::namespaced(client.clone(), &namespace), pod)
        });
        create_all(pods.collect()).await.context("cannot create the pods")
    }

    /// Names of a namespace's bound pods by node, sorted.
    pub async fn pods_on_nodes(&self, namespace: &str) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
        let api: Api<Pod> = Api::namespaced(self.client(), namespace);
        let pods = api
            .list(&ListParams::default())
            .await
            .with_context(|| format!("cannot list the pods of the namespace {namespace}"))?;
        let mut nodes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pod in pods {
            let name = pod.name_any();
            if let Some(node) = pod.spec.and_then(|spec| spec.node_name) {
                nodes.entry(node).or_default().push(name);
            }
        }
        nodes.values_mut().for_each(|names| names.sort());
        Ok(nodes)
    }

    /// Events of a pod, oldest first.
    pub async fn events_for(&self, namespace: &str, pod: &str) -> anyhow::Result<Vec<Event>> {
        let api: Api<Event> = Api::namespaced(self.client(), namespace);
        let about = ListParams::default().fields(&format!("regarding.kind=Pod,regarding.name={pod}"));
        let mut events =
            api.list(&about).await.with_context(|| format!("cannot list the events about {namespace}/{pod}"))?.items;
        events.sort_by_key(|event| event.metadata.creation_timestamp.clone());
        Ok(events)
    }
}
