//! Conditions and events against a scripted API server.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use flotilla_encoding::{Encoding, testing::written};
use flotilla_framework::{
    class::{PodInfo, Scheduled},
    testing::pod,
};
use flotilla_machine::action::Reason;
use http::header::CONTENT_TYPE;
use http::{Method, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::lease;

/// A request: the method, the path, and the body.
type Asked = (Method, String, Value);
/// The answer to a request, with its number among its kind, from 0.
type Respond = Arc<dyn Fn(&Asked, usize) -> (u16, Value) + Send + Sync>;

#[derive(Clone)]
struct Server {
    say: Respond,
    asked: Arc<Mutex<Vec<Asked>>>,
    takes: Duration,
    /// Retry-After of each 429.
    retry_after: Option<&'static str>,
}

impl Server {
    fn new(say: impl Fn(&Asked, usize) -> (u16, Value) + Send + Sync + 'static) -> Self {
        Self { say: Arc::new(say), asked: Arc::default(), takes: Duration::ZERO, retry_after: None }
    }

    fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.expect("a body").to_bytes();
                let is_protobuf = head.headers.get(CONTENT_TYPE).is_some_and(|kind| kind == Encoding::PROTOBUF);
                let body = if is_protobuf { written(&body) } else { serde_json::from_slice(&body).expect("JSON") };
                let asked = (head.method, head.uri.path().to_owned(), body);
                let (code, said) = {
                    let mut all = server.asked.lock().expect("unpoisoned");
                    let before = all.iter().filter(|one: &&Asked| (&one.0, &one.1) == (&asked.0, &asked.1)).count();
                    all.push(asked.clone());
                    (server.say)(&asked, before)
                };
                if !server.takes.is_zero() {
                    tokio::time::sleep(server.takes).await;
                }
                let body = Body::from(said.to_string().into_bytes());
                let answer = Response::builder().status(code);
                let answer = match server.retry_after.filter(|_| code == 429) {
                    Some(after) => answer.header("retry-after", after),
                    None => answer,
                };
                Ok::<_, std::io::Error>(answer.body(body).expect("a response"))
            }
        });
        kube::Client::new(service, "default")
    }

    /// Requests to paths with this end.
    fn asked(&self, end: &str) -> Vec<Asked> {
        let asked = self.asked.lock().expect("unpoisoned").clone();
        asked.into_iter().filter(|(_, path, _)| path.ends_with(end)).collect()
    }

    fn reporter(&self) -> Reporter {
        let valid_until = lease::now() + Duration::from_secs(3_600);
        let (lead, leading) = watch::channel(Leadership::Leading { epoch: 1, valid_until });
        tokio::spawn(async move { lead.closed().await });
        Reporter::new(&self.client(), &self.client(), "host", &leading)
    }
}

fn failure(code: u16, message: &str) -> (u16, Value) {
    (code, json!({ "kind": "Status", "status": "Failure", "code": code, "message": message, "reason": "x" }))
}

/// A server that accepts everything, and gives each patched object the version 100 and more.
fn kind() -> Server {
    Server::new(|(_, _, body), before| {
        let mut said = body.clone();
        said["metadata"]["resourceVersion"] = json!((100 + before).to_string());
        (200, said)
    })
}

fn waiting(name: &str) -> PodInfo {
    pod(name).build()
}

fn seen(reporter: &Reporter, pod: &PodInfo, version: &str) {
    reporter.witness(&Event::PodApplied(Arc::new(pod.clone())), Some(version));
}

fn report(pod: &PodInfo, message: &str) -> Report {
    Report {
        uid: Arc::clone(&pod.uid),
        namespace: Arc::clone(&pod.class.namespace),
        name: Arc::clone(&pod.name),
        scheduler_name: Arc::clone(&pod.scheduler_name),
        generation: 1,
        reason: Reason::Unschedulable,
        message: message.to_owned(),
        write_condition: true,
        nomination: Nomination::Keep,
        attempt: 1,
        began_ms: None,
        trace: None,
    }
}

