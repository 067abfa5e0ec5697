//! All commits of pods from etcd, in the order of resourceVersions.
//!
//! An API server's watch may restart after an outage and skip commits. etcd keeps each revision until its compaction, five minutes after
//! the write.

use std::time::Duration;

use anyhow::{Context as _, bail};
use flotilla_control_plane::{Component, ControlPlane};
use futures::{AsyncBufReadExt as _, StreamExt as _};
use k8s_openapi::{ByteString, api::core::v1::Pod};
use serde::Deserialize;
use serde_json::json;
use tokio::{sync::mpsc, time::sleep};

/// Lets the API server store objects as JSON.
pub(super) const STORED_AS_JSON: &str = "--storage-media-type=application/json";
/// Key range of pods.
const FIRST: &[u8] = b"/registry/pods/";
const END: &[u8] = b"/registry/pods0";
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug, Clone)]
pub(super) struct Commit {
    /// resourceVersion.
    pub(super) revision: u64,
    /// Pod as `namespace/name`.
    pub(super) name: String,
    /// The new state; `None` if deleted.
    pub(super) pod: Option<Box<Pod>>,
}

#[derive(Deserialize)]
struct StoreReply {
    result: Option<Answer>,
    error: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    events: Vec<Change>,
    #[serde(default)]
    canceled: bool,
    compact_revision: Option<String>,
}

#[derive(Deserialize)]
struct Change {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    kv: Pair,
}

#[derive(Deserialize)]
struct Pair {
    key: ByteString,
    value: Option<ByteString>,
    mod_revision: String,
}

/// Sends all commits of pods from the first one on, until the receiver is dropped.
///
/// # Errors
/// etcd has compacted an unread revision, or its response is invalid.
pub(super) async fn follow(cluster: &ControlPlane, to: mpsc::UnboundedSender<Commit>) -> anyhow::Result<()> {
    let client = cluster.client_of(Component::Etcd)?;
    let mut next = 1;
    loop {
        let watch = json!({ "create_request": {
            "key": ByteString(FIRST.to_vec()), "range_end": ByteString(END.to_vec()), "start_revision": next.to_string(),
        } });
        let request = http::Request::post("/v3/watch").body(watch.to_string().into_bytes())?;
        // etcd may be stopped or down; the watch is retried.
        if let Ok(answers) = client.request_stream(request).await {
            let mut lines = answers.lines();
            while let Some(Ok(line)) = lines.next().await {
                for commit in read(&line)? {
                    next = commit.revision + 1;
                    if to.send(commit).is_err() {
                        return Ok(());
                    }
                }
            }
        }
        sleep(PAUSE).await;
    }
}

/// Commits of one line, which contains all of a revision.
fn read(line: &str) -> anyhow::Result<Vec<Commit>> {
    if line.trim().is_empty() {
        return Ok(Vec::new());
    }
    let told: StoreReply = serde_json::from_str(line).with_context(|| format!("etcd says {line:?}"))?;
    if let Some(error) = told.error {
        // The member ends; the next watch starts at the same revision.
        eprintln!("chaos: etcd ends the watch: {error}");
        return Ok(Vec::new());
    }
    let answer = told.result.with_context(|| format!("etcd says {line:?}"))?;
    if let Some(revision) = answer.compact_revision.filter(|revision| revision != "0") {
        bail!("etcd has dropped what was before revision {revision}, and not all of it was seen");
    }
    if answer.canceled {
        return Ok(Vec::new());
    }
    answer.events.into_iter().map(commit).collect()
}

fn commit(change: Change) -> anyhow::Result<Commit> {
    let Pair { key, value, mod_revision } = change.kv;
    let key = String::from_utf8(key.0).context("a key of etcd")?;
    let name = key.trim_start_matches(&*String::from_utf8_lossy(FIRST)).to_owned();
    let revision = mod_revision.parse().with_context(|| format!("the revision {mod_revision:?}"))?;
    let is_gone = change.kind.as_deref() == Some("DELETE");
    let pod = match value {
        Some(value) if !is_gone => {
            Some(serde_json::from_slice(&value.0).with_context(|| format!("pod {name} as etcd has it"))?)
        }
        _ => None,
    };
    Ok(Commit { revision, name, pod })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(events: &serde_json::Value) -> String {
        json!({ "result": { "header": { "revision": "9" }, "events": events } }).to_string()
    }

    #[test]
    fn commits_are_read_in_order_with_what_the_pod_is_then() {
        let key = ByteString(b"/registry/pods/default/web".to_vec());
        let pod = ByteString(br#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","uid":"u"}}"#.to_vec());
        let events = json!([
            { "kv": { "key": key, "value": pod, "mod_revision": "8" } },
            { "type": "DELETE", "kv": { "key": key, "mod_revision": "9" } },
        ]);
        let commits = read(&told(&events)).expect("it is read");
        let seen: Vec<_> =
            commits.iter().map(|commit| (commit.revision, &*commit.name, commit.pod.is_some())).collect();
        assert_eq!(seen, [(8, "default/web", true), (9, "default/web", false)]);
        assert!(read(r#"{"result":{"created":true}}"#).expect("it is read").is_empty());
    }

    #[test]
    fn a_history_with_a_gap_is_an_error() {
        read(r#"{"result":{"canceled":true,"compact_revision":"50"}}"#).expect_err("something was missed");
        read("no JSON").expect_err("it cannot be read");
    }
}
