//! A real node: containerd and a kubelet that run containers.
//!
//! It runs in a room, separate namespaces: see [`room`]. A test has two parts. The outer part checks the host ([`host::lacking`]), builds
//! ([`Outfit::build`]) and enters the room ([`room::enter`]). The inner part runs in the room, and starts a control plane and a [`Node`].

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

/// Name of the node.
pub const NAME: &str = "real";

/// Label of this node only.
pub const LABEL: (&str, &str) = ("flotilla.test/real", "true");

/// Starting takes seconds, and longer on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(180);

/// Built before entering a room, which has no network.
#[derive(Debug)]
pub struct Outfit {
    programs: PathBuf,
    images: images::Images,
}

impl Outfit {
    /// Builds missing parts. The first time takes many minutes.
    ///
    /// # Errors
    /// A build fails.
    pub fn build() -> anyhow::Result<Self> {
        let programs = flotilla_test_programs::node()?;
        programs.iter().try_for_each(crate::build)?;
        let [kubelet, _] = programs;
        Ok(Self { programs: kubelet.into, images: images::build()? })
    }
}

/// A node in a cluster. Its processes end with the cluster, its containers with the room.
#[derive(Debug)]
pub struct Node {
    containerd: Containerd,
}

impl Node {
    /// Starts containerd and the kubelet with both images, and waits until the node is Ready. Must run in a room. Also forwards the Service
    /// `kubernetes` to the API server, instead of kube-proxy.
    ///
    /// # Errors
    /// A process does not start; contains the tail of its log.
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
                None => Err("the kubelet has not reported a status".to_owned()),
            }
        });
        ready.await.with_context(|| {
            [containerd::PROCESS, kubelet::PROCESS].map(|name| cluster.processes().log_tail(name, 30)).join("\n")
        })?;
        Ok(Self { containerd })
    }

    /// Kills a container. `id` is the container ID of the pod's status, including the runtime.
    ///
    /// # Errors
    /// The container does not exist.
    pub fn kill_container(&self, id: &str) -> anyhow::Result<()> {
        self.containerd.kill(id.trim_start_matches("containerd://"))
    }
}
