//! Writes the status of PodGroups of `scheduling.x-k8s.io` while this process leads, as the controller of scheduler-plugins does.
//!
//! The machine does not know the phases of pods, and its watch of pods leaves out finished ones. Therefore this task has its own watches, of
//! the groups and of the pods with the label. If another process writes another status for the same pods, the group is left to it.

use std::time::Duration;

use flotilla_framework::pod_group::LABEL;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, ListParams, Patch, PatchParams, WatchEvent, WatchParams},
    core::{ApiResource, GroupVersionKind, Request},
};
use serde::Deserialize;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::{
    lease::Leadership,
    outgoing::{Outgoing, Refusal},
};
use phase::{Member, Status};
use state::{Group, Key, State, Write};

mod phase;
mod state;

const PATH: &str = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces";
/// Concurrent writes.
const AT_ONCE: usize = 8;
const LIMIT: Duration = Duration::from_secs(10);
const PAGE: u32 = 500;
/// The API server ends a watch after this many seconds.
const WATCH_S: u32 = 290;
/// Changes of this time are written together: the pods of a gang start at about the same time.
const DELAY: Duration = Duration::from_millis(500);
/// After a failure, and while the API server does not serve the groups.
const PAUSE: Duration = Duration::from_secs(15);

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Fields {
    spec: Spec,
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    min_member: i32,
}

enum Change {
    Group(Box<WatchEvent<DynamicObject>>),
    Pod(Box<WatchEvent<Pod>>),
}

/// The task.
pub(crate) struct Phases {
    groups: Api<DynamicObject>,
    pods: Api<Pod>,
    outgoing: Outgoing,
}

impl Phases {
    /// Writes through `client` while `leading`, once groups are `wanted`, until `stop`.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn start(
        client: kube::Client,
        leading: watch::Receiver<Leadership>,
        wanted: CancellationToken,
        stop: CancellationToken,
    ) {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("scheduling.x-k8s.io", "v1alpha1", "PodGroup"));
        let phases = Self {
            groups: Api::all_with(client.clone(), &kind),
            pods: Api::all(client.clone()),
            outgoing: Outgoing::new(client, leading, AT_ONCE),
        };
        tokio::spawn(stop.run_until_cancelled_owned(async move {
            wanted.cancelled().await;
            phases.run().await;
        }));
    }

    async fn run(self) {
        let mut state = State::default();
        while self.outgoing.led().await {
            state = state.begin();
            match self.lead(&mut state).await {
                // The API server has ended a watch, or this process is about to lose its lead.
                Ok(()) => sleep(DELAY).await,
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    debug!("the API server does not serve podgroups.scheduling.x-k8s.io; their status is not written");
                    sleep(PAUSE).await;
                }
                Err(error) => {
                    debug!(reason = %error, "cannot watch pod groups for their status; retrying");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Lists, watches and writes until a watch ends or this process no longer leads.
    async fn lead(&self, state: &mut State) -> Result<(), kube::Error> {
        let groups = self.list(&self.groups, ListParams::default(), |group| applied(state, group)).await?;
        let labelled = ListParams::default().labels(LABEL);
        let pods =
            self.list(&self.pods, labelled, |pod| state.pod_applied(key(&pod), group(&pod), member(&pod))).await?;
        debug!("watching pod groups and their pods for the status of the groups");
        let params = || WatchParams { bookmarks: true, ..WatchParams::default().timeout(WATCH_S) };
        let groups = self.groups.watch(&params(), &groups).await?.map_ok(|event| Change::Group(Box::new(event)));
        let pods = self.pods.watch(&params().labels(LABEL), &pods).await?.map_ok(|event| Change::Pod(Box::new(event)));
        let mut changes = stream::select(groups.boxed(), pods.boxed());
        let mut due_at = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = sleep_until(due_at) => {
                    if self.outgoing.lead().is_none() {
                        return Ok(());
                    }
                    self.write(state).await;
                    due_at = Instant::now() + PAUSE;
                }
                change = changes.try_next() => match change? {
                    Some(change) => {
                        if !take(state, change) {
                            return Ok(());
                        }
                        due_at = due_at.min(Instant::now() + DELAY);
                    }
                    None => return Ok(()),
                },
            }
        }
    }

    /// Lists a collection in pages; returns its version.
    async fn list<K>(
        &self,
        api: &Api<K>,
        mut params: ListParams,
        mut each: impl FnMut(K),
    ) -> Result<String, kube::Error>
    where
        K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        params = params.limit(PAGE);
        loop {
            let page = api.list(&params).await?;
            page.items.into_iter().for_each(&mut each);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok(page.metadata.resource_version.unwrap_or_default()),
            }
        }
    }

    async fn write(&self, state: &mut State) {
        let due = state.take_due();
        let writes = stream::iter(due).map(|write| async {
            let written = self.try_write(&write).await;
            (write, written)
        });
        let written: Vec<(Write, Result<u64, Refusal>)> = writes.buffer_unordered(AT_ONCE).collect().await;
        for (write, result) in written {
            let group = format!("{}/{}", write.key.0, write.key.1);
            match result {
                Ok(version) => state.written(write, version),
                Err(Refusal::Gone(reason)) => debug!(group, reason, "the pod group no longer exists"),
                Err(Refusal::Lasting(reason)) => {
                    warn!(group, reason, "the API server rejects the status; grant patch on podgroups/status");
                    state.leave(write);
                }
                Err(Refusal::Passing(reason)) => {
                    debug!(group, reason, "cannot write the pod group's status; retrying");
                    state.failed(write);
                }
                Err(Refusal::Late(limit)) => {
                    debug!(group, ?limit, "no answer to the pod group's status; retrying");
                    state.failed(write);
                }
            }
        }
    }

    async fn try_write(&self, write: &Write) -> Result<u64, Refusal> {
        let (namespace, name) = &write.key;
        let request = Request::new(format!("{PATH}/{namespace}/podgroups"));
        let patch = Patch::Merge(write.patch());
        let request = request.patch_subresource("status", name, &PatchParams::default(), &patch);
        let request = request.map_err(|error| Refusal::Lasting(error.to_string()))?;
        let body = self.outgoing.send(LIMIT, request).await.map_err(Refusal::from)?;
        let written = serde_json::from_slice::<DynamicObject>(&body);
        Ok(written.map_or(0, |written| version(&written)))
    }
}

