//! What the API server tells of pods, nodes and what they are judged by, as events for the machine.
//!
//! Knows: when the first lists are through, and how far behind the view may be. Must not know: how a list or a watch is
//! spoken (`source`), what is read from an object (`kinds`, `stored`, `flotilla_framework::ingest`), or what the
//! machine makes of it.
//!
//! The list and watch loop is our own, not kube-runtime's, for three reasons. That one keeps bookmarks to itself, so
//! nobody can tell how fresh the view is, which a new leader must know before it binds. It reads JSON only, and all of it.
//! And one object that does not decode would end the stream for all others.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use flotilla_framework::{extension, profile::Profile, registry::Registry};
use flotilla_machine::event::Event;
use flotilla_runtime::driver::{Handle, Stopped};
use kube::api::ListParams;
use tokio::{sync::watch, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::status::Reporter;

mod exchange;
mod kinds;
mod known;
mod needs;
mod newest;
mod sharing;
mod source;
mod stored;
mod trouble;

use kinds::{
    AllThat, Budgets, Namespaces, Nodes, PodGroups, Pods, ReplicaSet, ReplicationController, Service, StatefulSet,
};
pub use source::Tally;
use source::{Kind, Source};
use stored::{AllOf, ResourceClaim};

/// How long one attempt waits for the view to catch up with what the API server knew when it began. The answer to a watch that
/// is asked to hurry takes about two seconds in a cluster at rest, and none in a busy one.
const BARRIER: Duration = Duration::from_secs(5);

/// How long what the leader before says of its last write is waited for. A watch tells it within milliseconds.
const HANDOVER: Duration = Duration::from_secs(1);

/// What is to be watched.
#[derive(Debug, Clone, Copy)]
pub struct Needs<'a> {
    /// The plugins that the profiles may name.
    pub registry: Registry,
    /// The profiles, of which each plugin has watched what it reads.
    pub profiles: &'a [Profile],
    /// Pod groups are watched, too.
    pub with_groups: bool,
}

/// All watches.
#[derive(Clone)]
pub struct Watches {
    registry: Registry,
    client: kube::Client,
    pods: Arc<source::Shared>,
    nodes: Arc<source::Shared>,
    /// Of devices.
    claims: Arc<source::Shared>,
    all: Arc<[Started]>,
    begin: CancellationToken,
    synced: watch::Receiver<bool>,
    /// Why the watches tell nothing more.
    ended: watch::Receiver<Option<String>>,
}

