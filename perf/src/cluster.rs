//! A fresh etcd and API server for one run.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, bail};
use flotilla_control_plane::{Component, ControlPlane, Options, wait_until};
use tokio::time::{Instant, sleep};

use crate::{requests::Counts, schedulers::POLL};

const MEMORY: &str = "/dev/shm";

/// etcd keeps all revisions for at least five minutes, until they are compacted: 10,000 nodes and pods with four writes each of at most 4
/// KB are 160 MB. Ten times that suffices for 100,000 pods.
const ROOM_BYTES: u64 = 2 << 30;

const TAIL_LINES: usize = 20;

const SETTLE_PAUSE: Duration = Duration::from_secs(1);
/// Maximum wait for the last events: client-go drops an event after two minutes.
const SETTLE_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) control_plane: ControlPlane,
    /// Kubeconfig of an administrator, for all clients: API priority and fairness exempts administrators.
    pub(crate) kubeconfig: PathBuf,
}

pub(crate) fn data_folder(asked: Option<&Path>) -> Option<PathBuf> {
    let memory = || {
        let room = rustix::fs::statvfs(MEMORY).ok()?;
        let free = room.f_bavail.saturating_mul(room.f_frsize);
        (free >= ROOM_BYTES).then(|| PathBuf::from(MEMORY))
    };
    asked.map(Path::to_owned).or_else(memory)
}

impl Cluster {
    pub(crate) async fn start(data_in: Option<PathBuf>) -> anyhow::Result<Self> {
        let options = Options { controller_manager: false, kwok: false, folder_in: data_in, ..Options::default() };
        let control_plane = ControlPlane::start(options).await?;
        let kubeconfig = control_plane.kubeconfig_for("flotilla:perf", Some("system:masters"))?;
        Ok(Self { control_plane, kubeconfig })
    }

    /// Runs a program until it exits. Fails if a process of `others` exits in the meantime.
    pub(crate) async fn run(&self, name: &str, command: Command, others: &[String]) -> anyhow::Result<()> {
        let processes = self.control_plane.processes();
        processes.spawn(name, command)?;
        loop {
            if let Some(status) = processes.exit_status(name)? {
                if !status.success() {
                    bail!("{name} failed ({status})\n{}", processes.log_tail(name, TAIL_LINES));
                }
                return Ok(());
            }
            self.check(others)?;
            sleep(POLL).await;
        }
    }

    /// Fails if one of these processes has exited.
    pub(crate) fn check(&self, names: &[String]) -> anyhow::Result<()> {
        let processes = self.control_plane.processes();
        for name in names {
            if let Some(status) = processes.exit_status(name)? {
                bail!("{name} ended with {status}\n{}", processes.log_tail(name, TAIL_LINES));
            }
        }
        Ok(())
    }

    pub(crate) async fn counts(&self) -> anyhow::Result<Counts> {
        let page = self.control_plane.get(Component::ApiServer, "metrics").await;
        page.map(|page| Counts::parse(&page)).context("cannot read the metrics of the API server")
    }

    /// Waits until writes cease, such as events of bound pods, and returns the duration.
    pub(crate) async fn settle(&self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let mut writes = self.counts().await?.writes();
        let mut last_change = began;
        while began.elapsed() < SETTLE_LIMIT {
            sleep(SETTLE_PAUSE).await;
            let now = self.counts().await?.writes();
            if now == writes && last_change.elapsed() >= SETTLE_PAUSE * 2 {
                break;
            }
            if now != writes {
                last_change = Instant::now();
            }
            writes = now;
        }
        Ok(last_change - began)
    }

    pub(crate) async fn wait_for(
        &self,
        process: &str,
        base: &str,
        path: &str,
        answer: impl Fn(&str) -> bool,
    ) -> anyhow::Result<()> {
        let names = [process.to_owned()];
        let what = format!("{process} to be ready");
        let ended = wait_until(&what, Duration::from_secs(60), async || {
            if let Err(error) = self.check(&names) {
                return Ok(Err(error));
            }
            match self.control_plane.get_from(base, path).await {
                Ok(text) if answer(&text) => Ok(Ok(())),
                Ok(_) => Err(format!("{path} does not report readiness yet")),
                Err(error) => Err(format!("{error:#}")),
            }
        });
        let tail = || self.control_plane.processes().log_tail(process, TAIL_LINES);
        ended.await.with_context(tail)?
    }
}
