//! Lists and watches against a scripted API server.

use std::{
    collections::VecDeque,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use flotilla_encoding::Encoding;
use flotilla_framework::{
    class::OwnerKind,
    extension,
    ingest::Features,
    labels::LabelSelector,
    quantity::Quantity,
    registry::Registry,
    testing::profile,
    volumes::objects::{
        BindingMode, Claim, CsiDriver, CsiNode, StorageCapacity, StorageClass, StorageObject, Volume, VolumeAttachment,
    },
};
use flotilla_machine::event::{Selecting, SelectingKind};
use futures::stream;
use http::Response;
use http::header::{ACCEPT, CONTENT_TYPE};
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use flotilla_runtime::driver::testing::listener;

use crate::lease::Leadership;

mod by_watch;
mod devices;
mod panics;
mod protobuf;
mod quiet;

/// The body of an idle watch.
type Silence = Result<hyper::body::Frame<bytes::Bytes>, std::io::Error>;

fn needs(profiles: &[Profile]) -> Needs<'_> {
    Needs { registry: Registry::built_in(), profiles, with_groups: false, features: Features::default() }
}

fn begun() -> CancellationToken {
    let begin = CancellationToken::new();
    begin.cancel();
    begin
}

/// The request, and the code, content type and body of the answer.
type Answers = VecDeque<(String, u16, &'static str, bytes::Bytes)>;

const JSON: &str = "application/json";

/// An API server with one script of answers for lists and one for watches of pods, and others for each other kind, such as `list services`.
/// After the last line it does not answer; kinds without a script are empty. It lists by a watch only if there is a script for `begin`.
#[derive(Clone, Default)]
struct Server {
    script: Arc<Mutex<Answers>>,
    asked: Arc<Mutex<Vec<String>>>,
    /// Rejects requests that accept protobuf with 406.
    only_json: bool,
    refused: Arc<AtomicUsize>,
}

impl Server {
    fn answers(&self, to: impl Into<String>, code: u16, body: impl ToString) -> &Self {
        self.answers_in(JSON, to, code, body.to_string())
    }

    fn answers_in(
        &self,
        media: &'static str,
        to: impl Into<String>,
        code: u16,
        body: impl Into<bytes::Bytes>,
    ) -> &Self {
        self.script.lock().expect("unpoisoned").push_back((to.into(), code, media, body.into()));
        self
    }

    fn lists(&self, version: &str, objects: &[Value]) -> &Self {
        self.answers("list", 200, json!({ "metadata": { "resourceVersion": version }, "items": objects }))
    }

    fn watches(&self, lines: &[Value]) -> &Self {
        let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
        self.answers("watch", 200, lines)
    }

    fn next(&self, to: &str) -> Option<(u16, &'static str, bytes::Bytes)> {
        let mut script = self.script.lock().expect("unpoisoned");
        let index = script.iter().position(|(asked, ..)| asked == to)?;
        script.remove(index).map(|(_, code, media, body)| (code, media, body))
    }

    fn answer(&self, what: &str, query: &str, accepted: &str) -> Option<(u16, &'static str, bytes::Bytes)> {
        let doing = match query.contains("watch=true") {
            false if accepted.contains("PartialObjectMetadataList") => "metadata",
            true if query.contains("sendInitialEvents=true") => "begin",
            true => "watch",
            false => "list",
        };
        let scripted = self.next(&if what == "pods" { doing.to_owned() } else { format!("{doing} {what}") });
        if what == "pods" && (doing != "begin" || scripted.is_some()) {
            self.asked.lock().expect("unpoisoned").push(query.to_owned());
        }
        let otherwise = |code: u16, body: Value| Some((code, JSON, body.to_string().into()));
        scripted.or_else(|| match doing {
            "begin" => {
                otherwise(422, json!({ "kind": "Status", "code": 422, "message": "sendInitialEvents: Forbidden" }))
            }
            "list" | "metadata" if what != "pods" => {
                otherwise(200, json!({ "metadata": { "resourceVersion": "1" }, "items": [] }))
            }
            _ => None,
        })
    }

    /// Waits until the watch of pods is asked for, without advancing the clock.
    async fn is_watched(&self) {
        while !self.asked.lock().expect("unpoisoned").iter().any(|query| query.contains("watch=true")) {
            tokio::task::yield_now().await;
        }
    }

    fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let server = server.clone();
            async move {
                let query = request.uri().query().unwrap_or_default().to_owned();
                let what = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
                let accepted = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
                if server.only_json && accepted != Some(JSON) {
                    server.refused.fetch_add(1, Ordering::Relaxed);
                    let body = Full::from("only JSON").map_err(|never| match never {}).boxed_unsync();
                    return Ok(Response::builder().status(406).body(body).expect("a response"));
                }
                let accepted = accepted.unwrap_or_default();
                let media: Vec<&str> = accepted.split(", ").filter_map(|range| range.split(';').next()).collect();
                let both = [Encoding::PROTOBUF, JSON, JSON];
                let expected = match query.contains("watch=true") || !accepted.contains("as=") {
                    _ if server.only_json => &both[1..2],
                    true => &both[..2],
                    false => &both,
                };
                assert_eq!(media, expected, "{what}");
                let (code, media, body) = match server.answer(&what, &query, accepted) {
                    Some((code, media, body)) => {
                        (code, media, Full::from(body).map_err(|never| match never {}).boxed_unsync())
                    }
                    None if query.contains("watch=true") => {
                        (200, JSON, StreamBody::new(stream::pending::<Silence>()).boxed_unsync())
                    }
                    None => return std::future::pending().await,
                };
                let response = Response::builder().status(code).header(CONTENT_TYPE, media);
                Ok::<_, std::io::Error>(response.body(body).expect("a response"))
            }
        });
        kube::Client::new(service, "default")
    }

    /// A reporter that does not write, so that its queue can be counted.
    fn reporter(&self) -> Reporter {
        let (follows, leading) = watch::channel(Leadership::UNKNOWN);
        tokio::spawn(async move { follows.closed().await });
        Reporter::new(&self.client(), &self.client(), "host", &leading)
    }

    /// Watches pods, and returns the machine's events.
    fn heard(&self) -> (mpsc::UnboundedReceiver<Event>, Arc<source::Shared>, Reporter) {
        self.heard_of::<Pods>()
    }

    fn heard_of<K: Kind>(&self) -> (mpsc::UnboundedReceiver<Event>, Arc<source::Shared>, Reporter) {
        let (handle, heard) = listener();
        let reporter = self.reporter();
        let shared = Arc::<source::Shared>::default();
        tokio::spawn(Source::<K>::new(self.client(), handle, reporter.clone(), Arc::clone(&shared)).run());
        (heard, shared, reporter)
    }
}