impl Watches {
    /// Starts listing and watching what there is a need for once `begin` is cancelled, until `stop` or until the machine
    /// has stopped. What is wrong with an object is told through `reporter`. Failures are retried for ever, and logged.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn start(
        client: kube::Client,
        handle: Handle,
        reporter: Reporter,
        needs: Needs<'_>,
        begin: CancellationToken,
        stop: CancellationToken,
    ) -> Self {
        let (tasks, begun) = (JoinSet::new(), begin.clone());
        let mut starting = Starting { client: client.clone(), handle: handle.clone(), reporter, begin: begun, tasks };
        let (pods, nodes) = (starting.start::<Pods>(), starting.start::<Nodes>());
        let claims = starting.start::<AllOf<ResourceClaim>>();
        let mut all = vec![pods.clone(), nodes.clone()];
        all.extend(extension::Kind::ALL.map(|kind| starting.start_read(kind, &claims)));
        if needs.with_groups {
            all.push(starting.start::<PodGroups>());
        }
        let all = Arc::from(all);
        let (publish, synced) = watch::channel(false);
        let (end, ended) = watch::channel(None);
        let watches = Self {
            registry: needs.registry,
            client,
            pods: pods.1,
            nodes: nodes.1,
            claims: claims.1,
            all,
            begin,
            synced,
            ended,
        };
        watches.want(needs.profiles);
        let (mut tasks, told) = (starting.tasks, watches.clone());
        tasks.spawn(async move {
            told.begin.cancelled().await;
            told.listed().await;
            handle.tell(Event::Synced).await?;
            publish.send_replace(true);
            info!("the watches have told all there is");
            std::future::pending().await
        });
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                Some(ended) = tasks.join_next() => {
                    // The others end with the set: a view of which a part stands still is none.
                    drop(tasks);
                    if let Some(reason) = reason_of(ended) {
                        warn!(reason, "a watch has ended");
                        end.send_replace(Some(reason));
                    }
                    stop.cancelled().await;
                }
            }
        });
        watches
    }

    /// Whether the first lists are through and the machine has been told.
    #[must_use]
    pub fn synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// The resources that are needed and whose first lists are not through.
    #[must_use]
    pub fn unlisted(&self) -> Vec<&'static str> {
        self.wanted().filter(|(_, shared)| !shared.listed.is_cancelled()).map(|(what, _)| *what).collect()
    }

    /// Watches what these profiles need as well. What was needed before goes on being watched.
    ///
    /// # Errors
    /// After `patience`: the resources that the API server has not listed yet, without which the profiles cannot be
    /// worked by. Before the watches have begun there is nothing to wait for.
    pub async fn provide(&self, profiles: &[Profile], patience: Duration) -> Result<(), Vec<&'static str>> {
        self.want(profiles);
        if !self.begin.is_cancelled() {
            return Ok(());
        }
        timeout(patience, self.listed()).await.map_err(|_| self.unlisted())
    }

    fn want(&self, profiles: &[Profile]) {
        for (what, shared) in &*self.all {
            if needs::is_needed(self.registry, what, profiles) {
                shared.wanted.cancel();
            }
        }
    }

    fn wanted(&self) -> impl Iterator<Item = &Started> {
        self.all.iter().filter(|(_, shared)| shared.wanted.is_cancelled())
    }

    /// Returns once the first lists of all that is needed are through.
    async fn listed(&self) {
        for (_, shared) in self.wanted() {
            shared.listed.cancelled().await;
        }
    }

    /// Returns once [`synced`](Self::synced).
    pub async fn wait_synced(&mut self) {
        if self.synced.wait_for(|synced| *synced).await.is_err() {
            // The tasks are gone, and so is the machine: a caller that waits is told of it by the machine.
            std::future::pending::<()>().await;
        }
    }

    /// Returns once a watch has ended, which none does by itself; says why.
    pub async fn ended(&self) -> String {
        let mut ended = self.ended.clone();
        let reason = ended.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
        match reason {
            Some(reason) => reason,
            // The process is ending.
            None => std::future::pending().await,
        }
    }

    /// Waits until the view of the pods, nodes and claims of devices holds all that the cluster holds now, at most 5 s. What has been
    /// deleted by now may still be in it: that takes room and gives none.
    ///
    /// A leader that follows another must not bind before it has seen the other's binds: the API server would take the
    /// bindings, and nodes would be filled twice. Nor must it call a pod unschedulable by nodes of the past.
    ///
    /// # Errors
    /// What keeps that from being known.
    pub async fn catch_up(&self) -> Result<(), String> {
        let caught_up = async {
            let (pods, nodes) = (self.reach_now::<Pods>(&self.pods), self.reach_now::<Nodes>(&self.nodes));
            tokio::try_join!(pods, nodes, self.reach_claims())
        };
        let late = |_| format!("the view of pods and nodes has not caught up with the cluster within {BARRIER:?}");
        let (pods, nodes, claims) = timeout(BARRIER, caught_up).await.map_err(late)??;
        info!(pods, nodes, claims, "the view has caught up with the cluster");
        Ok(())
    }

    /// Waits until the view of claims of devices is as new as the cluster is now: a device is free only by what no claim says. Where
    /// there is no claim, or no API server that has any, there is nothing to wait for.
    async fn reach_claims(&self) -> Result<Option<u64>, String> {
        let claims = &self.claims;
        if !claims.wanted.is_cancelled() || claims.unserved.load(Ordering::Relaxed) {
            return Ok(None);
        }
        self.reach_now::<AllOf<ResourceClaim>>(claims).await.map(Some)
    }

    /// Waits until the view of pods holds the pod of this version, at most a second: the last that the leader before wrote. What it
    /// wrote to claims of devices is waited for as by [`Self::catch_up`].
    ///
    /// That is a version of a pod, which every watch of pods is told, and at once. Of nodes nothing is waited for: no leader
    /// writes them, so that the view of them is as old as that of the leader before, by what a watch takes.
    ///
    /// # Errors
    /// That it did not come about.
    pub async fn reach(&self, version: u64) -> Result<(), String> {
        let mut reached = self.pods.reached.subscribe();
        if timeout(HANDOVER, reached.wait_for(|reached| *reached >= version)).await.is_err() {
            return Err(format!("the watch of pods has not told of version {version} within {HANDOVER:?}"));
        }
        let late = |_| format!("the view of resourceclaims has not caught up with the cluster within {BARRIER:?}");
        timeout(BARRIER, self.reach_claims()).await.map_err(late)??;
        info!(version, "the view holds all that the leader before has written");
        Ok(())
    }

    /// The highest `resourceVersion` of a pod that the machine was told, or of its deletion; 0: none.
    #[must_use]
    pub fn newest_pod(&self) -> u64 {
        self.pods.newest()
    }

    /// Waits until a watch has told all up to now. Returns the version of now.
    async fn reach_now<K: Kind>(&self, shared: &source::Shared) -> Result<u64, String> {
        let version = self.version_now(K::PATH).await?;
        tokio::select! {
            biased;
            () = self.reach_version(version, shared) => {}
            () = self.reach_newest::<K>(shared) => {}
        }
        Ok(version)
    }

    /// Waits until a watch has told of the newest object that there is now. That is all that another process has written: what
    /// has ended meanwhile makes room that is not known of yet. Never, where there are too many objects to look for it.
    async fn reach_newest<K: Kind>(&self, shared: &source::Shared) {
        if shared.tally().objects <= newest::MOST {
            match newest::newest(&self.client, K::PATH, K::FIELDS).await {
                Ok(newest) => {
                    let _ = shared.reached.subscribe().wait_for(|reached| *reached >= newest).await;
                    return;
                }
                Err(trouble) => debug!(what = K::WHAT, reason = %trouble, "cannot tell which object is the newest"),
            }
        }
        std::future::pending().await
    }

    async fn reach_version(&self, version: u64, shared: &source::Shared) {
        let mut reached = shared.reached.subscribe();
        if *reached.borrow() < version {
            shared.hurry.notify_one();
        }
        // The sender is in the same place as the receiver came from, so that it cannot fail.
        let _ = reached.wait_for(|reached| *reached >= version).await;
    }

    /// The version of a collection as of now: a list without a version is answered from what is committed.
    async fn version_now(&self, path: &str) -> Result<u64, String> {
        let one = ListParams::default().limit(1);
        let request = kube::core::Request::new(path).list(&one).map_err(|error| error.to_string())?;
        let page = exchange::page(&self.client, request).await.map_err(|trouble| trouble.to_string())?;
        let version = page.version.unwrap_or_default();
        version.parse().map_err(|_| format!("the API server gives {version:?} as resourceVersion, which is no number"))
    }

    /// How old the view of pods or of nodes is, whichever is older: for so long the API server has told nothing of them. Pods are
    /// bound by these two; what the others tell changes which node is the best.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.pods.age().max(self.nodes.age())
    }

    /// What each watch has done so far, by the plural of what it watches.
    pub fn tallies(&self) -> impl Iterator<Item = (&'static str, Tally)> {
        self.wanted().map(|(what, shared)| (*what, shared.tally()))
    }
}

