//! Checks commits, restarts ended processes, and logs events during a run.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fs::File,
    io::{BufWriter, Write as _},
    os::unix::process::ExitStatusExt as _,
    process::ExitStatus,
    sync::Mutex,
    time::Duration,
};

use anyhow::{Context as _, bail};
use flotilla_control_plane::{Component, wait_until};
use k8s_openapi::api::core::v1::Node;
use serde_json::json;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};

use super::{
    Run,
    audit::Audit,
    faults::{FaultOutcome, Faults},
    history::History,
    load,
    plan::{COORDINATORS, Planned, WORKERS},
    scene::{Scene, locked},
    store::Commit,
};
use crate::metrics::Family;

const PAUSE: Duration = Duration::from_millis(250);
/// Minimum time between two starts of a process.
const BETWEEN_STARTS: Duration = Duration::from_secs(1);
const PANICKED: i32 = 101;
/// Signals of injected faults: SIGKILL and SIGTERM.
const OURS: [i32; 2] = [9, 15];

/// Value of a metric with one sample.
pub(super) fn value(page: &BTreeMap<String, Family>, name: &str) -> Option<f64> {
    page.get(name)?.sum(name, &[])
}

pub(super) struct Watch<'a> {
    pub(super) scene: &'a Scene<'a>,
    pub(super) history: Mutex<History>,
    faults: &'a Faults<'a>,
    began: Instant,
    journal: Mutex<File>,
    commits: Mutex<BufWriter<File>>,
    wrong: Mutex<Vec<String>>,
    ends: Mutex<BTreeMap<String, usize>>,
    started: Mutex<BTreeMap<String, Instant>>,
    /// Maximum of pods flushed without an event, summed over each coordinator's restarts.
    flushed: Mutex<f64>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(scene: &'a Scene<'a>, faults: &'a Faults<'a>, nodes: &[Node]) -> anyhow::Result<Self> {
        let create = |name: &str| {
            let path = scene.cluster.folder().join(name);
            File::create(&path).with_context(|| format!("cannot write {}", path.display()))
        };
        Ok(Self {
            scene,
            history: Mutex::new(History::new(nodes)),
            faults,
            began: Instant::now(),
            journal: Mutex::new(create("chaos.log")?),
            commits: Mutex::new(BufWriter::new(create("commits.jsonl")?)),
            wrong: Mutex::default(),
            ends: Mutex::default(),
            started: Mutex::default(),
            flushed: Mutex::default(),
        })
    }

    /// Prints a line, and writes it to the journal.
    pub(super) fn tell(&self, what: &str) {
        let line = format!("chaos: {:7.1} s: {what}", self.began.elapsed().as_secs_f64());
        eprintln!("{line}");
        // It is printed anyway.
        drop(writeln!(locked(&self.journal), "{line}"));
    }

    pub(super) fn is_wrong(&self, what: String) {
        self.tell(&format!("WRONG: {what}"));
        locked(&self.wrong).push(what);
    }

    /// The error lists the violations.
    pub(super) fn is_sound(&self) -> anyhow::Result<()> {
        let wrong = locked(&self.wrong);
        if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("\n")) }
    }

    pub(super) async fn make(&self, number: usize, planned: Planned) -> anyhow::Result<FaultOutcome> {
        let (fault, lasts) = (planned.fault, planned.lasts.as_secs_f64());
        let begins = |who: &dyn std::fmt::Display| self.tell(&format!("fault {number}: {fault} ({who}), {lasts:.1} s"));
        let outcome = self.faults.carry_out(&planned, begins).await;
        match &outcome {
            Ok(FaultOutcome::Over) if planned.lasts.is_zero() => {}
            Ok(FaultOutcome::Over) => self.tell(&format!("fault {number} is over")),
            Ok(FaultOutcome::Left(why)) => self.tell(&format!("fault {number}: {fault}: left out, {why}")),
            Err(error) => self.tell(&format!("fault {number}: {fault}: {error:#}")),
        }
        outcome.with_context(|| format!("fault {number}: {fault}"))
    }

    /// Checks and journals commits as they arrive.
    pub(super) async fn take_in(&self, mut commits: mpsc::UnboundedReceiver<Commit>) -> anyhow::Result<()> {
        let mut told = 0;
        while let Some(commit) = commits.recv().await {
            writeln!(locked(&self.commits), "{}", line(&commit)).context("cannot keep the commits")?;
            let wrong: Vec<String> = {
                let mut history = locked(&self.history);
                history.apply(&commit);
                history.wrong()[told..].to_vec()
            };
            told += wrong.len();
            wrong.into_iter().for_each(|what| self.is_wrong(what));
            if commits.is_empty() {
                locked(&self.commits).flush().context("cannot keep the commits")?;
            }
        }
        Ok(())
    }

    /// Restarts ended processes, until a start fails.
    pub(super) async fn supervise(&self) -> anyhow::Result<()> {
        let processes = self.scene.cluster.processes();
        loop {
            for name in self.scene.names() {
                let status = processes.exit_status(&name)?;
                if let Some(status) = status.filter(|_| !self.faults.is_kept_down(&name) && self.may_start(&name)) {
                    self.ended(&name, status);
                    self.scene.start_process(&name)?;
                }
            }
            for component in [Component::ControllerManager, Component::Kwok] {
                if let Some(status) = processes.exit_status(component.name())? {
                    self.tell(&format!("{} ended with {status} and is started again", component.name()));
                    self.scene.cluster.restart(component).await?;
                }
            }
            sleep(PAUSE).await;
        }
    }

    fn may_start(&self, name: &str) -> bool {
        let (now, mut started) = (Instant::now(), locked(&self.started));
        let may = started.get(name).is_none_or(|last| now - *last >= BETWEEN_STARTS);
        if may {
            started.insert(name.to_owned(), now);
        }
        may
    }

    fn ended(&self, name: &str, status: ExitStatus) {
        self.tell(&format!("{name} ended with {status} and is started again"));
        let role = name.split('-').next().unwrap_or(name);
        *locked(&self.ends).entry(format!("{role}: {status}")).or_default() += 1;
        if status.code() == Some(PANICKED) || status.signal().is_some_and(|signal| !OURS.contains(&signal)) {
            self.is_wrong(format!("{name} ended with {status}\n{}", self.scene.cluster.processes().log_tail(name, 20)));
        }
    }

    /// Tracks the leader, and collects violations that coordinators report.
    pub(super) async fn look_at_coordinators(&self) -> Infallible {
        loop {
            let pages = self.scene.pages().await;
            for (number, page) in pages.iter().enumerate() {
                let Some(page) = page else { continue };
                if value(page, "flotilla_leading") == Some(1.0) {
                    self.faults.set_leader(number);
                }
                if let Some(count) = value(page, "flotilla_invariant_violations_total").filter(|count| *count > 0.0) {
                    let name = &self.scene.coordinators[number].name;
                    if self.is_sound().is_ok() {
                        self.is_wrong(format!("{name} counts {count} broken invariants; its log names them"));
                    }
                }
                let flushed = value(page, "flotilla_flushed_total").unwrap_or_default();
                let mut most = locked(&self.flushed);
                *most = most.max(flushed);
            }
            sleep(PAUSE).await;
        }
    }

    pub(super) async fn tell_of_progress(&self, pause: Duration) -> Infallible {
        loop {
            sleep(pause).await;
            let line = {
                let history = locked(&self.history);
                let (bound, over) = history.pods().fold((0, 0), |(bound, over), pod| {
                    (bound + usize::from(pod.node.is_some()), over + usize::from(pod.over))
                });
                let (waiting, asked, evictions) = (history.waiting(), history.asked_percent(), history.evictions());
                format!(
                    "coordinator-{} leads; {bound} pods bound, {over} gone, {waiting} wait, {asked} % of the CPU asked for; \
                     {evictions}",
                    self.faults.leader()
                )
            };
            self.tell(&line);
        }
    }

    /// Waits until one coordinator leads with all workers, and all caches are synced.
    pub(super) async fn all_are_ready(&self, patience: Duration) -> anyhow::Result<()> {
        wait_until("a leader with all workers", patience, async || {
            let pages = self.scene.pages().await;
            let know = |page: &&BTreeMap<String, Family>| value(page, "flotilla_nodes") == Some(load::NODES as f64);
            let known = pages.iter().flatten().filter(know).count();
            let ready: f64 = pages.iter().flatten().filter_map(|page| value(page, "flotilla_workers_ready")).sum();
            if known == COORDINATORS && ready >= WORKERS as f64 {
                Ok(())
            } else {
                Err(format!("{known} coordinators know all nodes, {ready} workers are ready"))
            }
        })
        .await
        .with_context(|| {
            let processes = self.scene.cluster.processes();
            self.scene.names().iter().map(|name| processes.log_tail(name, 10) + "\n").collect::<String>()
        })
    }

    pub(super) fn panics(&self) -> Vec<String> {
        let processes = self.scene.cluster.processes();
        let mut found = Vec::new();
        for name in self.scene.names() {
            let log = processes.log(&name).unwrap_or_default();
            found.extend(log.lines().filter(|line| line.contains("panicked at")).map(|line| format!("{name}: {line}")));
        }
        found
    }

    pub(super) fn report(&self, run: Run, faults: usize, failed: usize, audit: &Audit) -> String {
        let history = locked(&self.history);
        let bound = history.pods().filter(|pod| pod.node.is_some()).count();
        let counts = |counts: &BTreeMap<String, usize>| {
            counts.iter().map(|(what, count)| format!("{what}: {count}")).collect::<Vec<_>>().join(", ")
        };
        [
            format!(
                "chaos: seed {}, {} s: {faults} faults; {} pods created, {bound} bound once each, {} wait without room; no node \
                 was over its capacity at any of the commits up to {}; {}",
                run.seed,
                run.lasts.as_secs(),
                history.pods().count(),
                history.waiting(),
                history.revision(),
                history.evictions(),
            ),
            format!("bindings by the audit log: {}", counts(&audit.binders)),
            format!("requests of coordinators that were refused: {}", counts(&audit.refused)),
            format!("processes that were started again: {}", counts(&locked(&self.ends))),
            format!("requests of the load that failed: {failed}"),
            format!("pods that no event woke in time, by one coordinator at most: {}", *locked(&self.flushed)),
        ]
        .join("\n")
    }
}

fn line(commit: &Commit) -> String {
    let pod = commit.pod.as_deref();
    let status = pod.and_then(|pod| pod.status.as_ref());
    json!({
        "revision": commit.revision,
        "name": commit.name,
        "uid": pod.and_then(|pod| pod.metadata.uid.as_ref()),
        "node": pod.and_then(|pod| pod.spec.as_ref()?.node_name.as_ref()),
        "nominated": status.and_then(|status| status.nominated_node_name.as_ref()),
        "conditions": status.and_then(|status| status.conditions.as_ref()),
        "phase": status.and_then(|status| status.phase.as_ref()),
        "deletion": pod.and_then(|pod| pod.metadata.deletion_timestamp.as_ref()),
        "requests": pod.and_then(|pod| pod.spec.as_ref()?.containers.first()?.resources.as_ref()?.requests.as_ref()),
        "gone": pod.is_none(),
    })
    .to_string()
}
