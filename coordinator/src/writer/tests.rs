//! Writes of PreBind against a scripted API server.

use std::{collections::VecDeque, sync::Mutex};

use flotilla_framework::{
    extension::objects::Write,
    volumes::{
        binding::volume_key,
        objects::{ClaimReference, StorageKey, StorageKind},
    },
};
use flotilla_machine::{action::PodName, event::PreparationId};
use http::{Response, StatusCode};
use kube::client::Body;
use tokio::sync::mpsc;

use super::*;
use crate::lease;
use flotilla_runtime::driver::testing::listener;

enum Act {
    Version(&'static str),
    Refuse(u16, &'static str),
    Hang,
    Break,
    Panic,
}

use Act::{Break, Hang, Panic, Refuse, Version};

type Asked = Arc<Mutex<Vec<(String, String, Value)>>>;

fn client(script: Vec<Act>) -> (kube::Client, Asked) {
    let script = Arc::new(Mutex::new(VecDeque::from(script)));
    let asked = Asked::default();
    let log = Arc::clone(&asked);
    let service = tower::service_fn(move |request: HttpRequest<Body>| {
        let (script, log) = (Arc::clone(&script), Arc::clone(&log));
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.expect("a body");
            let body = serde_json::from_slice(&body).expect("JSON");
            log.lock().expect("unpoisoned").push((head.method.to_string(), head.uri.path().to_owned(), body));
            let act = script.lock().expect("unpoisoned").pop_front().expect("no more requests than that");
            let (code, body) = match act {
                Version(version) => (200, json!({ "metadata": { "name": "x", "resourceVersion": version } })),
                Refuse(code, message) => (
                    code,
                    json!({ "kind": "Status", "status": "Failure", "code": code, "message": message, "reason": "x" }),
                ),
                Hang => return std::future::pending().await,
                Break => return Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
                Panic => panic!("as asked"),
            };
            let code = StatusCode::from_u16(code).expect("a code");
            Ok(Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).expect("a response"))
        }
    });
    (kube::Client::new(service, "default"), asked)
}

fn written_to(object: StorageKey, version: &str, patch: objects::Patch) -> Write {
    let uid = format!("uid-{}", object.name).into();
    Write { object: object.into(), uid, resource_version: version.into(), patch }
}

fn set_aside(name: &str, bound_by_controller: bool) -> Write {
    let claim = ClaimReference { namespace: "default".into(), name: "data".into(), uid: "claim-uid".into() };
    let patch = objects::Patch::SetAside { claim, claim_version: "5".into(), bound_by_controller };
    written_to(volume_key(&name.into()), "7", patch)
}

fn select_node() -> Write {
    let object = StorageKey { kind: StorageKind::Claim, namespace: "default".into(), name: "scratch".into() };
    written_to(object, "6", objects::Patch::SelectNode("n1".into()))
}

fn pre_bind() -> PreBind {
    PreBind {
        id: PreparationId(3),
        uid: "u1".into(),
        namespace: "default".into(),
        name: "web-1".into(),
        node: "n1".into(),
        is_announced: true,
        writes: vec![set_aside("disk", true), set_aside("reserved", false), select_node()],
    }
}

/// The event that answers a PreBind, and the requests to the API server.
async fn outcome_with(lead: Duration, script: Vec<Act>) -> (Event, Asked) {
    outcome_of(pre_bind(), lead, script).await
}

async fn outcome_of(pre_bind: PreBind, lead: Duration, script: Vec<Act>) -> (Event, Asked) {
    let (client, asked) = client(script);
    let (_leading, follows) = watch::channel(Leadership::Leading { epoch: 1, valid_until: lease::now() + lead });
    let (handle, mut heard): (_, mpsc::UnboundedReceiver<Event>) = listener();
    let writer = Writer::new(client, handle, follows, Served::default());
    writer.pre_bind(pre_bind);
    writer.drained().await;
    let event = heard.recv().await.expect("an answer");
    writer.inner.handle.stop();
    assert_eq!(heard.recv().await, None, "and no other");
    (event, asked)
}

async fn outcome(script: Vec<Act>) -> (Event, Asked) {
    outcome_with(Duration::from_secs(10), script).await
}

fn written(versions: &[&str], failure: Option<&str>) -> Event {
    let versions = versions.iter().map(|version| Arc::from(*version)).collect();
    Event::Written { uid: "u1".into(), id: PreparationId(3), versions, failure: failure.map(str::to_owned) }
}

