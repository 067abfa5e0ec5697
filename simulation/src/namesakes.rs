//! Actor that replaces pods by others of the same name during writes to them.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    api::{Api, Commit, Kind, Object, Verb, writes::Deletion},
    check::COORDINATOR,
    cluster::{AUTHOR, OURS},
    seed::Seed,
};

const NAME: &str = "namesakes";
/// Maximum delay, ms: the time of a decision and a request.
const SLOWEST_MS: u64 = 6;

/// Replaces `per_mille` of the pods that are created or about to be evicted, forever.
pub async fn replace(api: Api, mut seed: Seed, per_mille: u16) {
    let (mut committed, actor) = (api.committed(), api.actor(NAME));
    let mut seen = 0;
    while committed.changed().await.is_ok() {
        let commits = api.commits(seen);
        seen += commits.len();
        for pod in commits.iter().filter_map(|commit| chosen(commit)) {
            if !seed.happens(per_mille) {
                continue;
            }
            sleep(Duration::from_millis(seed.below(SLOWEST_MS))).await;
            let deletion = Deletion { grace_s: Some(0), uid: Some(pod.uid().to_owned()), version: None };
            if actor.delete(Kind::Pod, pod.key(), &deletion).is_ok() {
                // Another actor may be faster.
                let _ = actor.create(Kind::Pod, namesake(pod));
            }
        }
    }
}

/// The pod that is about to be bound or evicted.
fn chosen(commit: &Commit) -> Option<&Object> {
    let pod =
        commit.after.as_deref().filter(|pod| commit.kind == Kind::Pod && pod.text("/spec/schedulerName") == OURS)?;
    let is_new = commit.verb == Verb::Create && &*commit.by == AUTHOR;
    let was_doomed = commit.before.as_deref().is_some_and(is_doomed);
    let is_marked = commit.verb == Verb::Patch && commit.by.starts_with(COORDINATOR) && is_doomed(pod) && !was_doomed;
    (is_new || is_marked).then_some(pod)
}

fn is_doomed(pod: &Object) -> bool {
    let conditions = pod.at("/status/conditions").as_array().map_or(&[][..], Vec::as_slice);
    conditions.iter().any(|condition| condition["type"] == "DisruptionTarget")
}

/// A slightly larger pod of the same name.
fn namesake(pod: &Object) -> Value {
    let mut spec = pod.at("/spec").clone();
    spec.as_object_mut().map(|spec| spec.remove("nodeName"));
    spec["containers"][0]["resources"]["requests"]["cpu"] = json!("1300m");
    let metadata = json!({
        "namespace": pod.namespace(), "name": pod.name(), "labels": pod.at("/metadata/labels"),
        "ownerReferences": pod.at("/metadata/ownerReferences"),
    });
    json!({ "metadata": metadata, "spec": spec })
}