fn pod(name: &str, uid: &str, version: &str) -> Value {
    let metadata = json!({
        "namespace": "default", "name": name, "uid": uid, "resourceVersion": version,
        "managedFields": [{ "manager": "x", "fieldsV1": { "f:metadata": {} } }],
    });
    json!({ "metadata": metadata, "spec": { "containers": [{ "name": "c", "image": "i" }] } })
}

/// Receives the next event and keeps the runtime busy meanwhile: events come from a thread, and a paused clock advances while the runtime
/// only waits.
async fn next_at_once(heard: &mut mpsc::UnboundedReceiver<Event>) -> Event {
    loop {
        match heard.try_recv() {
            Ok(event) => return event,
            Err(mpsc::error::TryRecvError::Empty) => tokio::task::yield_now().await,
            Err(mpsc::error::TryRecvError::Disconnected) => panic!("more to come"),
        }
    }
}

fn line(kind: &str, object: &Value) -> Value {
    json!({ "type": kind, "object": object })
}

async fn told(heard: &mut mpsc::UnboundedReceiver<Event>, count: usize) -> Vec<String> {
    let mut told = Vec::new();
    while told.len() < count {
        told.push(match heard.recv().await.expect("more to come") {
            // Precedes each relist.
            Event::PodsRelisted => continue,
            Event::PodApplied(pod) => format!("+{}", pod.uid),
            Event::PodDeleted { uid } => format!("-{uid}"),
            other => format!("{other:?}"),
        });
    }
    told
}

