//! A control plane, three coordinators and four workers, with proxies between all of them.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use flotilla_control_plane::{AuditLevel, Component, ControlPlane, Options};
use flotilla_transport::{Authority, Role};
use futures::future::join_all;
use tokio::time::timeout;

use super::{
    audit,
    gate::Gate,
    link::Link,
    load,
    plan::{COORDINATORS, WORKERS},
    store,
};
use crate::{
    certificates::issue,
    fleet::{Fleet, profile},
    metrics::{Family, parse},
};

/// Long enough for a busy machine, and shorter than the longest faults.
const ELECTION: [&str; 3] =
    ["--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=1s"];
/// Ignoring SIGXFSZ makes a write beyond the limit an error, as on a full disk, instead of ending the process.
const LAUNCHER: [&str; 3] = ["/bin/sh", "-c", r#"trap "" XFSZ; exec "$0" "$@""#];
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) struct Coordinator<'a> {
    pub(super) name: String,
    pub(super) gate: Gate,
    pub(super) to_api_server: Link,
    pub(super) to_workers: Vec<Link>,
    fleet: Mutex<Fleet<'a>>,
}

pub(super) struct Scene<'a> {
    pub(super) cluster: &'a ControlPlane,
    pub(super) coordinators: Vec<Coordinator<'a>>,
    workers: Fleet<'a>,
    config: PathBuf,
    authority: Mutex<Arc<Authority>>,
}

pub(super) fn worker(number: usize) -> String {
    format!("worker-{number}")
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A control plane with nodes, an audit log with request bodies, and readable objects in etcd.
pub(super) async fn control_plane() -> anyhow::Result<ControlPlane> {
    let mut options = Options::default().with_audit(AuditLevel::Request);
    // One large file: the default starts a second one after a hundred megabytes.
    for flag in [store::STORED_AS_JSON, "--audit-log-maxsize=100000"] {
        options = options.with_arg(Component::ApiServer, flag);
    }
    let cluster = ControlPlane::start(options).await?;
    load::create_classes(&cluster).await?;
    cluster.add_nodes(load::nodes()).await?;
    Ok(cluster)
}

impl<'a> Scene<'a> {
    /// Starts all processes without waiting.
    pub(super) async fn start(cluster: &'a ControlPlane, seed: u64) -> anyhow::Result<Self> {
        let launcher = LAUNCHER.map(str::to_owned);
        let mut workers = Fleet::new(cluster).launched_by(launcher.clone());
        let folders = [Role::Coordinator, Role::Worker].map(|role| (role, workers.certificates(role)));
        let authority = Mutex::new(Arc::new(issue(&folders)?));
        let config = workers.config(&profile(load::SCHEDULER))?;
        for number in 0..WORKERS {
            workers.reserve(&worker(number))?;
        }
        let mut coordinators = Vec::new();
        for number in 0..COORDINATORS {
            let seed = seed.wrapping_add(number as u64);
            coordinators.push(Coordinator::before_start(cluster, &workers, number, seed).await?);
        }
        let scene = Self { cluster, coordinators, workers, config, authority };
        for name in scene.names() {
            scene.start_process(&name)?;
        }
        Ok(scene)
    }

    pub(super) fn names(&self) -> Vec<String> {
        let coordinators = self.coordinators.iter().map(|coordinator| coordinator.name.clone());
        (0..WORKERS).map(worker).chain(coordinators).collect()
    }

    pub(super) fn start_process(&self, name: &str) -> anyhow::Result<()> {
        match self.coordinators.iter().find(|coordinator| coordinator.name == name) {
            Some(coordinator) => locked(&coordinator.fleet).start_coordinator(name, Some(&self.config)),
            None => self.workers.start_worker(name),
        }
    }

    pub(super) fn authority(&self) -> Arc<Authority> {
        Arc::clone(&locked(&self.authority))
    }

    pub(super) fn set_authority(&self, authority: Arc<Authority>) {
        *locked(&self.authority) = authority;
    }

    pub(super) fn certificates(&self, role: Role) -> PathBuf {
        self.workers.certificates(role)
    }

    pub(super) async fn pages(&self) -> Vec<Option<BTreeMap<String, Family>>> {
        join_all(self.coordinators.iter().map(async |coordinator| {
            let url = locked(&coordinator.fleet).url(&coordinator.name).ok()?;
            let page = timeout(PATIENCE, self.cluster.get_from(&url, "metrics")).await.ok()?.ok()?;
            Some(parse(&page))
        }))
        .await
    }
}

impl<'a> Coordinator<'a> {
    async fn before_start(
        cluster: &'a ControlPlane,
        workers: &Fleet<'a>,
        number: usize,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let name = format!("coordinator-{number}");
        let gate = Gate::start(cluster, &format!("{}{number}", audit::USERS), seed).await?;
        let to_api_server = Link::start(gate.port()).await?;
        let url = format!("https://127.0.0.1:{}", to_api_server.port());
        // The gate does not authenticate clients.
        let kubeconfig = cluster.kubeconfig_at(&url, &name, None)?;
        let (certificate, key) = cluster.serving_certificate();
        let serving =
            [format!("--tls-cert-file={}", certificate.display()), format!("--tls-private-key-file={}", key.display())];
        let launcher = LAUNCHER.map(str::to_owned);
        let fleet = Fleet::new(cluster).electing(ELECTION).launched_by(launcher).speaking_as(kubeconfig);
        let mut fleet = fleet.with_args(serving);
        let mut to_workers = Vec::new();
        for number in 0..WORKERS {
            let address = workers.worker_address(&worker(number))?;
            let port = address.rsplit(':').next().and_then(|port| port.parse().ok());
            let link = Link::start(port.with_context(|| format!("the port of {address}"))?).await?;
            fleet = fleet.with_worker_at(&worker(number), link.port());
            to_workers.push(link);
        }
        Ok(Self { name, gate, to_api_server, to_workers, fleet: Mutex::new(fleet) })
    }
}
