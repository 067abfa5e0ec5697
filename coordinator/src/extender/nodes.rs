//! Whole nodes, for extenders that do not cache them.
//!
//! The machine keeps too little of a node for an extender, and a list of all nodes for each decision would overload any API server.
//! Clusters with such an extender therefore have a second watch of nodes, which starts with its first request. See docs/adr/0006.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use flotilla_runtime::extender::node_text;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt as _,
    core::{ApiResource, DynamicObject},
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event},
    },
};
use serde_json::value::RawValue;
use tokio::{sync::watch, time::timeout};
use tracing::{info, warn};

/// For the first list of nodes.
const FIRST_PATIENCE: Duration = Duration::from_secs(15);
/// For a node that the machine has and this watch does not have yet, or no longer has.
const PATIENCE: Duration = Duration::from_secs(1);

type Texts = HashMap<String, Arc<RawValue>>;

/// All nodes as text: some 15 KB each, 75 MB for 5,000. Cheap to clone.
#[derive(Clone)]
pub(super) struct Nodes {
    client: kube::Client,
    known: Arc<OnceLock<NodeTexts>>,
}

#[derive(Clone)]
struct NodeTexts {
    texts: Arc<Mutex<Texts>>,
    /// Counts events, from the end of the first list on.
    told: watch::Receiver<u64>,
}

impl Nodes {
    pub(super) fn new(client: kube::Client) -> Self {
        Self { client, known: Arc::default() }
    }

    /// The nodes of these names. Deleted nodes are left out, and so are nodes still unknown after a second, unless none would be left.
    pub(super) async fn get(&self, names: &[Arc<str>]) -> Result<Vec<Arc<RawValue>>, String> {
        let known = self.known.get_or_init(|| start(self.client.clone()));
        let mut told = known.told.clone();
        match timeout(FIRST_PATIENCE, told.wait_for(|told| *told > 0)).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => {
                return Err(
                    "the nodes for extenders are not listed yet; check the right to list and watch nodes".to_owned()
                );
            }
        }
        let all_known = told.wait_for(|_| {
            let texts = known.texts();
            names.iter().all(|name| texts.contains_key(&**name))
        });
        // After the timeout, the known nodes are used.
        let _ = timeout(PATIENCE, all_known).await;
        let texts = known.texts();
        let found: Vec<_> = names.iter().filter_map(|name| texts.get(&**name).cloned()).collect();
        if found.is_empty() && !names.is_empty() {
            return Err("none of the nodes for the extender is in the node cache".to_owned());
        }
        Ok(found)
    }
}

impl NodeTexts {
    fn texts(&self) -> MutexGuard<'_, Texts> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn start(client: kube::Client) -> NodeTexts {
    let (tell, told) = watch::channel(0_u64);
    let known = NodeTexts { texts: Arc::default(), told };
    let kept = known.clone();
    info!("an extender has no node cache: watching whole nodes for it");
    tokio::spawn(async move {
        let api: Api<DynamicObject> = Api::all_with(client, &ApiResource::erase::<Node>(&()));
        let mut events = Box::pin(watcher::watcher(api, watcher::Config::default()).default_backoff());
        let mut listed = Texts::new();
        while let Some(event) = events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    warn!(reason = %error, "cannot list or watch whole nodes for extenders");
                    continue;
                }
            };
            if take(event, &mut listed, &mut kept.texts()) {
                tell.send_modify(|told| *told += 1);
            }
        }
    });
    known
}

/// Applies a watch event. False for events of an incomplete list: the previous nodes stay in use until it is complete.
fn take(event: Event<DynamicObject>, listed: &mut Texts, texts: &mut Texts) -> bool {
    let is_whole = !matches!(event, Event::Init | Event::InitApply(_));
    match event {
        Event::Init => listed.clear(),
        Event::InitApply(node) => put(listed, &node),
        Event::InitDone => *texts = std::mem::take(listed),
        Event::Apply(node) => put(texts, &node),
        Event::Delete(node) => drop(texts.remove(&node.name_any())),
    }
    is_whole
}

fn put(texts: &mut Texts, node: &DynamicObject) {
    let text = serde_json::to_value(node).map_err(|error| error.to_string()).and_then(node_text);
    match text {
        Ok(text) => drop(texts.insert(node.name_any(), text)),
        Err(reason) => warn!(node = node.name_any(), reason, "node not sent to extenders"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, label: &str) -> DynamicObject {
        let fields = serde_json::json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": name, "labels": { "l": label }, "managedFields": [] },
            "spec": { "providerID": "p" },
        });
        serde_json::from_value(fields).expect("a node")
    }

    #[test]
    fn a_list_takes_the_place_of_what_was_known_when_it_is_through() {
        let (mut listed, mut texts) = (Texts::new(), Texts::new());
        let mut tell = |event| take(event, &mut listed, &mut texts);
        tell(Event::Init);
        assert!(!tell(Event::InitApply(node("a", "1"))));
        assert!(!tell(Event::InitApply(node("b", "1"))));
        assert!(tell(Event::InitDone));
        assert!(tell(Event::Apply(node("c", "1"))));
        assert!(tell(Event::Delete(node("a", "1"))));
        tell(Event::Init);
        tell(Event::InitApply(node("b", "2")));
        tell(Event::InitDone);
        assert_eq!(texts.keys().collect::<Vec<_>>(), ["b"]);
        assert_eq!(
            texts["b"].get(),
            r#"{"metadata":{"labels":{"l":"2"},"managedFields":[],"name":"b"},"spec":{"providerID":"p"}}"#
        );
    }
}