#[tokio::test(start_paused = true)]
async fn what_is_listed_and_what_changes_is_told_in_order() {
    let server = Server::default();
    server.lists("10", &[pod("a", "u1", "5"), pod("b", "u2", "6")]).watches(&[
        line("ADDED", &pod("c", "u3", "11")),
        line("MODIFIED", &pod("a", "u1", "12")),
        line("DELETED", &pod("b", "u2", "13")),
    ]);
    let (mut heard, shared, _) = server.heard();
    assert_eq!(told(&mut heard, 5).await, ["+u1", "+u2", "+u3", "+u1", "-u2"]);
    let mut reached = shared.reached.subscribe();
    reached.wait_for(|version| *version == 13).await.expect("the source lives");
    assert!(shared.listed.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_from_the_bookmark_that_it_was_told() {
    let server = Server::default();
    let bookmark = json!({ "metadata": { "resourceVersion": "99" } });
    server.lists("10", &[]).watches(&[line("BOOKMARK", &bookmark)]).watches(&[line("ADDED", &pod("a", "u1", "100"))]);
    let (mut heard, _, _) = server.heard();
    assert_eq!(told(&mut heard, 1).await, ["+u1"]);
    let asked = server.asked.lock().expect("unpoisoned").clone();
    assert!(asked[1].contains("resourceVersion=10") && asked[2].contains("resourceVersion=99"), "{asked:?}");
    assert!(asked.iter().all(|query| query.contains("fieldSelector=status.phase")), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_too_far_behind_is_followed_by_a_list_and_what_vanished_is_told() {
    let expired = json!({ "kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version" });
    for gone in [true, false] {
        let server = Server::default();
        server.lists("10", &[pod("a", "u1", "5"), pod("b", "u2", "6"), pod("c", "u3", "7")]);
        // The API server sends it in the watch, or before.
        if gone {
            server.watches(&[line("ERROR", &expired)]);
        } else {
            server.answers("watch", 410, &expired);
        }
        server.lists("20", &[pod("a", "u1", "5"), pod("b", "u9", "15")]);
        let (mut heard, _, _) = server.heard();
        assert_eq!(told(&mut heard, 7).await, ["+u1", "+u2", "+u3", "+u1", "-u2", "+u9", "-u3"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_makes_no_sense_is_left_out_reported_and_stops_nothing() {
    let mut negative = pod("bad", "u2", "6");
    negative["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": "many" } });
    let mut undecodable = pod("worse", "u3", "7");
    undecodable["spec"]["containers"] = json!("none");
    let server = Server::default();
    server.lists("10", &[negative.clone(), undecodable.clone(), pod("a", "u1", "8")]);
    for object in [&mut negative, &mut undecodable] {
        object["metadata"]["resourceVersion"] = json!("11");
    }
    server.watches(&[
        line("MODIFIED", &negative),
        line("MODIFIED", &undecodable),
        line("ADDED", &pod("b", "u4", "11")),
    ]);
    let (mut heard, shared, reporter) = server.heard();
    assert_eq!(told(&mut heard, 2).await, ["+u1", "+u4"]);
    assert_eq!(shared.tally().unusable, 4);
    assert_eq!(reporter.events().tally().waiting, 4);
}

#[tokio::test(start_paused = true)]
async fn failures_are_tried_again_and_a_list_is_put_together_from_its_pages() {
    let server = Server::default();
    let forbidden = json!({ "kind": "Status", "code": 403, "message": "pods is forbidden" });
    server.answers("list", 403, forbidden).answers("list", 500, "oops");
    let first = json!({ "metadata": { "continue": "more" }, "items": [pod("a", "u1", "5")] });
    server.answers("list", 200, first).lists("10", &[pod("b", "u2", "6")]);
    server
        .watches(&[])
        .answers("watch", 200, "{\"type\":\"ADDED\",\"obj")
        .watches(&[line("ADDED", &pod("c", "u3", "11"))]);
    let (mut heard, shared, _) = server.heard();
    assert_eq!(told(&mut heard, 3).await, ["+u1", "+u2", "+u3"]);
    // The missing answer after the script counts too, as a watch that was lost.
    assert!(shared.tally().failures >= 2);
    let asked = server.asked.lock().expect("unpoisoned").clone();
    assert!(asked[3].contains("continue=more"), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_grows_too_large_is_left_out_and_reported_until_it_is_smaller() {
    let node = |labels: usize, version: &str| {
        let labels: serde_json::Map<_, _> = (0..labels).map(|number| (format!("k{number}"), json!("v"))).collect();
        json!({ "metadata": { "name": "n", "uid": "u1", "labels": labels, "resourceVersion": version } })
    };
    let server = Server::default();
    let list = json!({ "metadata": { "resourceVersion": "10" }, "items": [node(3, "5")] });
    server.answers("list nodes", 200, list);
    let changes = [node(1_025, "11"), node(1_025, "12"), node(4, "13")].map(|node| line("MODIFIED", &node));
    server.answers("watch nodes", 200, changes.map(|change| format!("{change}\n")).concat());
    let (mut heard, shared, reporter) = server.heard_of::<Nodes>();
    let mut labels = Vec::new();
    for _ in 0..3 {
        labels.push(match heard.recv().await.expect("more to come") {
            Event::NodeApplied(node) => Some(node.labels.len()),
            Event::NodeDeleted { .. } => None,
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(labels, [Some(3), None, Some(4)]);
    assert_eq!((shared.tally().unusable, reporter.events().tally().waiting > 0), (2, true));
}

#[tokio::test(start_paused = true)]
async fn a_selector_that_is_too_large_is_counted_once_and_reported() {
    let service = |labels: usize, version: &str| {
        let selector: serde_json::Map<_, _> = (0..labels).map(|number| (format!("k{number}"), json!("v"))).collect();
        let metadata = json!({ "name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": version });
        json!({ "metadata": metadata, "spec": { "selector": selector } })
    };
    let server = Server::default();
    let list = json!({ "metadata": { "resourceVersion": "10" }, "items": [service(100_000, "5")] });
    server.answers("list services", 200, list);
    let changes = [service(100_000, "11"), service(1, "12")].map(|service| line("MODIFIED", &service));
    server.answers("watch services", 200, changes.map(|change| format!("{change}\n")).concat());
    let (mut heard, shared, reporter) = server.heard_of::<AllThat<Service>>();
    let mut selects = Vec::new();
    for _ in 0..3 {
        let event = heard.recv().await.expect("more to come");
        let Event::SelectorApplied { selector, .. } = event else { panic!("{event:?}") };
        selects.push(selector != LabelSelector::Nothing);
    }
    assert_eq!(selects, [false, false, true]);
    assert_eq!((shared.tally().unusable, reporter.events().tally().waiting > 0), (1, true));
}

#[tokio::test(start_paused = true)]
async fn what_a_watch_tells_again_is_not_told_and_not_watched_from() {
    let server = Server::default();
    let bookmark = json!({ "metadata": { "resourceVersion": "11" } });
    server.lists("10", &[pod("a", "u1", "5")]).watches(&[
        line("MODIFIED", &pod("a", "u1", "13")),
        // A replay: its deleted objects have long been recreated.
        line("ADDED", &pod("b", "u2", "11")),
        line("DELETED", &pod("a", "u1", "12")),
        line("BOOKMARK", &bookmark),
        line("ADDED", &pod("c", "u3", "14")),
    ]);
    server.watches(&[line("ADDED", &pod("d", "u4", "15"))]);
    let (mut heard, shared, _) = server.heard();
    assert_eq!(told(&mut heard, 4).await, ["+u1", "+u1", "+u3", "+u4"]);
    assert_eq!(shared.tally().stale, 2);
    let asked = server.asked.lock().expect("unpoisoned").clone();
    assert!(asked[2].contains("resourceVersion=14"), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_list_of_an_api_server_that_lags_behind_is_asked_for_anew() {
    let expired = json!({ "kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version" });
    let server = Server::default();
    server.lists("20", &[pod("a", "u1", "5"), pod("b", "u2", "19")]).answers("watch", 410, &expired);
    // Another API server, which lags behind the second pod.
    server.lists("15", &[pod("a", "u1", "5")]).lists("15", &[pod("a", "u1", "5")]);
    server.lists("21", &[pod("b", "u2", "19")]);
    let (mut heard, shared, _) = server.heard();
    assert_eq!(told(&mut heard, 4).await, ["+u1", "+u2", "+u2", "-u1"]);
    assert_eq!(shared.tally().stale, 2);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_was_restored_from_a_backup_is_believed_in_the_end() {
    let expired = json!({ "kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version" });
    let server = Server::default();
    server.lists("2000", &[pod("a", "u1", "5"), pod("b", "u2", "19")]).answers("watch", 410, &expired);
    for _ in 0..11 {
        server.lists("100", &[pod("a", "u1", "5")]);
    }
    server.watches(&[line("ADDED", &pod("c", "u3", "101"))]);
    let (mut heard, shared, _) = server.heard();
    assert_eq!(told(&mut heard, 6).await, ["+u1", "+u2", "WentBack", "+u1", "-u2", "+u3"]);
    assert_eq!(shared.tally().stale, 10);
}

/// etcd's documentation raises the versions of a restored backup above all earlier ones, so that no list looks old.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_was_restored_with_higher_versions_is_told_by_its_objects() {
    let expired = json!({ "kind": "Status", "code": 410, "reason": "Expired", "message": "required revision has been compacted" });
    let placed = |name: &str, uid: &str, version: &str| {
        let mut pod = pod(name, uid, version);
        pod["spec"]["nodeName"] = json!("n1");
        pod
    };
    let cases = [
        ("a pod is not on its node any more", pod("a", "u1", "5"), ["+u1", "+u2", "WentBack", "+u1", "+u2", "+u3"]),
        ("it was written since", pod("a", "u1", "1007"), ["+u1", "+u2", "WentBack", "+u1", "+u2", "+u3"]),
        ("it is as it was", placed("a", "u1", "19"), ["+u1", "+u2", "+u1", "+u2", "+u3", ""]),
    ];
    for (case, listed, expected) in cases {
        let server = Server::default();
        server.lists("20", &[placed("a", "u1", "19"), pod("b", "u2", "7")]).answers("watch", 410, &expired);
        let restored = [listed, pod("b", "u2", "7")];
        server.lists("1008", &restored).lists("1008", &restored).watches(&[line("ADDED", &pod("c", "u3", "1009"))]);
        let (mut heard, _, _) = server.heard();
        let expected: Vec<&str> = expected.into_iter().filter(|event| !event.is_empty()).collect();
        // Unchanged objects need no second list; the scripted watch comes after the first.
        assert_eq!(told(&mut heard, expected.len()).await, expected, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_second_page_is_too_late_begins_anew_and_takes_nothing_away_by_itself() {
    let expired = json!({ "kind": "Status", "code": 410, "reason": "Expired", "message": "the continue is too old" });
    let server = Server::default();
    let first = json!({ "metadata": { "resourceVersion": "10", "continue": "more" }, "items": [pod("a", "u1", "5")] });
    server.answers("list", 200, &first).answers("list", 410, &expired);
    server.lists("12", &[pod("a", "u1", "5"), pod("b", "u2", "6")]).watches(&[line("ADDED", &pod("c", "u3", "13"))]);
    let (mut heard, _, _) = server.heard();
    assert_eq!(told(&mut heard, 4).await, ["+u1", "+u1", "+u2", "+u3"]);
    let asked = server.asked.lock().expect("unpoisoned").clone();
    assert!(asked[1].contains("continue=more") && !asked[2].contains("continue"), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_the_future_of_an_api_server_is_tried_again_until_it_has_caught_up() {
    let future = json!({ "kind": "Status", "code": 504, "reason": "Timeout", "message": "Too large resource version" });
    let server = Server::default();
    server.lists("10", &[pod("a", "u1", "5")]).answers("watch", 504, &future).answers("watch", 504, &future);
    server.watches(&[line("DELETED", &pod("a", "u1", "11"))]);
    let (mut heard, shared, _) = server.heard();
    assert_eq!(told(&mut heard, 2).await, ["+u1", "-u1"]);
    // The missing answer after the script counts too, as a watch that was lost.
    assert!(shared.tally().failures >= 2);
    assert_eq!(shared.tally().lists, 1, "no list for that");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_vanished_while_nobody_watched_is_gone_and_one_of_its_name_is_another() {
    let node = |name: &str, uid: &str, version: &str| json!({ "metadata": { "name": name, "uid": uid, "resourceVersion": version } });
    let server = Server::default();
    let list = |version: &str, items: [Value; 2]| json!({ "metadata": { "resourceVersion": version }, "items": items });
    server.answers("list nodes", 200, list("10", [node("a", "u1", "5"), node("b", "u2", "6")]));
    server.answers("watch nodes", 200, "nonsense\n");
    server.answers("list nodes", 200, list("20", [node("b", "u9", "16"), node("c", "u3", "17")]));
    let (mut heard, _, _) = server.heard_of::<Nodes>();
    let mut told = Vec::new();
    while told.len() < 6 {
        told.push(match heard.recv().await.expect("more to come") {
            Event::NodeApplied(node) => format!("+{}", node.uid),
            Event::NodeDeleted { name } => format!("-{name}"),
            other => format!("{other:?}"),
        });
    }
    assert_eq!(told, ["+u1", "+u2", "-b", "+u9", "+u3", "-a"]);
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_no_line_of_a_watch_leads_to_a_new_list() {
    let server = Server::default();
    server.lists("10", &[pod("a", "u1", "5")]).answers("watch", 200, "nonsense\n").lists("20", &[]);
    let (mut heard, _, _) = server.heard();
    assert_eq!(told(&mut heard, 2).await, ["+u1", "-u1"]);
}

#[tokio::test(start_paused = true)]
async fn a_leader_has_caught_up_once_the_watch_is_told_a_version_that_is_new_enough() {
    let server = Server::default();
    let (handle, mut heard) = listener();
    let reporter = server.reporter();
    server.lists("10", &[]);
    let stop = CancellationToken::new();
    let mut watches = Watches::start(server.client(), handle, reporter, needs(&[profile()]), begun(), stop);
    watches.wait_synced().await;
    assert_eq!(next_at_once(&mut heard).await, Event::Synced);
    // All watches hang. The hurried one is the next to be answered.
    server.is_watched().await;
    let bookmark = json!({ "metadata": { "resourceVersion": "50" } });
    server.lists("50", &[]).watches(&[line("BOOKMARK", &bookmark)]);
    let begun = tokio::time::Instant::now();
    assert_eq!(watches.catch_up().await, Ok(()));
    assert!(begun.elapsed() < BARRIER, "{:?}", begun.elapsed());
    assert!(server.asked.lock().expect("unpoisoned").iter().any(|query| query.contains("timeoutSeconds=3")));
}

/// No bookmark comes. The cluster has reached 50, and its pods 40.
#[tokio::test(start_paused = true)]
async fn a_leader_has_caught_up_once_the_watch_has_told_of_the_newest_pod() {
    let server = Server::default();
    let (handle, _heard) = listener();
    let reporter = server.reporter();
    let (old, new) = (pod("web-1", "u1", "10"), pod("web-2", "u2", "40"));
    server.lists("10", std::slice::from_ref(&old));
    let stop = CancellationToken::new();
    let mut watches = Watches::start(server.client(), handle, reporter, needs(&[profile()]), begun(), stop);
    watches.wait_synced().await;
    let versions = json!({ "metadata": { "resourceVersion": "50" }, "items": [old, new] });
    server.lists("50", &[]).answers("metadata", 200, &versions).watches(&[line("ADDED", &new)]);
    let begun = tokio::time::Instant::now();
    assert_eq!(watches.catch_up().await, Ok(()));
    assert_eq!((watches.newest_pod(), *watches.pods.reached.borrow()), (40, 40));
    assert!(begun.elapsed() < BARRIER, "{:?}", begun.elapsed());
    let asked = server.asked.lock().expect("unpoisoned");
    assert!(asked.iter().any(|query| query.contains("limit=1000") && query.contains("fieldSelector")), "{asked:?}");
}

/// A leader hands over the version of a pod, never that of a list or a bookmark, which another watch may not receive.
#[tokio::test(start_paused = true)]
async fn what_a_leader_tells_the_next_is_a_version_that_every_watch_of_pods_is_told() {
    let server = Server::default();
    let (handle, _heard) = listener();
    let reporter = server.reporter();
    let bookmark = json!({ "metadata": { "resourceVersion": "90" } });
    server
        .lists("40", &[pod("web-1", "u1", "10"), pod("web-2", "u2", "12")])
        .watches(&[line("MODIFIED", &pod("web-1", "u1", "50")), line("DELETED", &pod("web-2", "u2", "60"))])
        .watches(&[line("BOOKMARK", &bookmark)]);
    let stop = CancellationToken::new();
    let mut watches = Watches::start(server.client(), handle, reporter, needs(&[profile()]), begun(), stop);
    assert_eq!(watches.newest_pod(), 0);
    watches.wait_synced().await;
    assert_eq!(watches.reach(60).await, Ok(()));
    assert_eq!(watches.reach(90).await, Ok(()));
    assert_eq!(watches.newest_pod(), 60);
    let begun = tokio::time::Instant::now();
    let reason = watches.reach(91).await.expect_err("nobody tells of it");
    assert_eq!(reason, "the pod cache has not reached version 91 within 1s");
    assert_eq!(begun.elapsed(), HANDOVER);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_tell_whether_its_view_has_caught_up_is_told_so() {
    let server = Server::default();
    let (handle, _heard) = listener();
    let reporter = server.reporter();
    let watches =
        Watches::start(server.client(), handle, reporter, needs(&[profile()]), begun(), CancellationToken::new());
    let begun = tokio::time::Instant::now();
    let reason = watches.catch_up().await.expect_err("the API server is silent");
    assert!(reason.contains("not synced after 5s"), "{reason}");
    assert_eq!(begun.elapsed(), BARRIER);
    server.answers("list", 429, json!({ "kind": "Status", "code": 429, "message": "Too many requests" }));
    let reason = watches.catch_up().await.expect_err("the list is refused");
    assert!(reason.contains("Too many requests"), "{reason}");
}

/// A leader's request is immediate, although after its failures the watch would rest for 15 s.
#[tokio::test(start_paused = true)]
async fn a_watch_that_rests_after_failures_is_tried_at_once_when_a_leader_waits_for_it() {
    let server = Server::default();
    server.lists("10", &[]);
    for _ in 0..40 {
        server.answers("watch", 429, json!({ "kind": "Status", "code": 429, "message": "Too many requests" }));
    }
    let (_heard, shared, _) = server.heard();
    while shared.tally().failures < 12 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.script.lock().expect("unpoisoned").clear();
    let bookmark = json!({ "metadata": { "resourceVersion": "50" } });
    server.watches(&[line("BOOKMARK", &bookmark)]);
    let begun = tokio::time::Instant::now();
    shared.hurry.notify_one();
    shared.reached.subscribe().wait_for(|reached| *reached == 50).await.expect("the source lives");
    assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_by_a_panic_is_told_to_who_leads() {
    let (handle, _heard) = listener();
    let server = Server::default();
    let service = tower::service_fn(|request: http::Request<Body>| async move {
        assert!(!request.uri().path().ends_with("/nodes"), "as asked");
        std::future::pending::<Result<Response<Body>, std::io::Error>>().await
    });
    let client = kube::Client::new(service, "default");
    let reporter = server.reporter();
    let watches = Watches::start(client, handle, reporter, needs(&[profile()]), begun(), CancellationToken::new());
    let reason = watches.ended().await;
    assert!(reason.contains("panicked"), "{reason}");
    assert!(!watches.synced());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_of_the_api_server_before_the_watches_are_to_begin() {
    let server = Server::default();
    let (handle, _heard) = listener();
    let begin = CancellationToken::new();
    let reporter = server.reporter();
    server.lists("10", &[]);
    let mut watches =
        Watches::start(server.client(), handle, reporter, needs(&[profile()]), begin.clone(), CancellationToken::new());
    tokio::time::sleep(BARRIER).await;
    assert_eq!(server.asked.lock().expect("unpoisoned").len(), 0);
    begin.cancel();
    watches.wait_synced().await;
}

#[tokio::test(start_paused = true)]
async fn the_age_of_the_view_is_the_time_since_the_api_server_told_anything_of_pods_or_nodes() {
    let server = Server::default();
    let (handle, _heard) = listener();
    let reporter = server.reporter();
    let bookmark = json!({ "metadata": { "resourceVersion": "50" } });
    server.lists("10", &[]);
    let mut watches =
        Watches::start(server.client(), handle, reporter, needs(&[profile()]), begun(), CancellationToken::new());
    assert_eq!(watches.age(), Duration::ZERO, "nothing is told yet");
    watches.wait_synced().await;
    let age_of = |wanted: &str| watches.tallies().find(|(what, _)| *what == wanted).map(|(_, tally)| tally.age);
    tokio::time::sleep(Duration::from_secs(90)).await;
    // Watches were reopened meanwhile, which confirms nothing.
    assert!(server.asked.lock().expect("unpoisoned").len() > 2);
    assert_eq!(watches.age().as_secs(), 90);
    // A list of the pods for the comparison is not answered.
    server.watches(&[line("BOOKMARK", &bookmark)]);
    while age_of("pods").is_some_and(|age| age > Duration::from_secs(1)) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(age_of("nodes") > age_of("pods"), "the bookmark was of pods");
    assert_eq!(Some(watches.age()), age_of("nodes"));
}

#[tokio::test(start_paused = true)]
async fn pages_that_are_too_large_to_be_held_are_asked_for_in_smaller_ones() {
    let server = Server::default();
    for _ in 0..2 {
        server.answers("list", 200, " ".repeat(49 << 20));
    }
    server.lists("10", &[pod("a", "u1", "5")]);
    let (mut heard, _, _) = server.heard();
    assert_eq!(told(&mut heard, 1).await, ["+u1"]);
    let asked = server.asked.lock().expect("unpoisoned").clone();
    let limits = asked.iter().filter_map(|query| query.split("limit=").nth(1)?.split('&').next());
    // Metadata lists follow, after the clock has advanced.
    assert_eq!(limits.take(3).collect::<Vec<_>>(), ["1000", "250", "62"]);
}

/// An object of the namespace `shop` with further fields of the API server, which are not read.
fn selecting(name: &str, uid: &str, version: &str, selector: &Value) -> Value {
    let metadata = json!({
        "namespace": "shop", "name": name, "uid": uid, "resourceVersion": version, "labels": { "a": "b" },
        "annotations": ["not", "even", "a", "map"], "ownerReferences": [{ "kind": "Deployment" }],
    });
    json!({ "metadata": metadata, "spec": { "selector": selector, "replicas": "many" }, "status": { "replicas": 3 } })
}

#[tokio::test(start_paused = true)]
async fn namespaces_are_told_with_their_labels_and_when_they_are_gone() {
    let namespace = |name: &str, version: &str, labels: Value| json!({ "metadata": { "name": name, "uid": name, "resourceVersion": version, "labels": labels } });
    let server = Server::default();
    let first = [namespace("shop", "5", json!({ "team": "x", "env": "test" })), namespace("bare", "6", Value::Null)];
    server.answers("list namespaces", 200, json!({ "metadata": { "resourceVersion": "10" }, "items": first }));
    let changes = [
        line("MODIFIED", &namespace("bare", "11", json!({ "team": "y" }))),
        line("DELETED", &namespace("shop", "12", json!({ "team": "x" }))),
    ];
    server.answers("watch namespaces", 200, changes.map(|change| format!("{change}\n")).concat());
    let (mut heard, shared, _) = server.heard_of::<Namespaces>();
    let applied = |name: &str, labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|(key, value)| (Arc::from(*key), Arc::from(*value))).collect();
        Event::NamespaceApplied { name: Arc::from(name), labels }
    };
    let expected = [
        applied("shop", &[("env", "test"), ("team", "x")]),
        applied("bare", &[]),
        applied("bare", &[("team", "y")]),
        Event::NamespaceDeleted { name: Arc::from("shop") },
    ];
    for event in expected {
        assert_eq!(heard.recv().await, Some(event));
    }
    assert_eq!(shared.tally().unusable, 0);
}

/// The machine's events for an object that is listed with each of these selectors in turn, and then deleted.
async fn told_of<K: Kind>(selectors: &[Value]) -> Vec<Event> {
    let server = Server::default();
    for selector in selectors {
        let items = [selecting("web", "u1", "5", selector)];
        let list = json!({ "metadata": { "resourceVersion": "10" }, "items": items });
        server.answers(format!("list {}", K::WHAT), 200, list);
        server.answers(format!("watch {}", K::WHAT), 200, "nonsense\n");
    }
    let (mut heard, shared, _) = server.heard_of::<K>();
    let mut told = Vec::new();
    while told.len() <= selectors.len() {
        told.push(heard.recv().await.expect("more to come"));
    }
    assert_eq!(shared.tally().unusable, 0);
    told
}

#[tokio::test(start_paused = true)]
async fn services_and_controllers_are_told_with_what_they_select() {
    let map = [json!({ "app": "web" }), Value::Null];
    let selector =
        [json!({ "matchLabels": { "app": "web" } }), json!({ "matchExpressions": [{ "key": "a", "operator": "?" }] })];
    let controller = SelectingKind::Controller;
    let table = [
        (SelectingKind::Service, told_of::<AllThat<Service>>(&map).await),
        (controller(OwnerKind::ReplicationController), told_of::<AllThat<ReplicationController>>(&map).await),
        (controller(OwnerKind::ReplicaSet), told_of::<AllThat<ReplicaSet>>(&selector).await),
        (controller(OwnerKind::StatefulSet), told_of::<AllThat<StatefulSet>>(&selector).await),
    ];
    for (kind, told) in table {
        let object = Selecting { kind, namespace: Arc::from("shop"), name: Arc::from("web") };
        let web = LabelSelector::equal([(&Arc::from("app"), &Arc::from("web"))]);
        let expected = [
            Event::SelectorApplied { object: object.clone(), selector: web },
            Event::SelectorApplied { object: object.clone(), selector: LabelSelector::Nothing },
            Event::SelectorDeleted { object },
        ];
        assert_eq!(told, expected, "{kind:?}");
    }
}

/// The machine's events for a storage object that is listed, and then deleted.
async fn told_of_storage<K: Kind>(mut object: Value) -> [Event; 2] {
    let server = Server::default();
    object["metadata"]["managedFields"] = json!([{ "manager": "x", "fieldsV1": { "f:metadata": {} } }]);
    let list = |items: &[&Value]| json!({ "metadata": { "resourceVersion": "10" }, "items": items });
    server.answers(format!("list {}", K::WHAT), 200, list(&[&object]));
    object["metadata"]["resourceVersion"] = json!("11");
    server.answers(format!("watch {}", K::WHAT), 200, format!("{}\n", line("DELETED", &object)));
    let (mut heard, shared, _) = server.heard_of::<K>();
    let mut told = Vec::new();
    while told.len() < 2 {
        let event = heard.recv().await.expect("more to come");
        told.extend(Some(event).filter(|event| !matches!(event, Event::ClaimsListed { .. })));
    }
    assert_eq!(shared.tally().unusable, 0);
    told.try_into().expect("there are two")
}

#[tokio::test(start_paused = true)]
async fn claims_volumes_and_classes_are_told_with_what_scheduling_reads() {
    let claim = Claim {
        namespace: "shop".into(),
        name: "data".into(),
        uid: "u".into(),
        resource_version: "7".into(),
        volume_name: "pv".into(),
        bind_completed: true,
        has_annotations: true,
        is_lost: true,
        ..Claim::default()
    };
    let of_claim = json!({
        "metadata": { "namespace": "shop", "name": "data", "uid": "u", "resourceVersion": "7",
            "annotations": { "pv.kubernetes.io/bind-completed": "yes" } },
        "spec": { "volumeName": "pv" }, "status": { "phase": "Lost" },
    });
    let volume = Volume { name: "pv".into(), uid: "u".into(), is_available: true, ..Volume::default() };
    let of_volume = json!({ "metadata": { "name": "pv", "uid": "u" }, "status": { "phase": "Available" } });
    let class = StorageClass {
        name: "fast".into(),
        provisioner: "p".into(),
        binding_mode: Some(BindingMode::WaitForFirstConsumer),
        allowed_topologies: vec![vec![("zone".into(), vec!["a".into()])]],
    };
    let of_class = json!({
        "metadata": { "name": "fast" }, "provisioner": "p", "parameters": { "a": "b" },
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{ "matchLabelExpressions": [{ "key": "zone", "values": ["a"] }] }],
    });
    check_told([
        (StorageObject::Claim(claim), told_of_storage::<AllOf<stored::PersistentVolumeClaim>>(of_claim).await),
        (StorageObject::Volume(volume), told_of_storage::<AllOf<stored::PersistentVolume>>(of_volume).await),
        (StorageObject::StorageClass(class), told_of_storage::<AllOf<stored::StorageClass>>(of_class).await),
    ]);
}

#[tokio::test(start_paused = true)]
async fn drivers_nodes_capacities_and_attachments_are_told_with_what_scheduling_reads() {
    let driver = CsiDriver { name: "d".into(), storage_capacity: true, prevents_if_missing: true };
    let of_driver = json!({
        "metadata": { "name": "d" }, "spec": { "storageCapacity": true, "preventPodSchedulingIfMissing": true },
    });
    let capacity = StorageCapacity {
        namespace: "system".into(),
        name: "room".into(),
        storage_class: "fast".into(),
        node_topology: Some(LabelSelector::EVERYTHING),
        capacity: Some(Quantity::from_units(2)),
        maximum_volume_size: Some(Quantity::from_units(1)),
    };
    let of_capacity = json!({
        "metadata": { "namespace": "system", "name": "room" }, "storageClassName": "fast", "nodeTopology": {},
        "capacity": "2", "maximumVolumeSize": "1",
    });
    let node = CsiNode { name: "n".into(), drivers: vec![("d".into(), Some(3))], migrated_plugins: vec!["p".into()] };
    let of_node = json!({
        "metadata": { "name": "n", "annotations": { "storage.alpha.kubernetes.io/migrated-plugins": "p" } },
        "spec": { "drivers": [{ "name": "d", "nodeID": "n", "allocatable": { "count": 3 } }] },
    });
    let volume_attachment =
        VolumeAttachment { name: "at".into(), attacher: "d".into(), node: "n".into(), volume: Some("pv".into()) };
    let of_attachment = json!({
        "metadata": { "name": "at" }, "status": { "attached": true },
        "spec": { "attacher": "d", "nodeName": "n", "source": { "persistentVolumeName": "pv" } },
    });
    let told_of_capacity = told_of_storage::<AllOf<stored::CsiStorageCapacity>>(of_capacity).await;
    let told_of_attachment = told_of_storage::<AllOf<stored::VolumeAttachment>>(of_attachment).await;
    check_told([
        (StorageObject::CsiDriver(driver), told_of_storage::<AllOf<stored::CsiDriver>>(of_driver).await),
        (StorageObject::StorageCapacity(capacity), told_of_capacity),
        (StorageObject::CsiNode(node), told_of_storage::<AllOf<stored::CsiNode>>(of_node).await),
        (StorageObject::VolumeAttachment(volume_attachment), told_of_attachment),
    ]);
}

fn check_told(table: impl IntoIterator<Item = (StorageObject, [Event; 2])>) {
    for (object, told) in table {
        let key = object.key();
        assert_eq!(told, [Event::ObjectApplied(object.into()), Event::ObjectDeleted(key.into())]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_of_storage_that_makes_no_sense_spoils_no_other() {
    let server = Server::default();
    let of = |name: &str, amount: &str| json!({ "metadata": { "name": name }, "spec": { "capacity": { "storage": amount } } });
    let list = json!({ "metadata": { "resourceVersion": "10" }, "items": [of("a", "much"), of("b", "1")] });
    server.answers("list persistentvolumes", 200, list);
    let (mut heard, shared, _) = server.heard_of::<AllOf<stored::PersistentVolume>>();
    let capacity = Quantity::from_units(1);
    let good = Volume { name: "b".into(), capacity, ..Volume::default() };
    assert_eq!(heard.recv().await, Some(Event::ObjectApplied(StorageObject::Volume(good).into())));
    assert_eq!(shared.tally().unusable, 1);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_judged_before_every_first_list_is_through() {
    let others = ["nodes", "namespaces", "services", "replicationcontrollers", "replicasets", "statefulsets"];
    let storage = ["persistentvolumeclaims", "persistentvolumes", "storageclasses", "csidrivers"];
    let more = ["csistoragecapacities", "csinodes", "volumeattachments"];
    for missing in others.into_iter().chain(storage).chain(more) {
        let server = Server::default();
        let forbidden = json!({ "kind": "Status", "code": 403, "message": format!("{missing} is forbidden") });
        let (handle, mut heard) = listener();
        let reporter = server.reporter();
        server.lists("10", &[pod("a", "u1", "5")]);
        for _ in 0..100 {
            server.answers(format!("list {missing}"), 403, &forbidden);
        }
        let mut watches =
            Watches::start(server.client(), handle, reporter, needs(&[profile()]), begun(), CancellationToken::new());
        assert_eq!(told(&mut heard, 1).await, ["+u1"]);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!watches.synced() && heard.try_recv().is_err(), "{missing}");
        assert_eq!(watches.unlisted(), [missing]);
        // Idle watches fail after a minute too, so that only lists distinguish the kinds.
        let failed = watches.tallies().filter(|(_, tally)| tally.lists == 0 && tally.failures > 1);
        assert_eq!(failed.map(|(what, _)| what).collect::<Vec<_>>(), [missing]);
        server.script.lock().expect("unpoisoned").clear();
        watches.wait_synced().await;
        assert_eq!(heard.recv().await, Some(Event::Synced), "{missing}");
        assert_eq!(watches.unlisted(), <[&str; 0]>::default());
    }
}

#[tokio::test(start_paused = true)]
async fn what_no_profile_needs_is_not_asked_for_until_one_does() {
    let server = Server::default();
    server.lists("10", &[]);
    let (handle, mut heard) = listener();
    let mut bare = profile();
    let is_kept =
        |name: &str| !matches!(name, "NodeVolumeLimits" | "VolumeBinding" | "VolumeRestrictions" | "VolumeZone");
    let plugins = &mut bare.plugins;
    for list in [&mut plugins.pre_filter, &mut plugins.filter, &mut plugins.reserve, &mut plugins.pre_bind] {
        list.retain(|name| is_kept(name));
    }
    plugins.pre_score.retain(|name| is_kept(name));
    plugins.score.retain(|score| is_kept(&score.name));
    let forbidden = json!({ "kind": "Status", "code": 403, "message": "volumeattachments is forbidden" });
    for _ in 0..100 {
        server.answers("list volumeattachments", 403, &forbidden);
    }
    let reporter = server.reporter();
    let watches = Watches::start(server.client(), handle, reporter, needs(&[bare]), begun(), CancellationToken::new());
    assert_eq!(heard.recv().await, Some(Event::Synced), "no right to read storage is needed");
    let whats: Vec<_> = watches.tallies().map(|(what, _)| what).collect();
    assert_eq!(whats.len(), 7, "{whats:?}");
    let patience = Duration::from_secs(30);
    let lacking = watches.provide(&[profile()], patience).await;
    assert_eq!(lacking, Err(vec!["volumeattachments"]), "the right to read it is lacking");
    server.script.lock().expect("unpoisoned").clear();
    assert_eq!(watches.provide(&[profile()], patience).await, Ok(()));
    assert_eq!(watches.tallies().count(), 14);
}

#[tokio::test(start_paused = true)]
async fn device_taint_rules_without_a_right_to_read_them_count_as_empty_and_other_kinds_do_not() {
    for (kind, is_needed) in [("devicetaintrules", false), ("resourceslices", true)] {
        let server = Server::default();
        server.lists("10", &[]);
        let (handle, _heard) = listener();
        let mut profile = profile();
        profile.plugins.post_filter = vec!["DynamicResources".to_owned()];
        let forbidden = json!({ "kind": "Status", "code": 403, "message": "it is forbidden" });
        for _ in 0..100 {
            server.answers(format!("list {kind}"), 403, &forbidden);
        }
        let (needs, stop) = (needs(std::slice::from_ref(&profile)), CancellationToken::new());
        let watches = Watches::start(server.client(), handle, server.reporter(), needs, begun(), stop);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(watches.synced(), !is_needed, "{kind}");
        assert_eq!(watches.unlisted().is_empty(), !is_needed, "{kind}");
        server.script.lock().expect("unpoisoned").clear();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let lists = watches.tallies().find(|(what, _)| *what == kind).map(|(_, tally)| tally.lists);
        assert_eq!(lists, Some(1), "{kind}: a right that is granted later is found");
    }
}

#[tokio::test(start_paused = true)]
async fn every_kind_that_a_plugin_may_read_can_be_watched_and_the_others_always_are() {
    let server = Server::default();
    let (handle, _heard) = listener();
    let features = Features { composite_groups: true, ..Features::default() };
    let (needs, stop) = (Needs { with_groups: true, features, ..needs(&[]) }, CancellationToken::new());
    let watches = Watches::start(server.client(), handle, server.reporter(), needs, begun(), stop);
    let whats: Vec<&str> = watches.all.iter().map(|(what, _)| *what).collect();
    let read = extension::Kind::ALL.map(extension::Kind::plural);
    let custom = "podgroups.scheduling.x-k8s.io";
    assert_eq!(whats, [&["pods", "nodes"][..], &read, &[custom, "podgroups", "compositepodgroups"]].concat());
    let whats = whats.into_iter().filter(|what| *what != custom);
    let mut encoded = flotilla_encoding::testing::KINDS.map(|(_, path)| path.rsplit('/').next().unwrap_or(path));
    encoded.sort_unstable();
    let whats: std::collections::BTreeSet<&str> = whats.collect();
    assert_eq!(whats.into_iter().collect::<Vec<_>>(), encoded, "each is compared in both encodings");
}

/// Whether a rule of a manifest allows its subject to list and watch a resource, by its path.
fn grants(manifest: &str, path: &str) -> bool {
    let (group, plural) = match path.trim_start_matches("/api").split('/').collect::<Vec<_>>()[..] {
        ["s", group, _, plural] => (group, plural),
        ["", _, plural] => ("", plural),
        _ => panic!("{path} is no path of a collection"),
    };
    let (group, plural) = (format!("apiGroups: [\"{group}\"]"), format!("\"{plural}\""));
    let mut rules = manifest.split("\n- ");
    rules.any(|rule| {
        let verbs = rule.split("verbs:").nth(1).unwrap_or_default();
        rule.starts_with(&group) && rule.contains(&plural) && verbs.contains("\"list\"") && verbs.contains("\"watch\"")
    })
}

#[test]
fn every_kind_may_be_listed_and_watched_by_the_rights_that_are_deployed() {
    for manifest in ["base/rbac.yaml", "overlays/shadow/rbac.yaml", "helm/flotilla/templates/rbac.yaml"] {
        let text = std::fs::read_to_string(format!("{}/../deploy/{manifest}", env!("CARGO_MANIFEST_DIR")));
        let text = text.expect("a manifest of the repository");
        for (kind, path) in flotilla_encoding::testing::KINDS {
            assert!(grants(&text, path), "{manifest} grants no list and watch of {kind}");
        }
        assert!(!grants(&text, "/api/v1/secrets") && !grants(&text, "/apis/apps/v1/pods"));
    }
}
