//! A real node: containerd and a kubelet that run real containers, beside a control plane.
//!
//! Knows: in which order a node is put together. Must not know: what runs on it.
//!
//! All of it is in a room, which is namespaces of its own: see [`room`]. A test has two parts. The outer one looks whether
//! the host can ([`host::lacking`]), builds ([`Outfit::build`]) and enters ([`room::enter`]); the inner one runs in the room
//! and starts a control plane and a [`Node`].

mod containerd;
mod door;
pub mod flotilla;
pub mod host;
mod images;
mod kubelet;
pub mod room;

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use flotilla_control_plane::{ControlPlane, wait_until};
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::Api;

pub use images::{FLOTILLA_IMAGE, PAUSE_IMAGE};

use containerd::Containerd;

/// The node's name in the cluster.
pub const NAME: &str = "real";

/// A label that no other node has.
pub const LABEL: (&str, &str) = ("flotilla.test/real", "true");

/// Starting takes seconds; a machine with other work takes longer.
const START_TIMEOUT: Duration = Duration::from_secs(180);

/// All that has to be built before a room is entered: there is no network in it.
#[derive(Debug)]
pub struct Outfit {
    programs: PathBuf,
    images: images::Images,
}

impl Outfit {
    /// Builds what is missing. The first time takes many minutes.
    ///
    /// # Errors
    /// Where something does not build.
    pub fn build() -> anyhow::Result<Self> {
        let programs = flotilla_test_programs::node()?;
        programs.iter().try_for_each(crate::build)?;
        let [kubelet, _] = programs;
        Ok(Self { programs: kubelet.into, images: images::build()? })
    }
}

/// A node that has joined a cluster. Its processes end with those of the cluster, its containers with the room.
#[derive(Debug)]
pub struct Node {
    containerd: Containerd,
}

impl Node {
    /// Starts containerd and the kubelet, with both images, and waits until the node is Ready. To be called in a room.
    ///
    /// The cluster's Service `kubernetes` leads to its API server from then on, as kube-proxy would make it.
    ///
    /// # Errors
    /// Where one of them does not start; with its last lines.
    pub async fn start(cluster: &ControlPlane) -> anyhow::Result<Self> {
        let folder = room::folder()?;
        door::open(room::SERVICE_ADDRESS, &cluster.url()).await?;
        let containerd = Containerd::start(cluster, &folder).await?;
        for image in [room::FLOTILLA_ARCHIVE, room::PAUSE_ARCHIVE] {
            containerd.import(&folder.join(image))?;
        }
        kubelet::start(cluster, &folder)?;
        let nodes: Api<NodeObject> = Api::all(cluster.client());
        let ready = wait_until("the real node to be ready", START_TIMEOUT, async || {
            if let Some(status) =
                cluster.processes().exit_status(kubelet::PROCESS).map_err(|error| error.to_string())?
            {
                return Err(format!("the kubelet ended with {status}"));
            }
            let node = nodes.get(NAME).await.map_err(|error| error.to_string())?;
            let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
            let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready");
            match ready {
                Some(condition) if condition.status == "True" => Ok(()),
                Some(condition) => Err(condition.message.unwrap_or_default()),
                None => Err("the kubelet has said nothing".to_owned()),
            }
        });
        ready.await.with_context(|| {
            [containerd::PROCESS, kubelet::PROCESS].map(|name| cluster.processes().log_tail(name, 30)).join("\n")
        })?;
        Ok(Self { containerd })
    }

    /// Ends a container at once, as a crash would. `id` is as a pod's status has it, with the runtime before it.
    ///
    /// # Errors
    /// Where there is no such container.
    pub fn kill_container(&self, id: &str) -> anyhow::Result<()> {
        self.containerd.kill(id.trim_start_matches("containerd://"))
    }
}
