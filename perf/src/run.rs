//! One run: a fresh cluster, one scheduler, one load.

use std::{
    collections::BTreeMap, convert::Infallible, fs, num::NonZero, path::PathBuf, process::Command,
    thread::available_parallelism, time::Duration,
};

use anyhow::Context as _;
use flotilla_control_plane::Component;
use tokio::time::{Instant, interval};

use crate::{
    cluster::Cluster,
    controllers,
    facts::Facts,
    measured::{Latency, Measured, Rate},
    placements::misplaced,
    programs::Programs,
    schedulers::Scheduler,
    shape::{Shape, Size},
    usage::{Usage, Usages, between, machine_cpu_s, usages},
};

const WARM_PODS: u32 = 100;
/// Timeout of these pods.
const WARM_TIMEOUT: Duration = Duration::from_secs(120);
const PROGRESS_PAUSE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) shape: Shape,
    pub(crate) size: Size,
    pub(crate) round: u32,
    pub(crate) scheduler: Scheduler,
    pub(crate) workers: u32,
    pub(crate) timeout: Duration,
    pub(crate) data_in: Option<PathBuf>,
    pub(crate) heading: String,
}

impl Plan {
    pub(crate) async fn run(&self, programs: &Programs) -> anyhow::Result<Measured> {
        let began = Instant::now();
        let cluster = Cluster::start(self.data_in.clone()).await?;
        self.tell(&format!("logs are in {}", cluster.control_plane.processes().logs().display()));
        let servers = [Component::Etcd, Component::ApiServer].map(|component| component.name().to_owned());
        cluster.run("client-fill", self.client(programs, &cluster, "fill"), &servers).await?;
        let filled = began.elapsed();
        let scheduler = self.scheduler.start(&cluster, programs, self.workers).await?;
        let mut all = [servers.as_slice(), &scheduler].concat();
        if self.shape.needs_controllers() {
            controllers::start(&cluster)?;
            all.push(controllers::NAME.to_owned());
        }
        self.warm(&cluster, programs, &all).await?;
        let (fill_s, ready_s) = (filled.as_secs_f64(), (began.elapsed() - filled).as_secs_f64());
        self.tell(&format!("cluster filled after {fill_s:.1} s, scheduler ready after {ready_s:.1} s more"));
        self.measure(&cluster, programs, &all).await
    }

    async fn warm(&self, cluster: &Cluster, programs: &Programs, others: &[String]) -> anyhow::Result<()> {
        let mut command = Command::new(&programs.load);
        command.arg("warm").arg("--kubeconfig").arg(&cluster.kubeconfig);
        command.arg(format!("--pods={WARM_PODS}")).arg(format!("--timeout={}s", WARM_TIMEOUT.as_secs()));
        let warm = cluster.run("client-warm", command, others).await;
        let tail = || {
            others.iter().map(|name| cluster.control_plane.processes().log_tail(name, 10) + "\n").collect::<String>()
        };
        warm.with_context(tail)?;
        cluster.settle().await.map(drop)
    }

    async fn measure(&self, cluster: &Cluster, programs: &Programs, others: &[String]) -> anyhow::Result<Measured> {
        let processes = cluster.control_plane.processes();
        let ids = others.iter().map(|name| Ok((name.clone(), processes.id(name)?)));
        let ids: BTreeMap<String, u32> = ids.collect::<anyhow::Result<_>>()?;
        let facts = cluster.control_plane.folder().join("facts.jsonl");
        let mut command = self.client(programs, cluster, "measure");
        command.arg("--facts").arg(&facts);
        let counts = cluster.counts().await?;
        let (began, machine, before) = (Instant::now(), machine_cpu_s()?, usages(&ids)?);
        tokio::select! {
            done = cluster.run("client", command, others) => done?,
            never = self.tell_of_progress(cluster) => match never {},
        }
        let settled = cluster.settle().await?;
        let (machine, after, took) = (machine_cpu_s()? - machine, usages(&ids)?, began.elapsed());
        let counts = cluster.counts().await?.since(&counts);
        let facts = Facts::read(&facts)?;
        let processes = with_client(between(&before, &after), &facts);
        Ok(Measured {
            shape: self.shape,
            size: self.size,
            round: self.round,
            scheduler: self.scheduler,
            rate: Rate::of(&facts),
            latency: Latency::of(&facts),
            elsewhere: elsewhere(machine, &processes, took),
            processes,
            requests: counts.rows(),
            settle_s: settled.as_secs_f64(),
            misplaced: if self.scheduler.decides_nothing() {
                Vec::new()
            } else {
                misplaced(self.shape, self.size, &facts)
            },
        })
    }

    fn client(&self, programs: &Programs, cluster: &Cluster, stage: &str) -> Command {
        let Size { nodes, standing, pods, rate } = self.size;
        let mut command = Command::new(&programs.load);
        command.arg(stage).arg("--kubeconfig").arg(&cluster.kubeconfig);
        command.arg(format!("--shape={}", self.shape.name())).arg(format!("--nodes={nodes}"));
        command.arg(format!("--standing={standing}")).arg(format!("--pods={pods}")).arg(format!("--rate={rate}"));
        command.arg(format!("--timeout={}s", self.timeout.as_secs()));
        command
    }

    /// Prints the last line of the client's log periodically.
    async fn tell_of_progress(&self, cluster: &Cluster) -> Infallible {
        let mut pauses = interval(PROGRESS_PAUSE);
        pauses.tick().await;
        loop {
            pauses.tick().await;
            let log = fs::read_to_string(cluster.control_plane.processes().log_path("client")).unwrap_or_default();
            if let Some(line) = log.lines().last() {
                self.tell(line);
            }
        }
    }

    fn tell(&self, what: &str) {
        eprintln!("perf: {}: {what}", self.heading);
    }
}

fn elsewhere(machine_cpu_s: f64, processes: &Usages, took: Duration) -> f64 {
    let ours: f64 = processes.values().map(|usage| usage.cpu_s).sum();
    let cores = available_parallelism().map_or(1, NonZero::get);
    ((machine_cpu_s - ours) / (took.as_secs_f64() * cores as f64)).max(0.0)
}

fn with_client(mut processes: Usages, facts: &Facts) -> Usages {
    let usage = Usage { cpu_s: facts.client_cpu_s, ..Usage::default() };
    processes.insert("client".to_owned(), usage);
    processes
}
