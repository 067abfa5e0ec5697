//! Watches pods, nodes and the other objects that scheduling reads, and sends the machine their events.
//!
//! The list and watch loop replaces kube-runtime's, for three reasons. kube-runtime consumes bookmarks, so that the age of the caches is
//! unknown, which a new leader needs before it binds. It reads whole objects in JSON only. One invalid object would end its stream.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use flotilla_framework::{extension, ingest::Features, profile::Profile, registry::Registry};
use flotilla_machine::event::Event;
use flotilla_runtime::driver::{Handle, Stopped};
use kube::api::ListParams;
use tokio::{sync::watch, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::{status::Reporter, versions::Versions};

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
    AllThat, Budgets, CompositePodGroups, CoschedulingGroups, Namespaces, Nodes, PodGroups, Pods, ReplicaSet,
    ReplicationController, Service, StatefulSet,
};
pub use source::Tally;
use source::{Kind, Source};
use stored::{AllOf, ResourceClaim};

/// Limit of one check that the caches have reached the API server's current state. The answer to a hurried watch takes about two seconds in
/// an idle cluster, and none in a busy one.
const BARRIER: Duration = Duration::from_secs(5);

/// Limit of the wait for the previous leader's last write. A watch shows it within milliseconds.
const HANDOVER: Duration = Duration::from_secs(1);

/// The kinds to watch.
#[derive(Debug, Clone, Copy)]
pub struct Needs<'a> {
    /// The plugins that the profiles may name.
    pub registry: Registry,
    /// The profiles; the kinds that their plugins read are watched.
    pub profiles: &'a [Profile],
    /// Watch pod groups too.
    pub with_groups: bool,
    /// Feature gates that change how objects are read.
    pub features: Features,
}

/// All watches.
#[derive(Clone)]
pub struct Watches {
    registry: Registry,
    client: kube::Client,
    pods: Arc<source::Shared>,
    nodes: Arc<source::Shared>,
    claims: Arc<source::Shared>,
    all: Arc<[Started]>,
    begin: CancellationToken,
    synced: watch::Receiver<bool>,
    /// The versions that the watches have found.
    versions: Versions,
    /// The reason why the watches have ended.
    ended: watch::Receiver<Option<String>>,
}

impl Watches {
    /// Starts to list and watch the needed kinds once `begin` is cancelled, until `stop` or until the machine has stopped. Invalid objects
    /// are reported through `reporter`. Failures are logged and retried forever.
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
        let (tasks, begun, versions) = (JoinSet::new(), begin.clone(), reporter.versions().clone());
        let (own_client, own_handle, features) = (client.clone(), handle.clone(), needs.features);
        let mut starting = Starting { client: own_client, handle: own_handle, reporter, features, begin: begun, tasks };
        let (pods, nodes) = (starting.start::<Pods>(), starting.start::<Nodes>());
        let claims = starting.start::<AllOf<ResourceClaim>>();
        let mut all = vec![pods.clone(), nodes.clone()];
        all.extend(extension::Kind::ALL.map(|kind| starting.start_read(kind, &claims)));
        all.push(starting.start::<CoschedulingGroups>());
        if needs.with_groups {
            all.push(starting.start::<PodGroups>());
        }
        if needs.features.composite_groups {
            all.push(starting.start::<CompositePodGroups>());
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
            versions,
            ended,
        };
        watches.want(needs.profiles);
        let (mut tasks, told) = (starting.tasks, watches.clone());
        tasks.spawn(async move {
            told.begin.cancelled().await;
            told.listed().await;
            handle.send_event(Event::Synced).await?;
            publish.send_replace(true);
            info!("initial lists complete");
            std::future::pending().await
        });
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                Some(ended) = tasks.join_next() => {
                    // Dropping the set ends the others: caches of which one is stale are of no use.
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

    /// Whether the initial lists are complete and applied by the machine.
    #[must_use]
    pub fn synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// The needed resources without a complete initial list.
    #[must_use]
    pub fn unlisted(&self) -> Vec<&'static str> {
        self.wanted().filter(|(_, shared)| !shared.listed.is_cancelled()).map(|(what, _)| *what).collect()
    }

