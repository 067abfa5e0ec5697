//! A candidate's watch on the Lease or on its LeaseCandidate, and leader election events.
//!
//! Both are best effort, because the election also polls, and reads the record again before it decides.

use std::fmt::Debug;
use std::time::Duration;

use futures::TryStreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Resource as _;
use kube::api::{Api, WatchEvent, WatchParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tracing::debug;

/// Server-side limit of one watch, seconds.
const WATCH_S: u32 = 60;
/// Additional client-side limit: after it the connection is lost.
const GRACE: Duration = Duration::from_secs(5);
/// States of one object in the channel. A renewal comes every two seconds and is read at once.
const BACKLOG: usize = 4;

pub(super) struct Standby<K> {
    seen: mpsc::Receiver<Option<K>>,
    task: tokio::task::JoinHandle<()>,
}

impl<K: Clone + Debug + DeserializeOwned + Send + 'static> Standby<K> {
    /// Watches the object `name`, and reopens the watch after `pause` whenever it ends.
    pub(super) fn start(api: Api<K>, name: &str, pause: Duration) -> Self {
        let params = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(WATCH_S);
        let (sender, seen) = mpsc::channel(BACKLOG);
        let task = tokio::spawn(async move {
            let lifetime = Duration::from_secs(WATCH_S.into()) + GRACE;
            while !sender.is_closed() {
                if let Ok(Err(error)) = tokio::time::timeout(lifetime, watch(&api, &params, &sender)).await {
                    debug!(%error, "a watch of the election ended; polling until it is open again");
                }
                tokio::time::sleep(pause).await;
            }
        });
        Self { seen, task }
    }
}

impl<K> Drop for Standby<K> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The next state of the object (`None`: deleted). Without a watch it never returns.
pub(super) async fn next<K>(standby: &mut Option<Standby<K>>) -> Option<K> {
    if let Some(standby) = standby
        && let Some(seen) = standby.seen.recv().await
    {
        return seen;
    }
    std::future::pending().await
}

/// Forwards one watch, from its initial state to its end.
async fn watch<K: Clone + Debug + DeserializeOwned>(
    api: &Api<K>,
    params: &WatchParams,
    seen: &mpsc::Sender<Option<K>>,
) -> kube::Result<()> {
    let mut events = std::pin::pin!(api.watch(params, "").await?);
    while let Some(event) = events.try_next().await? {
        let state = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => Some(object),
            WatchEvent::Deleted(_) => None,
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
        };
        if seen.send(state).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// The event `<identity> <what>` about `lease`, as kube-scheduler records it. Sent when awaited; a failure is logged.
pub(super) fn event(
    client: &kube::Client,
    identity: &str,
    lease: Option<&Lease>,
    what: &str,
) -> Option<impl Future<Output = ()> + Send + 'static> {
    let reference = lease?.object_ref(&());
    let reporter = Reporter { controller: "flotilla-coordinator".to_owned(), instance: Some(identity.to_owned()) };
    let recorder = Recorder::new(client.clone(), reporter);
    let event = Event {
        type_: EventType::Normal,
        reason: "LeaderElection".to_owned(),
        note: Some(format!("{identity} {what}")),
        action: "LeaderElection".to_owned(),
        secondary: None,
    };
    Some(async move {
        if let Err(error) = recorder.publish(&event, &reference).await {
            debug!(%error, "cannot record the event of the leader election");
        }
    })
}

/// The UID of a Lease, which `kubectl describe` needs to show an event with it.
///
/// # Errors
/// The API server does not answer, or the Lease does not exist.
pub async fn uid(client: &kube::Client, namespace: &str, name: &str) -> kube::Result<String> {
    let lease = Api::<Lease>::namespaced(client.clone(), namespace).get(name).await?;
    Ok(lease.metadata.uid.unwrap_or_default())
}
