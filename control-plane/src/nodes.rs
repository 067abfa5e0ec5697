//! Simulated nodes.

use std::{collections::BTreeSet, sync::atomic::Ordering, time::Duration};

use anyhow::Context;
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;
use kube::api::{Api, ListParams};

use super::ControlPlane;
use super::components::{Component, KUBELETS, KWOK_ANNOTATION};
use super::create::create_all;
use super::wait::wait_until;

/// The node lifecycle controller removes this taint from a ready node.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Builder of a simulated node. Fields without a method are set on the resulting [`Node`].
#[derive(Clone, Debug)]
pub struct NodeBuilder {
    node: Node,
}

impl NodeBuilder {
    /// A node with 8 CPUs, 32 GiB of memory and 110 pods.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let mut node = Node::default();
        node.metadata.name = Some(name.into());
        Self { node }.capacity("cpu", "8").capacity("memory", "32Gi").capacity("pods", "110")
    }

    /// Sets a resource's capacity and allocatable.
    #[must_use]
    pub fn capacity(mut self, resource: &str, quantity: &str) -> Self {
        let status = self.node.status.get_or_insert_default();
        for amounts in [&mut status.capacity, &mut status.allocatable] {
            amounts.get_or_insert_default().insert(resource.into(), Quantity(quantity.into()));
        }
        self
    }

    /// Sets a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.node.labels_mut().insert(key.into(), value.into());
        self
    }

    /// Adds a taint.
    #[must_use]
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        let taint = Taint { key: key.into(), value: Some(value.into()), effect: effect.into(), ..Taint::default() };
        self.node.spec.get_or_insert_default().taints.get_or_insert_default().push(taint);
        self
    }

    /// Assigns the node to the kwok of that name, see [`ControlPlane::start_kubelets`].
    #[must_use]
    pub fn kubelets(mut self, name: &str) -> Self {
        self.node.annotations_mut().insert(KWOK_ANNOTATION.into(), name.into());
        self
    }

    /// Cordons the node.
    #[must_use]
    pub fn unschedulable(mut self) -> Self {
        self.node.spec.get_or_insert_default().unschedulable = Some(true);
        self
    }
}

impl From<NodeBuilder> for Node {
    fn from(builder: NodeBuilder) -> Self {
        builder.node
    }
}

impl ControlPlane {
    /// Creates nodes and waits until all are Ready without a not-ready taint. Adds missing fields of a kubelet: the usual labels, an
    /// internal address, and kwok's annotation. Without kwok the nodes are created Ready, and remain so unless a controller manager misses
    /// their heartbeats.
    pub async fn add_nodes<N: Into<Node>>(&self, nodes: impl IntoIterator<Item = N>) -> anyhow::Result<()> {
        let api: Api<Node> = Api::all(self.client());
        let nodes: Vec<_> =
            nodes.into_iter().map(|node| (api.clone(), self.with_kubelet_fields(node.into()))).collect();
        let names: BTreeSet<String> = nodes.iter().map(|(_, node)| node.name_any()).collect();
        create_all(nodes).await.context("cannot create the nodes")?;

        // A minute, plus time for thousands of nodes on a busy machine.
        let patience = Duration::from_secs(60) + Duration::from_millis(20) * u32::try_from(names.len())?;
        wait_until(&format!("{} nodes to be ready", names.len()), patience, async || {
            let all = api.list(&ListParams::default()).await.map_err(|error| format!("{error}"))?;
            let ready: BTreeSet<String> = all.iter().filter(|node| is_ready(node)).map(Node::name_any).collect();
            let mut missing = names.difference(&ready);
            match missing.next() {
                None => Ok(()),
                Some(first) => Err(format!("{} are not ready, such as {first}", missing.count() + 1)),
            }
        })
        .await
        .with_context(|| self.tails(&[Component::Kwok, Component::ControllerManager]))
    }

    fn with_kubelet_fields(&self, mut node: Node) -> Node {
        let name = node.name_any();
        for (key, value) in
            [("kubernetes.io/hostname", name.as_str()), ("kubernetes.io/os", "linux"), ("kubernetes.io/arch", "amd64")]
        {
            node.labels_mut().entry(key.into()).or_insert_with(|| value.into());
        }
        node.annotations_mut().entry(KWOK_ANNOTATION.into()).or_insert_with(|| KUBELETS.into());
        let status = node.status.get_or_insert_default();
        status.addresses.get_or_insert_with(|| {
            let [_, b, c, d] = self.nodes_made.fetch_add(1, Ordering::Relaxed).to_be_bytes();
            // The upper half of 10.0.0.0/8; kwok assigns the lower half to pods.
            let address = format!("10.{}.{c}.{d}", 128 | b);
            [("InternalIP", address), ("Hostname", name)]
                .map(|(type_, address)| NodeAddress { type_: type_.into(), address })
                .to_vec()
        });
        if !self.runs(Component::Kwok) {
            status.conditions.get_or_insert_with(|| {
                vec![NodeCondition { type_: "Ready".into(), status: "True".into(), ..NodeCondition::default() }]
            });
        }
        node
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        && !taints.any(|taint| taint.key == NOT_READY)
}