/// False: a new list is due.
fn take(state: &mut State, change: Change) -> bool {
    match change {
        Change::Group(event) => match *event {
            WatchEvent::Added(group) | WatchEvent::Modified(group) => applied(state, group),
            WatchEvent::Deleted(group) => state.group_deleted(&key(&group)),
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(_) => return false,
        },
        Change::Pod(event) => match *event {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                state.pod_applied(key(&pod), group(&pod), member(&pod));
            }
            WatchEvent::Deleted(pod) => state.pod_deleted(&key(&pod)),
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(_) => return false,
        },
    }
    true
}

fn key<K: kube::Resource>(object: &K) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn version(group: &DynamicObject) -> u64 {
    group.metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

fn applied(state: &mut State, group: DynamicObject) {
    let (key, version) = (key(&group), version(&group));
    let uid = group.metadata.uid.clone().unwrap_or_default();
    let Ok(Fields { spec, status }) = serde_json::from_value::<Fields>(group.data) else {
        debug!(group = %format_args!("{}/{}", key.0, key.1), "ignoring an invalid pod group");
        return;
    };
    let name = format!("{}/{}", key.0, key.1);
    if state.group_applied(key, Group { uid, version, min_member: spec.min_member, status }) {
        info!(group = name, "another process writes this pod group's status, which is left to it");
    }
}

fn group(pod: &Pod) -> Option<&str> {
    pod.metadata.labels.as_ref()?.get(LABEL).map(String::as_str)
}

fn member(pod: &Pod) -> Member {
    let phase = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
    let owners = pod.metadata.owner_references.iter().flatten().map(|owner| owner.name.clone()).collect();
    Member { phase, owners }
}