#[tokio::test(start_paused = true)]
async fn volumes_are_written_before_claims_each_fenced_by_its_version() {
    let (event, asked) = outcome(vec![Version("10"), Version("11"), Version("12"), Version("13")]).await;
    assert_eq!(event, written(&["11", "12", "13"], None));
    let claim = json!({
        "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "default", "name": "data", "uid": "claim-uid",
        "resourceVersion": "5",
    });
    let disk = json!({
        "metadata": { "uid": "uid-disk", "resourceVersion": "7", "annotations": { BOUND_BY_CONTROLLER: "yes" } },
        "spec": { "claimRef": claim },
    });
    let reserved =
        json!({ "metadata": { "uid": "uid-reserved", "resourceVersion": "7" }, "spec": { "claimRef": claim } });
    let scratch = json!({
        "metadata": { "uid": "uid-scratch", "resourceVersion": "6", "annotations": { SELECTED_NODE: "n1" } },
    });
    let announced = json!({ "metadata": { "uid": "u1" }, "status": { "nominatedNodeName": "n1" } });
    let expected = [
        ("/api/v1/namespaces/default/pods/web-1/status", announced),
        ("/api/v1/persistentvolumes/disk", disk),
        ("/api/v1/persistentvolumes/reserved", reserved),
        ("/api/v1/namespaces/default/persistentvolumeclaims/scratch", scratch),
    ];
    let expected = expected.map(|(path, body)| ("PATCH".to_owned(), path.to_owned(), body));
    assert_eq!(*asked.lock().expect("unpoisoned"), expected);
}

#[tokio::test(start_paused = true)]
async fn without_the_announcement_only_the_objects_are_written() {
    let quiet = PreBind { is_announced: false, ..pre_bind() };
    let script = vec![Version("11"), Version("12"), Version("13")];
    let (event, asked) = outcome_of(quiet, Duration::from_secs(10), script).await;
    assert_eq!(event, written(&["11", "12", "13"], None));
    let asked = asked.lock().expect("unpoisoned");
    assert_eq!((asked.len(), &*asked[0].1), (3, "/api/v1/persistentvolumes/disk"));
}

#[tokio::test(start_paused = true)]
async fn the_first_failure_ends_it_and_nothing_is_sent_twice() {
    let conflict = "Operation cannot be fulfilled on persistentvolumes \"disk\": the object has been modified; please \
                    apply your changes to the latest version and try again";
    let cases = [
        (vec![Refuse(409, conflict)], written(&[], Some(conflict))),
        (vec![Version("11"), Refuse(500, "etcd is away")], written(&["11"], Some("etcd is away"))),
        (vec![Version("11"), Version("12"), Refuse(404, "gone")], written(&["11", "12"], Some("gone"))),
        (vec![Hang], written(&[], Some("the API server did not answer within 5s"))),
        (vec![Version("11"), Panic], written(&["11"], Some("the task that wrote it panicked"))),
    ];
    for (script, expected) in cases {
        let requests = script.len() + 1;
        let script = std::iter::once(Version("10")).chain(script).collect();
        let (event, asked) = outcome(script).await;
        assert_eq!(event, expected);
        assert_eq!(asked.lock().expect("unpoisoned").len(), requests);
    }
    let (event, asked) = outcome(vec![Version("10"), Break]).await;
    assert!(matches!(event, Event::Written { failure: Some(_), .. }), "{event:?}");
    assert_eq!(asked.lock().expect("unpoisoned").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_announced_keeps_nothing_from_being_written() {
    for refusal in [Refuse(403, "pods/status is forbidden"), Break, Hang] {
        let (event, _) = outcome(vec![refusal, Version("11"), Version("12"), Version("13")]).await;
        assert_eq!(event, written(&["11", "12", "13"], None));
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_lead_nothing_is_sent_and_no_write_outlasts_it() {
    let (event, asked) = outcome_with(Duration::ZERO, Vec::new()).await;
    assert_eq!(event, written(&[], Some("this process is no longer the leader")));
    assert!(asked.lock().expect("unpoisoned").is_empty());
    let (event, _) = outcome_with(Duration::from_secs(2), vec![Version("10"), Hang]).await;
    assert_eq!(event, written(&[], Some("the API server did not answer within 2s")));
}

#[tokio::test(start_paused = true)]
async fn what_is_taken_back_is_written_whatever_becomes_of_each_and_nobody_is_told() {
    let (client, asked) = client(vec![Refuse(409, "conflict"), Version("11")]);
    let until = lease::now() + Duration::from_secs(10);
    let (_leading, follows) = watch::channel(Leadership::Leading { epoch: 1, valid_until: until });
    let (handle, mut heard): (_, mpsc::UnboundedReceiver<Event>) = listener();
    let writer = Writer::new(client, handle, follows, Served::default());
    let pod = PodName { uid: "u1".into(), namespace: "default".into(), name: "web-1".into() };
    writer.unreserve(Unreserve { pod, plugin: "Test", writes: vec![set_aside("disk", true), select_node()] });
    writer.drained().await;
    let paths: Vec<String> = asked.lock().expect("unpoisoned").iter().map(|(_, path, _)| path.clone()).collect();
    let claim = "/api/v1/namespaces/default/persistentvolumeclaims/scratch";
    assert_eq!(paths, ["/api/v1/persistentvolumes/disk", claim]);
    assert_eq!(writer.tally(), Tally { written: 1, failed: 1, ..Tally::default() });
    writer.inner.handle.stop();
    assert_eq!(heard.recv().await, None);
}