    /// Watches the kinds of these profiles too. Earlier kinds stay watched.
    ///
    /// # Errors
    /// After `patience`: the resources that the API server has not listed yet, which the profiles need. Before the watches have begun it
    /// does not wait.
    pub async fn provide(&self, profiles: &[Profile], patience: Duration) -> Result<(), Vec<&'static str>> {
        self.want(profiles);
        if !self.begin.is_cancelled() {
            return Ok(());
        }
        timeout(patience, self.listed()).await.map_err(|_| self.unlisted())
    }

    /// Cancelled once PodGroups of `scheduling.x-k8s.io` are watched, because a profile reads them.
    pub(crate) fn reads_coscheduling(&self) -> CancellationToken {
        let found = self.all.iter().find(|(what, _)| *what == kinds::COSCHEDULING);
        found.map(|(_, shared)| shared.wanted.clone()).unwrap_or_default()
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

    async fn listed(&self) {
        for (_, shared) in self.wanted() {
            shared.listed.cancelled().await;
        }
    }

    /// Returns once [`synced`](Self::synced).
    pub async fn wait_synced(&mut self) {
        if self.synced.wait_for(|synced| *synced).await.is_err() {
            // The tasks and the machine have ended, which the machine reports to the caller.
            std::future::pending::<()>().await;
        }
    }

    /// Returns the reason once a watch has ended, which never happens normally.
    pub async fn ended(&self) -> String {
        let mut ended = self.ended.clone();
        let reason = ended.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
        match reason {
            Some(reason) => reason,
            // The process is ending.
            None => std::future::pending().await,
        }
    }

    /// Waits until the caches of pods, nodes and ResourceClaims hold the cluster's current state, at most 5 s. Objects deleted meanwhile
    /// may remain: they only occupy capacity.
    ///
    /// A new leader must not bind before its caches hold the previous leader's binds: it would fill nodes twice. Nor must it call a pod
    /// unschedulable because of stale nodes.
    ///
    /// # Errors
    /// The reason why this is unknown.
    pub async fn catch_up(&self) -> Result<(), String> {
        let caught_up = async {
            let (pods, nodes) = (self.reach_now::<Pods>(&self.pods), self.reach_now::<Nodes>(&self.nodes));
            tokio::try_join!(pods, nodes, self.reach_claims())
        };
        let late = |_| format!("the pod and node caches are not synced after {BARRIER:?}");
        let (pods, nodes, claims) = timeout(BARRIER, caught_up).await.map_err(late)??;
        info!(pods, nodes, claims, "caches synced");
        Ok(())
    }

    /// Waits until the cache of ResourceClaims is current: a device is free if no claim has it. Returns at once without claims.
    async fn reach_claims(&self) -> Result<Option<u64>, String> {
        let claims = &self.claims;
        if !claims.wanted.is_cancelled() || claims.unserved.load(Ordering::Relaxed) {
            return Ok(None);
        }
        self.reach_now::<AllOf<ResourceClaim>>(claims).await.map(Some)
    }

    /// Waits until the pod cache holds the previous leader's last write to a pod, at most a second, and for ResourceClaims as
    /// [`Self::catch_up`].
    ///
    /// Every watch of pods receives the version of a pod at once. Nodes are not awaited, because no leader writes them.
    ///
    /// # Errors
    /// A timeout.
    pub async fn reach(&self, version: u64) -> Result<(), String> {
        let mut reached = self.pods.reached.subscribe();
        if timeout(HANDOVER, reached.wait_for(|reached| *reached >= version)).await.is_err() {
            return Err(format!("the pod cache has not reached version {version} within {HANDOVER:?}"));
        }
        let late = |_| format!("the resourceclaims cache is not synced after {BARRIER:?}");
        timeout(BARRIER, self.reach_claims()).await.map_err(late)??;
        info!(version, "caches synced with the previous leader's writes");
        Ok(())
    }

    /// The highest `resourceVersion` of a pod, or of its deletion, that was sent to the machine; 0: none.
    #[must_use]
    pub fn newest_pod(&self) -> u64 {
        self.pods.newest()
    }

    /// Waits until a watch has reached the current version, and returns it.
    async fn reach_now<K: Kind>(&self, shared: &source::Shared) -> Result<u64, String> {
        let path = source::path_of::<K>(&K::served(&self.versions));
        let version = self.version_now(&path).await?;
        tokio::select! {
            biased;
            () = self.reach_version(version, shared) => {}
            () = self.reach_newest::<K>(shared) => {}
        }
        Ok(version)
    }

    /// Waits until a watch has reached the newest current object. This covers all writes of other processes: objects that ended meanwhile
    /// only free capacity. Never returns if the collection is too large for the look-up.
    async fn reach_newest<K: Kind>(&self, shared: &source::Shared) {
        if shared.tally().objects <= newest::MOST {
            let path = source::path_of::<K>(&K::served(&self.versions));
            match newest::newest(&self.client, &path, K::FIELDS).await {
                Ok(newest) => {
                    let _ = shared.reached.subscribe().wait_for(|reached| *reached >= newest).await;
                    return;
                }
                Err(trouble) => debug!(what = K::WHAT, reason = %trouble, "cannot determine the newest object"),
            }
        }
        std::future::pending().await
    }

    async fn reach_version(&self, version: u64, shared: &source::Shared) {
        let mut reached = shared.reached.subscribe();
        if *reached.borrow() < version {
            shared.hurry.notify_one();
        }
        // `shared` has the sender, so that this cannot fail.
        let _ = reached.wait_for(|reached| *reached >= version).await;
    }

    /// The current version of a collection: a list without a version reads the committed state.
    async fn version_now(&self, path: &str) -> Result<u64, String> {
        let one = ListParams::default().limit(1);
        let request = kube::core::Request::new(path).list(&one).map_err(|error| error.to_string())?;
        let page = exchange::page(&self.client, request).await.map_err(|trouble| trouble.to_string())?;
        let version = page.version.unwrap_or_default();
        version.parse().map_err(|_| format!("the API server's resourceVersion {version:?} is not a number"))
    }

    /// Age of the pod or the node cache, whichever is older: the time since the API server's last message. Only these two bound binds; the
    /// other kinds change which node is best.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.pods.age().max(self.nodes.age())
    }

    /// Counts of each watch, by the plural of its kind.
    pub fn tallies(&self) -> impl Iterator<Item = (&'static str, Tally)> {
        self.wanted().map(|(what, shared)| (*what, shared.tally()))
    }
}

/// A watch: the plural of its kind, and its shared state.
type Started = (&'static str, Arc<source::Shared>);

struct Starting {
    client: kube::Client,
    handle: Handle,
    reporter: Reporter,
    features: Features,
    begin: CancellationToken,
    tasks: JoinSet<Result<std::convert::Infallible, Stopped>>,
}

impl Starting {
    /// Starts the watch of a kind that plugins may read. `claims` is the started watch of ResourceClaims.
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
        let told = Source::<K>::new(client, handle, reporter, Arc::clone(&shared)).with_features(self.features);
        self.tasks.spawn(after(self.begin.clone(), after(shared.wanted.clone(), told.run())));
        (K::WHAT, shared)
    }
}

async fn after<T>(begin: CancellationToken, task: impl Future<Output = T>) -> T {
    begin.cancelled().await;
    task.await
}

/// The reason why a watch ended, unless the machine has stopped.
fn reason_of(ended: Result<Result<std::convert::Infallible, Stopped>, tokio::task::JoinError>) -> Option<String> {
    match ended {
        Ok(Err(_)) => None,
        Ok(Ok(never)) => match never {},
        Err(error) => Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
