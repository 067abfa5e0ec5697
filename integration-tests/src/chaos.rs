//! Random faults of real processes under load: the control plane, three coordinators and four workers.
//!
//! A seed determines the faults, their order, pauses and durations. Which request a fault hits depends on the machine. So runs with the
//! same seed are similar, and reproduce failures that do not depend on milliseconds.
//!
//! Safety is checked at every commit, independent of time. Liveness is checked after all faults have ended.

mod audit;
mod faults;
mod gate;
mod history;
mod link;
mod load;
mod plan;
mod quiet;
mod scene;
mod store;
mod watch;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use flotilla_control_plane::{ControlPlane, wait_until};
use futures::{StreamExt as _, stream::FuturesUnordered};
use kube::ResourceExt as _;
use tokio::{
    pin,
    sync::mpsc,
    time::{Instant, sleep, sleep_until},
};

use self::{
    audit::Audit,
    faults::{FaultOutcome, Faults},
    load::Load,
    plan::{COORDINATORS, Plan},
    quiet::fitting,
    scene::{Scene, locked},
    watch::Watch,
};
use crate::{census::Census, fleet::node_of};

/// Maximum time to bind all feasible pods after the faults: a lease has to expire, and the longest backoff is ten seconds. A busy machine
/// took 165 s.
const QUIET_PATIENCE: Duration = Duration::from_secs(600);
const START_PATIENCE: Duration = Duration::from_secs(120);
const PROGRESS_PAUSE: Duration = Duration::from_secs(15);

/// A run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Duration of fault injection.
    pub lasts: Duration,
    /// Seed of the faults.
    pub seed: u64,
}

impl Run {
    /// Runs it, and returns the report.
    ///
    /// # Errors
    /// Violations, and the location of the logs.
    pub async fn play(self) -> anyhow::Result<String> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let kept = here.parent().unwrap_or(here).join("target/chaos").join(format!("seed-{}", self.seed));
        if kept.exists() {
            fs::remove_dir_all(&kept).with_context(|| format!("cannot empty {}", kept.display()))?;
        }
        eprintln!("chaos: seed {}, faults for {} s", self.seed, self.lasts.as_secs());
        let cluster = scene::control_plane().await?;
        let played = Box::pin(self.play_on(&cluster)).await;
        played.inspect_err(|_| keep(cluster.folder(), &kept)).with_context(|| {
            let minutes = self.lasts.as_secs().div_ceil(60);
            let again = format!("cargo xtask chaos --minutes {minutes} --seed {}", self.seed);
            format!("chaos failed; its logs are in {}; again with: {again}", kept.display())
        })
    }

    async fn play_on(self, cluster: &ControlPlane) -> anyhow::Result<String> {
        let nodes = load::stored_nodes(cluster).await?;
        let scene = Scene::start(cluster, self.seed).await?;
        let faults = Faults::new(&scene);
        let watch = Watch::new(&scene, &faults, &nodes)?;
        let (send, receive) = mpsc::unbounded_channel();
        let follow = async { store::follow(cluster, send).await.context("the commits of pods cannot be followed") };
        tokio::select! {
            told = self.course(&watch) => told,
            ended = follow => ended.and_then(|()| anyhow::bail!("the receiver of commits has ended")),
            ended = watch.take_in(receive) => ended.map(|()| String::new()),
            ended = watch.supervise() => ended.map(|()| String::new()),
            never = watch.look_at_coordinators() => match never {},
            never = watch.tell_of_progress(PROGRESS_PAUSE) => match never {},
        }
    }

    async fn course(self, watch: &Watch<'_>) -> anyhow::Result<String> {
        watch.all_are_ready(START_PATIENCE).await?;
        watch.tell("all processes are ready; the load and the faults begin");
        let until = Instant::now() + self.lasts;
        let mut load = Load::new(watch.scene.cluster, &watch.history, self.seed);
        let users = async {
            load.run(until).await;
            Ok(())
        };
        let (made, ()) = tokio::try_join!(self.make_faults(watch, until), users)?;
        watch.is_sound()?;
        watch.tell("the faults are over; every third pod goes, and all that waits and fits must land");
        let began = Instant::now();
        load.shake().await;
        watch.settled(QUIET_PATIENCE).await?;
        let took = began.elapsed().as_secs_f64();
        watch.tell(&format!("nothing waits that fits, after {took:.1} s"));
        let audit = watch.verdict().await?;
        Ok(watch.report(self, made, load.failed, &audit))
    }

    /// Injects one fault after the other. Returns their number when the last one has ended.
    async fn make_faults(self, watch: &Watch<'_>, until: Instant) -> anyhow::Result<usize> {
        let (mut made, mut under_way) = (0, FuturesUnordered::new());
        for (number, planned) in (1..).zip(Plan::new(self.seed)) {
            let begins = Instant::now() + planned.after;
            if begins >= until || watch.is_sound().is_err() {
                break;
            }
            let pause = sleep_until(begins);
            pin!(pause);
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    Some(outcome) = under_way.next(), if !under_way.is_empty() => made += count(outcome)?,
                }
            }
            under_way.push(watch.make(number, planned));
        }
        while let Some(outcome) = under_way.next().await {
            made += count(outcome)?;
        }
        Ok(made)
    }
}