fn binding(pod: &PodInfo) -> Binding {
    Binding {
        uid: Arc::clone(&pod.uid),
        namespace: Arc::clone(&pod.class.namespace),
        name: Arc::clone(&pod.name),
        node: Arc::from("n1"),
        scheduler_name: Arc::clone(&pod.scheduler_name),
        attempt: 1,
        waited_ms: 0,
        began_ms: 0,
        decided_ms: 0,
        prepared_ms: None,
        pre_bound: Vec::new(),
        flushed: false,
        revision: 1,
        total: 0,
        extender: None,
        trace: None,
    }
}

/// Enough time for everything in flight to end, retries included.
async fn later() {
    tokio::time::sleep(Duration::from_secs(300)).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_refused_again_and_again_costs_one_condition_and_two_events_and_a_count() {
    let server = kind();
    let reporter = server.reporter();
    let pod = waiting("web");
    seen(&reporter, &pod, "7");
    for _ in 0..5 {
        reporter.report(report(&pod, "no"));
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    let patches = server.asked("/status");
    assert_eq!(patches.len(), 1, "{patches:?}");
    let (method, path, body) = &patches[0];
    assert_eq!((method, &**path), (&Method::PATCH, "/api/v1/namespaces/default/pods/web/status"));
    assert_eq!(body["metadata"], json!({ "uid": "uid-web", "resourceVersion": "7" }));
    // As kube-scheduler's: the first about the unchanged pod, the second about the pod with its condition, the third counts.
    let events = server.asked("/events");
    let versions: Vec<_> = events.iter().map(|(_, _, body)| body["regarding"]["resourceVersion"].clone()).collect();
    assert_eq!(versions, [json!("7"), json!("100")]);
    let counts: Vec<_> =
        server.asked.lock().expect("unpoisoned").iter().map(|asked| asked.2["series"]["count"].clone()).collect();
    assert_eq!(counts.iter().filter(|count| !count.is_null()).collect::<Vec<_>>(), [&json!(2)]);
    let (conditions, events) = (reporter.conditions().tally(), reporter.events().tally());
    assert_eq!((conditions.written, conditions.skipped), (1, 4));
    assert_eq!((events.written, events.skipped, events.waiting), (3, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn an_event_is_written_with_what_client_go_writes() {
    let server = kind();
    let reporter = server.reporter();
    let pod = waiting("web");
    seen(&reporter, &pod, "7");
    reporter.report(report(&pod, &"x".repeat(2_000)));
    let bind = reporter.binding(&binding(&pod));
    reporter.bound(&binding(&pod), &bind);
    later().await;
    let events = server.asked("/events");
    let texts = |body: &Value| ["type", "reason", "action"].map(|field| body[field].as_str().unwrap_or("").to_owned());
    assert_eq!(texts(&events[0].2), ["Warning", "FailedScheduling", "Scheduling"]);
    assert_eq!(texts(&events[1].2), ["Normal", "Scheduled", "Binding"]);
    assert_eq!(events[0].2["note"], format!("{} ...", "x".repeat(1_020)));
    assert_eq!(events[1].2["note"], "Successfully assigned default/web to n1");
    let regarding = json!({
        "apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "web", "uid": "uid-web",
        "resourceVersion": "7",
    });
    for (_, _, body) in &events {
        assert_eq!(body["regarding"], regarding);
        assert_eq!(body["reportingController"], "default-scheduler");
        assert_eq!(body["reportingInstance"], "default-scheduler-host");
        assert!(body.get("series").is_none() && body.get("deprecatedCount").is_none(), "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_no_protobuf_is_told_events_in_json_from_then_on() {
    // A time is a text in JSON only.
    let is_json = |body: &Value| body["eventTime"].as_str().is_some_and(|time| time.contains('T'));
    let server = Server::new(move |(_, _, body), _| match is_json(body) {
        true => (201, body.clone()),
        false => failure(415, "the body of the request was in an unknown format"),
    });
    let reporter = server.reporter();
    for name in ["one", "two", "three"] {
        let bind = reporter.binding(&binding(&waiting(name)));
        reporter.bound(&binding(&waiting(name)), &bind);
        drop(bind);
        later().await;
    }
    let asked = server.asked("/events");
    assert_eq!(asked.iter().map(|(_, _, body)| is_json(body)).collect::<Vec<_>>(), [false, true, true, true]);
    assert_eq!(asked[3].2["note"], "Successfully assigned default/three to n1");
    assert_eq!((reporter.events().tally().written, reporter.events().tally().refused), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_condition_is_never_written_over_a_binding_however_often_it_is_tried() {
    let server = Server::new(|_, _| failure(409, "the object has been modified"));
    let reporter = server.reporter();
    let pod = waiting("web");
    seen(&reporter, &pod, "7");
    reporter.report(report(&pod, "no"));
    tokio::time::sleep(Duration::from_secs(30)).await;
    let tried = server.asked("/status").len();
    assert!(tried > 1, "a conflict is tried again");
    seen(&reporter, &PodInfo { node_name: Some(Arc::from("n1")), ..pod }, "8");
    later().await;
    assert!(server.asked("/status").len() <= tried + 1);
    assert!(server.asked("/status").iter().all(|asked| asked.2["metadata"]["resourceVersion"] == "7"));
    assert_eq!((reporter.conditions().tally().skipped, reporter.conditions().tally().waiting), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_met_a_newer_pod_is_written_to_that_one() {
    let server = Server::new(|(_, _, body), _| match body["metadata"]["resourceVersion"].as_str() {
        Some("8") => (200, json!({ "metadata": { "resourceVersion": "9" } })),
        _ => failure(409, "the object has been modified"),
    });
    let reporter = server.reporter();
    let mut pod = waiting("web");
    seen(&reporter, &pod, "7");
    reporter.report(report(&pod, "no"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    pod.condition = Some(Scheduled { status: false, reason: "Unschedulable".into(), message: "before".into() });
    seen(&reporter, &pod, "8");
    later().await;
    let last = server.asked("/status").pop().expect("it was tried");
    assert_eq!(last.2["status"]["conditions"][0]["message"], "no");
    assert_eq!(last.2["status"]["conditions"][0].get("lastTransitionTime"), None, "it was False before");
    assert_eq!(reporter.conditions().tally().written, 1);
}

#[tokio::test(start_paused = true)]
async fn what_waits_to_be_said_of_a_pod_is_not_written_once_it_is_being_bound() {
    let server = kind();
    let reporter = server.reporter();
    let pod = waiting("web");
    seen(&reporter, &pod, "7");
    reporter.report(report(&pod, "no"));
    let _bind = reporter.binding(&binding(&pod));
    later().await;
    assert_eq!(server.asked("/status").len(), 0);
    assert_eq!(reporter.conditions().tally().skipped, 1);
}

#[tokio::test(start_paused = true)]
async fn conditions_give_way_while_binds_wait_for_their_turn_but_not_for_ever() {
    let server = kind();
    let reporter = server.reporter();
    let pods: Vec<PodInfo> = (0..200).map(|index| waiting(&format!("web-{index}"))).collect();
    let binds: Vec<BindUnderWay> = pods.iter().map(|pod| reporter.binding(&binding(pod))).collect();
    let pod = waiting("late");
    seen(&reporter, &pod, "7");
    reporter.report(report(&pod, "no"));
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert_eq!(server.asked("/status").len(), 0, "binds go first");
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(server.asked("/status").len(), 1, "but one second is enough");
    reporter.report(report(&pod, "never"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(binds);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(server.asked("/status").len(), 2, "or that they have ended");
}

#[tokio::test(start_paused = true)]
async fn events_are_tried_again_as_client_go_does_and_given_up_after_twelve_times() {
    let create = |code: u16, message: &'static str| Server::new(move |_, _| failure(code, message));
    // The answer, the number of requests, and the counts: written, refused, dropped.
    let table = [
        (create(503, "not now"), 12, (0, 0, 1)),
        (create(429, "not so fast"), 12, (0, 0, 1)),
        (create(422, "what is that"), 1, (0, 1, 0)),
        (create(404, "no such namespace"), 1, (0, 1, 0)),
        // The answer to the first attempt was lost.
        (create(409, "it is there"), 1, (1, 0, 0)),
    ];
    for (server, tries, counted) in table {
        let reporter = server.reporter();
        let pod = waiting("web");
        reporter.report(Report { write_condition: false, ..report(&pod, "no") });
        later().await;
        let tally = reporter.events().tally();
        assert_eq!(server.asked("/events").len(), tries);
        assert_eq!(((tally.written, tally.refused, tally.dropped), tally.waiting), (counted, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn events_alone_go_on_for_a_second_after_the_lead_was_given_up() {
    let server = kind();
    let valid_until = lease::now() + Duration::from_secs(3_600);
    let (lead, leading) = watch::channel(Leadership::Leading { epoch: 1, valid_until });
    let reporter = Reporter::new(&server.client(), &server.client(), "host", &leading);
    let pods: Vec<PodInfo> = ["a", "b", "c"].map(waiting).into();
    pods.iter().for_each(|pod| seen(&reporter, pod, "7"));
    reporter.report(report(&pods[0], "no"));
    tokio::time::sleep(Duration::from_secs(10)).await;
    reporter.events().outlive_lead(Duration::from_secs(1));
    lead.send_replace(Leadership::Following { holder: None });
    reporter.report(report(&pods[1], "no"));
    tokio::time::sleep(Duration::from_secs(2)).await;
    reporter.report(report(&pods[2], "no"));
    later().await;
    let (conditions, events) = (reporter.conditions().tally(), reporter.events().tally());
    assert_eq!((conditions.written, conditions.dropped), (1, 2));
    assert_eq!((events.written, events.dropped, events.waiting), (2, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn events_that_are_more_than_can_wait_are_dropped_and_counted() {
    let (follows, leading) = watch::channel(Leadership::UNKNOWN);
    tokio::spawn(async move { follows.closed().await });
    let server = kind();
    // The note's size in bytes, and the number of events with such a note that fit.
    for (note, room) in [(60, 65_536), (1_024, 18_724)] {
        let reporter = Reporter::new(&server.client(), &server.client(), "host", &leading);
        let pod = waiting("web");
        for _ in 0..70_000 {
            reporter.report(Report { write_condition: false, ..report(&pod, &"x".repeat(note)) });
        }
        let tally = reporter.events().tally();
        assert_eq!((tally.waiting, tally.dropped), (room, 70_000 - room), "{note}");
    }
}

fn binds(reporter: &Reporter, many: usize) -> Vec<BindUnderWay> {
    (0..many).map(|index| reporter.binding(&binding(&waiting(&format!("bound-{index}"))))).collect()
}

#[tokio::test(start_paused = true)]
async fn events_are_written_one_by_one_while_binds_are_under_way_and_at_once_when_there_are_none() {
    // Binds in flight, duration of a write, and the number of 100 events sent after some time: all in milliseconds.
    type Looks = &'static [(u64, usize)];
    let table: [(usize, u64, Looks); 5] = [
        (0, 1_000, &[(1, 32), (1_001, 64), (3_001, 100)]),
        (1, 1_000, &[(1, 1), (1_001, 2), (9_001, 10)]),
        (3, 4, &[(1, 1), (41, 11), (500, 100)]),
        // After a minute they are written regardless.
        (3, 1_000, &[(59_001, 60), (60_900, 92), (61_900, 100)]),
        // During a burst none is written before.
        (4, 1_000, &[(59_001, 0), (60_900, 32), (61_900, 64)]),
    ];
    for (many, takes_ms, table) in table {
        let server = Server { takes: Duration::from_millis(takes_ms), ..kind() };
        let reporter = server.reporter();
        let _binds = binds(&reporter, many);
        for index in 0..100 {
            reporter.report(Report { write_condition: false, ..report(&waiting(&format!("web-{index}")), "no") });
        }
        let begun = tokio::time::Instant::now();
        for (at_ms, asked) in table {
            tokio::time::sleep_until(begun + Duration::from_millis(*at_ms)).await;
            assert_eq!(server.asked("/events").len(), *asked, "{many} binds, {takes_ms} ms, after {at_ms} ms");
        }
        later().await;
        let tally = reporter.events().tally();
        assert_eq!((tally.written, tally.waiting, tally.dropped), (100, 0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn events_that_waited_for_binds_are_written_soon_after_the_last() {
    let server = Server { takes: Duration::from_secs(1), ..kind() };
    let reporter = server.reporter();
    let binds = binds(&reporter, 3);
    let pod = waiting("web");
    for _ in 0..10 {
        reporter.bound(&binding(&pod), &reporter.binding(&binding(&pod)));
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(server.asked("/events").len(), 1);
    drop(binds);
    tokio::time::sleep(Duration::from_millis(90)).await;
    assert_eq!(server.asked("/events").len(), 1, "another bind may follow");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(server.asked("/events").len(), 10);
}

#[tokio::test(start_paused = true)]
async fn when_too_many_events_wait_they_are_written_beside_binds_so_that_none_is_lost() {
    let server = Server { takes: Duration::from_secs(1), ..kind() };
    let reporter = server.reporter();
    let _binds = binds(&reporter, 500);
    let pod = waiting("web");
    for _ in 0..32_000 {
        reporter.bound(&binding(&pod), &reporter.binding(&binding(&pod)));
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(server.asked("/events").len(), 0);
    for _ in 0..2_000 {
        reporter.bound(&binding(&pod), &reporter.binding(&binding(&pod)));
    }
    tokio::time::sleep(Duration::from_millis(2_000)).await;
    assert!(server.asked("/events").len() >= 64, "{}", server.asked("/events").len());
    assert_eq!(reporter.events().tally().dropped, 0);
}

#[tokio::test(start_paused = true)]
async fn conditions_are_few_beside_binds_and_go_before_events() {
    let server = Server { takes: Duration::from_millis(300), ..kind() };
    let reporter = server.reporter();
    let _binds = binds(&reporter, 1);
    for index in 0..20 {
        let pod = waiting(&format!("web-{index}"));
        seen(&reporter, &pod, "7");
        reporter.report(report(&pod, "no"));
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!((server.asked("/status").len(), server.asked("/events").len()), (2, 1));
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    assert_eq!((server.asked("/status").len(), server.asked("/events").len()), (20, 4), "one second is enough");
}

#[tokio::test(start_paused = true)]
async fn writes_that_are_turned_away_in_a_row_pause_those_of_their_kind_and_no_others() {
    // Events rejected for 20 s, and events sent after 3 s.
    for (turned_away, sent) in [(1, 16), (8, 8)] {
        let turn_away = move |(_, path, _): &Asked, before: usize| path.ends_with("/events") && before < turned_away;
        let server = Server::new(move |asked, before| match turn_away(asked, before) {
            true => failure(429, "too many requests"),
            false => (200, json!({ "metadata": { "resourceVersion": "9" } })),
        });
        let server = Server { retry_after: Some("20"), ..server };
        let reporter = server.reporter();
        for index in 0..50 {
            let pod = waiting(&format!("web-{index}"));
            seen(&reporter, &pod, "7");
            reporter.report(report(&pod, "no"));
            tokio::time::sleep(Duration::from_millis(200)).await;
            if index == 15 {
                assert_eq!(server.asked("/events").len(), sent, "{turned_away}");
            }
        }
        tokio::time::sleep(Duration::from_secs(20)).await;
        let (events, conditions) = (reporter.events().tally(), reporter.conditions().tally());
        assert_eq!((events.written, events.turned_away, events.waiting), (50, turned_away as u64, 0));
        assert_eq!((conditions.written, conditions.turned_away), (50, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_pods_that_nobody_takes_cost_one_condition_each_however_often_they_are_tried() {
    let server = kind();
    let reporter = server.reporter();
    let pods: Vec<PodInfo> = (0..1_000).map(|index| waiting(&format!("web-{index}"))).collect();
    pods.iter().for_each(|pod| seen(&reporter, pod, "7"));
    for _ in 0..4 {
        pods.iter().for_each(|pod| reporter.report(report(pod, "0/1 nodes are available: 1 Insufficient cpu.")));
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    assert_eq!(reporter.conditions().tally().written, 1_000);
    // Two events each, and the second becomes a series.
    assert_eq!((reporter.events().tally().written, reporter.events().tally().dropped), (3_000, 0));
}