/// A watch: the plural of what it watches, and what it shares.
type Started = (&'static str, Arc<source::Shared>);

/// What every watch needs to start, and those that have.
struct Starting {
    client: kube::Client,
    handle: Handle,
    reporter: Reporter,
    begin: CancellationToken,
    tasks: JoinSet<Result<std::convert::Infallible, Stopped>>,
}

impl Starting {
    /// A kind that plugins may read. The watch of `claims` of devices has been started.
    fn start_read(&mut self, kind: extension::Kind, claims: &Started) -> Started {
        use extension::Kind as Read;
        match kind {
            Read::Namespace => self.start::<Namespaces>(),
            Read::Service => self.start::<AllThat<Service>>(),
            Read::ReplicationController => self.start::<AllThat<ReplicationController>>(),
            Read::ReplicaSet => self.start::<AllThat<ReplicaSet>>(),
            Read::StatefulSet => self.start::<AllThat<StatefulSet>>(),
            Read::PodDisruptionBudget => self.start::<Budgets>(),
            Read::PersistentVolumeClaim => self.start::<AllOf<stored::PersistentVolumeClaim>>(),
            Read::PersistentVolume => self.start::<AllOf<stored::PersistentVolume>>(),
            Read::StorageClass => self.start::<AllOf<stored::StorageClass>>(),
            Read::CsiDriver => self.start::<AllOf<stored::CsiDriver>>(),
            Read::CsiStorageCapacity => self.start::<AllOf<stored::CsiStorageCapacity>>(),
            Read::CsiNode => self.start::<AllOf<stored::CsiNode>>(),
            Read::VolumeAttachment => self.start::<AllOf<stored::VolumeAttachment>>(),
            Read::ResourceClaim => claims.clone(),
            Read::DeviceClass => self.start::<AllOf<stored::DeviceClass>>(),
            Read::ResourceSlice => self.start::<AllOf<stored::ResourceSlice>>(),
            Read::DeviceTaintRule => self.start::<AllOf<stored::DeviceTaintRule>>(),
        }
    }

    fn start<K: Kind>(&mut self) -> Started {
        let shared = Arc::<source::Shared>::default();
        let (client, handle, reporter) = (self.client.clone(), self.handle.clone(), self.reporter.clone());
        let told = Source::<K>::new(client, handle, reporter, Arc::clone(&shared));
        self.tasks.spawn(after(self.begin.clone(), after(shared.wanted.clone(), told.run())));
        (K::WHAT, shared)
    }
}

/// `task`, but not before `begin` is cancelled.
async fn after<T>(begin: CancellationToken, task: impl Future<Output = T>) -> T {
    begin.cancelled().await;
    task.await
}

/// Why a watch ended, where that is not because the machine has stopped.
fn reason_of(ended: Result<Result<std::convert::Infallible, Stopped>, tokio::task::JoinError>) -> Option<String> {
    match ended {
        Ok(Err(_)) => None,
        Ok(Ok(never)) => match never {},
        Err(error) => Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