fn count(outcome: anyhow::Result<FaultOutcome>) -> anyhow::Result<usize> {
    outcome.map(|outcome| usize::from(outcome == FaultOutcome::Over))
}

/// Copies logs. A failure is only printed, so that it does not hide the cause of a failed run.
fn keep(folder: &Path, to: &Path) {
    let copied = || -> std::io::Result<()> {
        fs::create_dir_all(to.join("logs"))?;
        for (from, to) in [(folder.to_owned(), to.to_owned()), (folder.join("logs"), to.join("logs"))] {
            for entry in fs::read_dir(from)? {
                let path: PathBuf = entry?.path();
                if let Some(name) = path.file_name().filter(|_| path.is_file()) {
                    fs::copy(&path, to.join(name))?;
                }
            }
        }
        Ok(())
    };
    if let Err(error) = copied() {
        eprintln!("chaos: cannot keep all of {} in {}: {error}", folder.display(), to.display());
    }
}

impl Watch<'_> {
    /// Waits until no feasible pod is pending, and all commits are checked.
    async fn settled(&self, patience: Duration) -> anyhow::Result<()> {
        wait_until("all pods that fit to land", patience, async || {
            self.is_sound().map_err(|error| format!("{error:#}"))?;
            let census = Census::take(self.scene.cluster).await.map_err(|error| format!("{error:#}"))?;
            match &fitting(&census)[..] {
                [] => self.has_seen(&census),
                [first, ..] => Err(first.clone()),
            }
        })
        .await?;
        self.is_sound()
    }

    /// Whether the checked commits lead to the current state.
    fn has_seen(&self, census: &Census) -> Result<(), String> {
        let history = locked(&self.history);
        let is_seen = |uid: Option<String>, node: Option<&str>| {
            uid.and_then(|uid| history.pod(&uid)).is_some_and(|seen| !seen.over && seen.node.as_deref() == node)
        };
        let unseen = census.pods.iter().find(|pod| !is_seen(pod.uid(), node_of(pod)));
        match unseen {
            Some(pod) => Err(format!("the commits do not lead to the current state of {}", pod.name_any())),
            None => Ok(()),
        }
    }

    /// Final checks of the objects and the audit log.
    async fn verdict(&self) -> anyhow::Result<Audit> {
        let census = Census::take(self.scene.cluster).await?;
        let audit = Audit::read(&self.scene.cluster.audit_log())?;
        let mut wrong = census.overfull();
        wrong.extend(audit.wrong(&locked(&self.history)));
        wrong.extend(self.panics());
        self.all_answer(COORDINATORS).await?;
        wrong.into_iter().for_each(|line| self.is_wrong(line));
        self.is_sound()?;
        Ok(audit)
    }

    async fn all_answer(&self, count: usize) -> anyhow::Result<()> {
        wait_until("all coordinators to answer and one to lead", QUIET_PATIENCE, async || {
            sleep(Duration::from_millis(200)).await;
            let pages = self.scene.pages().await;
            let known =
                pages.iter().flatten().filter(|page| watch::value(page, "flotilla_synced") == Some(1.0)).count();
            let lead =
                pages.iter().flatten().filter(|page| watch::value(page, "flotilla_leading") == Some(1.0)).count();
            if known == count && lead == 1 { Ok(()) } else { Err(format!("{known} know the cluster, {lead} lead")) }
        })
        .await
    }
}
