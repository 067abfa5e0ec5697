//! Binds against a scripted API server.

use std::sync::Mutex;

use flotilla_framework::{class::PodInfo, extender::Extender, testing};
use flotilla_spans::Spans;
use http::{
    Method, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE},
};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use crate::lease;
use flotilla_runtime::{driver::testing::listener, extender::testing as extender};

#[derive(Clone)]
enum Act {
    Answer(u16, Value),
    /// 429 with this Retry-After to so many requests of the method, and 201 to the others.
    TurnAway(&'static str, usize),
    /// 429 with this Retry-After to all requests about this pod, and 201 to others.
    TurnAwayOf(&'static str, &'static str),
    /// This code to a request with a body or an answer in protobuf, and 201 to others.
    OnlyJson(u16),
    Hang,
    Break,
    Panic,
}

use Act::{Answer as Say, Break, Hang, OnlyJson, TurnAway, TurnAwayOf};

/// An API server with one script for POST and one for GET; the last line of a script repeats.
#[derive(Clone)]
struct Server {
    post: Act,
    gets: Vec<Act>,
    asked: Arc<Mutex<Vec<Method>>>,
}

impl Server {
    fn new(post: Act, gets: &[Act]) -> Self {
        Self { post, gets: gets.to_vec(), asked: Arc::default() }
    }

    fn asked(&self, method: &Method) -> usize {
        self.asked.lock().expect("unpoisoned").iter().filter(|asked| *asked == method).count()
    }

    fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let server = server.clone();
            async move {
                let method = request.method().clone();
                let (looks, before) = (server.asked(&Method::GET), server.asked(&method));
                let act =
                    if method == Method::POST { &server.post } else { &server.gets[looks.min(server.gets.len() - 1)] };
                server.asked.lock().expect("unpoisoned").push(method);
                match act {
                    Say(code, body) => {
                        let code = StatusCode::from_u16(*code).expect("a code");
                        let body = Body::from(body.to_string().into_bytes());
                        Ok(Response::builder().status(code).body(body).expect("a response"))
                    }
                    TurnAway(after, times) if before < *times => Ok(turned_away(after)),
                    TurnAwayOf(pod, after) if request.uri().path().contains(pod) => Ok(turned_away(after)),
                    OnlyJson(code) if mentions_protobuf(&request) => {
                        let body = Body::from(b"the body of the request was in an unknown format".to_vec());
                        Ok(Response::builder().status(*code).body(body).expect("a response"))
                    }
                    OnlyJson(_) => {
                        let body = request.into_body().collect().await.expect("a body").to_bytes();
                        let said: Value = serde_json::from_slice(&body).expect("JSON");
                        assert_eq!((&said["metadata"]["uid"], &said["target"]["name"]), (&json!("u1"), &json!("n1")));
                        Ok(Response::builder().status(201).body(Body::empty()).expect("a response"))
                    }
                    TurnAway(..) | TurnAwayOf(..) => {
                        Ok(Response::builder().status(201).body(Body::empty()).expect("a response"))
                    }
                    Hang => std::future::pending().await,
                    Break => Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
                    Act::Panic => panic!("as asked"),
                }
            }
        });
        kube::Client::new(service, "default")
    }
}

fn turned_away(after: &str) -> Response<Body> {
    let body = Body::from(b"Too many requests, please try again later.".to_vec());
    Response::builder().status(429).header("retry-after", after).body(body).expect("a response")
}

fn mentions_protobuf(request: &http::Request<Body>) -> bool {
    let named = [CONTENT_TYPE, ACCEPT].map(|name| request.headers().get(name).cloned());
    named.iter().flatten().any(|value| value.to_str().is_ok_and(|text| text.contains("protobuf")))
}

fn refusal(code: u16, message: &str) -> Act {
    Say(code, json!({ "kind": "Status", "status": "Failure", "code": code, "message": message, "reason": "x" }))
}

fn pod(uid: &str, node: Option<&str>, deleting: bool) -> Act {
    let deletion = deleting.then_some("2026-01-01T00:00:00Z");
    let metadata = json!({ "name": "web-1", "uid": uid, "deletionTimestamp": deletion });
    Say(200, json!({ "metadata": metadata, "spec": { "nodeName": node } }))
}

fn binding() -> Binding {
    Binding {
        uid: Arc::from("u1"),
        namespace: Arc::from("default"),
        name: Arc::from("web-1"),
        node: Arc::from("n1"),
        scheduler_name: Arc::from("default-scheduler"),
        attempt: 1,
        waited_ms: 3,
        began_ms: 0,
        decided_ms: 0,
        prepared_ms: None,
        pre_bound: Vec::new(),
        flushed: false,
        revision: 1,
        total: 100,
        extender: None,
        trace: None,
    }
}

fn binding_of(name: &str) -> Binding {
    Binding { uid: Arc::from(name), name: Arc::from(name), ..binding() }
}

struct BinderFixture {
    binder: Binder,
    heard: mpsc::UnboundedReceiver<Event>,
    leading: watch::Sender<Leadership>,
}

fn stage(server: &Server) -> BinderFixture {
    let valid_until = lease::now() + Duration::from_secs(10);
    let (leading, lead) = watch::channel(Leadership::Leading { epoch: 1, valid_until });
    let (handle, heard) = listener();
    // No task writes these events, so that they can be counted.
    let (follows, nobody) = watch::channel(Leadership::UNKNOWN);
    tokio::spawn(async move { follows.closed().await });
    let reporter = Reporter::new(&server.client(), &server.client(), "host", &nobody);
    let recorder = Recorder::new(Spans::default(), handle.started());
    let binder =
        Binder::new(server.client(), handle, reporter, Scheduled::default(), lead, Callers::default(), recorder);
    BinderFixture { binder, heard, leading }
}

impl BinderFixture {
    async fn outcome(self) -> Event {
        self.outcome_of(binding()).await
    }

    async fn outcome_of(mut self, binding: Binding) -> Event {
        self.binder.bind(binding);
        self.binder.drained().await;
        let event = self.heard.recv().await.expect("an answer");
        self.binder.inner.handle.stop();
        assert_eq!(self.heard.recv().await, None, "and no other");
        event
    }
}

fn bound() -> Event {
    Event::Bound { uid: Arc::from("u1") }
}

fn failed(failure: BindFailure) -> Event {
    Event::BindFailed { uid: Arc::from("u1"), failure }
}

async fn outcome(post: Act, gets: &[Act]) -> (Event, Server) {
    let server = Server::new(post, gets);
    (stage(&server).outcome().await, server)
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_is_created_is_bound_and_nothing_is_looked_up() {
    let (event, server) = outcome(Say(201, json!({ "kind": "Status", "status": "Success" })), &[Hang]).await;
    assert_eq!(event, bound());
    assert_eq!((server.asked(&Method::POST), server.asked(&Method::GET)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_what_the_pod_says_it_is() {
    let conflict = || refusal(409, "pod web-1 is already assigned");
    assert_eq!(outcome(conflict(), &[pod("u1", Some("n1"), false)]).await.0, bound());
    assert_eq!(outcome(conflict(), &[pod("u1", Some("n2"), false)]).await.0, failed(BindFailure::Elsewhere));
    assert_eq!(outcome(conflict(), &[pod("u1", None, true)]).await.0, failed(BindFailure::Gone));
    assert_eq!(outcome(conflict(), &[pod("u2", Some("n1"), false)]).await.0, failed(BindFailure::Gone));
    assert_eq!(outcome(conflict(), &[refusal(404, "pods \"web-1\" not found")]).await.0, failed(BindFailure::Gone));
    let error = BindFailure::Error("pod web-1 is already assigned".to_owned());
    assert_eq!(outcome(conflict(), &[pod("u1", None, false)]).await.0, failed(error));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_not_found_is_gone_once_a_look_does_not_find_it_either() {
    let not_found = || refusal(404, "pods \"web-1\" not found");
    let (event, server) = outcome(not_found(), &[not_found()]).await;
    assert_eq!(event, failed(BindFailure::Gone));
    assert_eq!((server.asked(&Method::POST), server.asked(&Method::GET)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_404_to_a_bind_of_a_pod_that_is_there_is_a_failed_attempt_and_not_the_end_of_the_pod() {
    let proxy = || refusal(404, "404 page not found");
    let unbound = pod("u1", None, false);
    assert_eq!(
        outcome(proxy(), &[unbound]).await.0,
        failed(BindFailure::Error("404 page not found".to_owned())),
        "tried again later"
    );
    assert_eq!(outcome(proxy(), &[pod("u1", Some("n1"), false)]).await.0, bound());
}

#[tokio::test(start_paused = true)]
async fn after_a_failure_of_the_api_server_binds_are_looked_up_a_few_at_a_time_and_429_to_several_pauses_them_all() {
    let server = Server::new(refusal(503, "etcd has no leader"), &[Hang]);
    let hanging = stage(&server);
    for index in 0..500 {
        hanging.binder.bind(binding_of(&format!("web-{index}")));
    }
    sleep(Duration::from_millis(100)).await;
    assert_eq!((server.asked(&Method::POST), server.asked(&Method::GET)), (500, LOOKS_AT_ONCE));

    let server = Server::new(refusal(503, "etcd has no leader"), &[TurnAway("3", usize::MAX)]);
    let busy = stage(&server);
    for index in 0..500 {
        busy.binder.bind(binding_of(&format!("web-{index}")));
    }
    sleep(Duration::from_millis(1_900)).await;
    assert_eq!(server.asked(&Method::POST), 500);
    let looks = server.asked(&Method::GET);
    assert!((LOOKS_AT_ONCE..2 * LOOKS_AT_ONCE).contains(&looks), "{looks} look-ups, then a pause");
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_is_turned_away_is_sent_once() {
    let (event, server) = outcome(refusal(429, "too many requests"), &[Hang]).await;
    assert_eq!(event, failed(BindFailure::Error("too many requests".to_owned())));
    assert_eq!((server.asked(&Method::POST), server.asked(&Method::GET)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_is_turned_away_for_a_while_is_sent_again_after_it_and_has_not_failed() {
    // The Retry-After, how often it is sent, the outcome, the requests sent and the seconds it takes.
    let error = |message: &str| failed(BindFailure::Error(message.to_owned()));
    let overload = "Too many requests, please try again later.";
    let table = [
        ("3", 1, bound(), 2, 3),
        ("3", 2, bound(), 3, 6),
        ("0", 2, bound(), 3, 0),
        // No API server asks for more.
        ("1000000", 1, bound(), 2, 64),
        // Not a number, so that it is an ordinary refusal.
        ("soon", 1, error(overload), 1, 0),
        // One object may be rejected forever, such as by an admission webhook.
        ("1", 1_000, error(overload), 64, 63),
    ];
    for (after, times, outcome, sent, seconds) in table {
        let server = Server::new(TurnAway(after, times), &[Hang]);
        let (stage, begun) = (stage(&server), tokio::time::Instant::now());
        let valid_until = lease::now() + Duration::from_secs(1_000);
        stage.leading.send_replace(Leadership::Leading { epoch: 1, valid_until });
        let binder = stage.binder.clone();
        assert_eq!(stage.outcome().await, outcome, "{after} {times}");
        assert_eq!((server.asked(&Method::POST), begun.elapsed().as_secs()), (sent, seconds), "{after} {times}");
        let tally = binder.tally();
        assert_eq!((tally.sent, tally.looked_up, tally.errors), (1, 0, u64::from(outcome != bound())));
        assert_eq!(tally.turned_away, if after == "soon" { 0 } else { sent.min(times) as u64 });
    }
}

/// Its node is no longer reserved for it, and a restore of etcd may bring it back before the request is sent.
#[tokio::test(start_paused = true)]
async fn a_binding_that_waits_out_a_429_is_not_sent_once_its_pod_was_shown_going_or_gone() {
    let web = PodInfo { uid: Arc::from("u1"), ..testing::pod("web-1").build() };
    let applied = |pod: PodInfo| Event::PodApplied(Arc::new(pod));
    let reason = Failure::Withdrawn.to_string();
    let table = [
        (applied(web.clone()), bound(), 2),
        (applied(PodInfo { deleting: true, ..web.clone() }), failed(BindFailure::Error(reason.clone())), 1),
        (Event::PodDeleted { uid: Arc::from("u1") }, failed(BindFailure::Error(reason)), 1),
    ];
    for (shown, outcome, sent) in table {
        let server = Server::new(TurnAway("3", 1), &[pod("u1", None, false)]);
        let mut stage = stage(&server);
        let reporter = stage.binder.inner.reporter.clone();
        reporter.witness(&applied(web.clone()), Some("7"));
        stage.binder.bind(binding());
        sleep(Duration::from_secs(1)).await;
        reporter.witness(&shown, Some("8"));
        // The cluster is restored to an earlier state.
        reporter.witness(&applied(web.clone()), Some("7"));
        assert_eq!(stage.heard.recv().await, Some(outcome), "{shown:?}");
        assert_eq!((server.asked(&Method::POST), server.asked(&Method::GET)), (sent, 2 - sent), "{shown:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_no_protobuf_is_told_bindings_in_json_from_then_on() {
    for code in [415, 406] {
        let server = Server::new(OnlyJson(code), &[Hang]);
        let mut stage = stage(&server);
        for sent in [2, 3, 4] {
            stage.binder.bind(binding());
            assert_eq!(stage.heard.recv().await, Some(bound()), "{code}");
            assert_eq!((server.asked(&Method::POST), server.asked(&Method::GET)), (sent, 0), "{code}");
        }
    }
    // The reason for which JSON is refused is the outcome.
    let (event, server) = outcome(refusal(415, "no such format"), &[Hang]).await;
    assert_eq!(event, failed(BindFailure::Error("no such format".to_owned())));
    assert_eq!(server.asked(&Method::POST), 2);
}

/// The pods of one tenant, such as by an admission webhook; more pods than concurrent requests.
#[tokio::test(start_paused = true)]
async fn bindings_that_are_turned_away_for_ever_delay_others_by_the_time_that_the_gate_is_closed_for_each_hundred() {
    for (tenants, longest) in [(1, Duration::ZERO), (AT_ONCE + 50, Duration::from_secs(4))] {
        let server = Server::new(TurnAwayOf("tenant", "60"), &[Hang]);
        let stage = stage(&server);
        let valid_until = lease::now() + Duration::from_secs(1_000);
        stage.leading.send_replace(Leadership::Leading { epoch: 1, valid_until });
        let begun = tokio::time::Instant::now();
        for index in 0..tenants {
            stage.binder.bind(binding_of(&format!("tenant-{index}")));
        }
        sleep(Duration::from_millis(100)).await;
        for index in 0..AT_ONCE + 50 {
            stage.binder.bind(binding_of(&format!("web-{index}")));
        }
        // The virtual clock does not wait for the thread that reports the outcomes.
        let until = async |bound: u64, errors: u64| {
            while (stage.binder.tally().bound, stage.binder.tally().errors) != (bound, errors) {
                sleep(Duration::from_millis(10)).await;
            }
            begun.elapsed()
        };
        let others = AT_ONCE as u64 + 50;
        let took = until(others, 0).await.saturating_sub(Duration::from_millis(150));
        assert!(took <= longest, "{took:?} with {tenants} pods that are turned away");
        let took = until(others, tenants as u64).await;
        assert!(took < Duration::from_secs(150), "they fail after {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn bindings_of_several_pods_in_a_row_that_are_turned_away_pause_them_all_for_a_bounded_time() {
    let server = Server::new(TurnAway("60", 8), &[Hang]);
    let mut stage = stage(&server);
    let valid_until = lease::now() + Duration::from_secs(1_000);
    stage.leading.send_replace(Leadership::Leading { epoch: 1, valid_until });
    for index in 0..30 {
        stage.binder.bind(binding_of(&format!("web-{index}")));
        sleep(Duration::from_millis(10)).await;
    }
    sleep(Duration::from_secs(1)).await;
    assert_eq!(server.asked(&Method::POST), 8, "nothing is sent while the gate is closed");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(server.asked(&Method::POST), 30);
    stage.binder.drained().await;
    assert_eq!(server.asked(&Method::POST), 38);
    for _ in 0..30 {
        assert!(matches!(stage.heard.recv().await, Some(Event::Bound { .. })));
    }
}

#[tokio::test(start_paused = true)]
async fn a_binding_is_not_sent_again_when_the_lead_ends_while_it_waits() {
    let server = Server::new(TurnAway("5", 1), &[Hang]);
    let stage = stage(&server);
    let (binder, leading) = (stage.binder.clone(), stage.leading.clone());
    tokio::spawn(async move {
        sleep(Duration::from_secs(1)).await;
        leading.send_replace(Leadership::UNKNOWN);
    });
    assert_eq!(stage.outcome().await, failed(BindFailure::Error(UNLED.to_owned())));
    assert_eq!((server.asked(&Method::POST), binder.tally().unsent), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_error_is_an_error_only_once_the_pod_says_that_it_is_not_bound() {
    let (event, server) = outcome(refusal(500, "etcd is slow"), &[pod("u1", None, false)]).await;
    assert_eq!(event, failed(BindFailure::Error("etcd is slow".to_owned())));
    assert_eq!((server.asked(&Method::POST), server.asked(&Method::GET)), (1, 2));
    assert_eq!(outcome(refusal(504, "timeout"), &[pod("u1", Some("n1"), false)]).await.0, bound());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_is_looked_up_until_the_api_server_tells() {
    let gets = [Break, refusal(503, "starting"), Hang, pod("u1", Some("n1"), false)];
    let (event, server) = outcome(Break, &gets).await;
    assert_eq!(event, bound());
    assert_eq!((server.asked(&Method::POST), server.asked(&Method::GET)), (1, 4));
}

/// An expired token, an authorizer outage, a proxy: none of these answers is about the pod.
#[tokio::test(start_paused = true)]
async fn a_look_up_that_is_refused_says_nothing_of_the_pod_and_is_repeated() {
    for (code, message) in [(401, "Unauthorized"), (403, "pods \"web-1\" is forbidden"), (404, "404 page not found")] {
        let (event, server) = outcome(Break, &[refusal(code, message), pod("u1", Some("n1"), false)]).await;
        assert_eq!((event, server.asked(&Method::GET)), (bound(), 2), "{code}");
        let (event, _) = outcome(Break, &[refusal(code, message)]).await;
        let Event::BindFailed { failure: BindFailure::Error(reason), .. } = event else { panic!("{event:?}") };
        assert!(reason.contains("lost the lead"), "{code}: {reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_lands_after_it_was_given_up_is_found_by_the_second_look() {
    let gets = [pod("u1", None, false), pod("u1", Some("n1"), false)];
    assert_eq!(outcome(Hang, &gets).await.0, bound());
}

#[tokio::test(start_paused = true)]
async fn a_panic_on_the_way_is_looked_up_as_a_lost_answer_is() {
    assert_eq!(outcome(Act::Panic, &[pod("u1", Some("n1"), false)]).await.0, bound());
}

#[tokio::test(start_paused = true)]
async fn looking_up_ends_with_the_lead() {
    let (event, server) = outcome(Break, &[Break]).await;
    let Event::BindFailed { failure: BindFailure::Error(reason), .. } = event else { panic!("{event:?}") };
    assert!(reason.contains("lost the lead"), "{reason}");
    assert!(server.asked(&Method::GET) > 5);
}

#[tokio::test(start_paused = true)]
async fn without_the_lead_nothing_is_sent() {
    let server = Server::new(Hang, &[Hang]);
    let stage = stage(&server);
    stage.leading.send_replace(Leadership::UNKNOWN);
    let event = stage.outcome().await;
    assert!(matches!(event, Event::BindFailed { failure: BindFailure::Error(_), .. }), "{event:?}");
    assert_eq!(server.asked(&Method::POST), 0);
}

#[tokio::test(start_paused = true)]
async fn binds_that_wait_for_their_turn_are_not_sent_once_the_lead_is_to_end_and_those_on_the_wire_are_waited_for() {
    // The first hundred reach their deadline and turn out to be bound.
    let server = Server::new(Hang, &[pod("u1", Some("n1"), false)]);
    let mut stage = stage(&server);
    for _ in 0..AT_ONCE + 50 {
        stage.binder.bind(binding());
    }
    sleep(Duration::from_millis(10)).await;
    let begun = tokio::time::Instant::now();
    stage.binder.finish().await;
    assert!((4..6).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    assert_eq!(server.asked(&Method::POST), AT_ONCE);
    let (mut bound, mut unsent) = (0, 0);
    for _ in 0..AT_ONCE + 50 {
        match stage.heard.recv().await.expect("an answer") {
            Event::Bound { .. } => bound += 1,
            event => {
                assert_eq!(event, failed(BindFailure::Error(UNLED.to_owned())));
                unsent += 1;
            }
        }
    }
    assert_eq!((bound, unsent), (AT_ONCE, 50));
}

#[tokio::test(start_paused = true)]
async fn a_bind_that_waits_because_it_was_turned_away_does_not_hold_up_the_end_of_the_lead() {
    let server = Server::new(TurnAway("60", 1), &[Hang]);
    let mut stage = stage(&server);
    stage.binder.bind(binding());
    sleep(Duration::from_secs(1)).await;
    let begun = tokio::time::Instant::now();
    stage.binder.finish().await;
    assert!(begun.elapsed() < Duration::from_millis(10), "{:?}", begun.elapsed());
    assert_eq!(stage.heard.recv().await, Some(failed(BindFailure::Error(UNLED.to_owned()))));
    assert_eq!(server.asked(&Method::POST), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lead_that_ends_soon_shortens_the_deadline() {
    let server = Server::new(Hang, &[pod("u1", None, false)]);
    let stage = stage(&server);
    let valid_until = lease::now() + Duration::from_millis(100);
    stage.leading.send_replace(Leadership::Leading { epoch: 1, valid_until });
    let begun = tokio::time::Instant::now();
    stage.outcome().await;
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn only_a_bound_pod_gets_an_event() {
    for (post, events) in [(Say(201, json!({})), 1), (refusal(404, "pods \"web-1\" not found"), 0)] {
        let stage = stage(&Server::new(post, &[refusal(404, "pods \"web-1\" not found")]));
        let binder = stage.binder.clone();
        stage.outcome().await;
        assert_eq!(binder.inner.reporter.events().tally().waiting, events);
    }
}

#[test]
fn a_binding_names_the_uid_and_the_node() {
    let request = request(&binding(), Encoding::Protobuf).expect("a request");
    assert_eq!(request.uri().path(), "/api/v1/namespaces/default/pods/web-1/binding");
    let body = flotilla_encoding::testing::written(request.body());
    assert_eq!(body["metadata"], json!({ "namespace": "default", "name": "web-1", "uid": "u1" }));
    assert_eq!(body["target"], json!({ "kind": "Node", "name": "n1" }));
    assert_eq!((&body["apiVersion"], &body["kind"]), (&json!("v1"), &json!("Binding")));
}

async fn outcome_by_extender(say: &'static str, ignorable: bool, gets: &[Act]) -> (Event, Server) {
    let played = match say {
        "" => extender::play(|_, _| (StatusCode::OK, "{}".to_owned())).await,
        "failed" => extender::play(|_, _| (StatusCode::FORBIDDEN, String::new())).await,
        _ => extender::play(|_, _| (StatusCode::OK, json!({ "Error": "not today" }).to_string())).await,
    };
    let configured = Extender { bind_verb: "bind".to_owned(), ignorable, ..extender::configured(&played.url) };
    let server = Server::new(Say(201, json!({ "kind": "Status", "status": "Success" })), gets);
    let event = stage(&server).outcome_of(Binding { extender: Some(Arc::new(configured)), ..binding() }).await;
    assert_eq!(played.verbs(), ["bind"]);
    let asked = json!({ "PodName": "web-1", "PodNamespace": "default", "PodUID": "u1", "Node": "n1" });
    assert_eq!(played.question(0), asked);
    (event, server)
}

#[tokio::test]
async fn an_extender_that_binds_binds_in_our_place() {
    let (event, server) = outcome_by_extender("", false, &[Hang]).await;
    assert_eq!(event, bound());
    assert_eq!((server.asked(&Method::POST), server.asked(&Method::GET)), (0, 0));
}

#[tokio::test]
async fn what_an_extender_refuses_to_bind_is_looked_at_and_fails_in_its_words() {
    let (event, server) = outcome_by_extender("no", false, &[pod("u1", None, false)]).await;
    assert_eq!(event, failed(BindFailure::Error("not today".to_owned())));
    assert_eq!((server.asked(&Method::POST), server.asked(&Method::GET)), (0, 1));
    let (event, _) = outcome_by_extender("failed", false, &[pod("u1", Some("n1"), false)]).await;
    assert_eq!(event, bound(), "it did bind");
    let (event, _) = outcome_by_extender("failed", false, &[pod("u1", None, false)]).await;
    let Event::BindFailed { failure: BindFailure::Error(reason), .. } = event else { panic!("{event:?}") };
    assert!(reason.starts_with("failed bind with extender at URL http://127.0.0.1:"), "{reason}");
    assert!(reason.ends_with("/bind, code 403"), "{reason}");
}

#[tokio::test]
async fn we_bind_what_an_extender_that_can_be_ignored_does_not() {
    let (event, server) = outcome_by_extender("no", true, &[Hang]).await;
    assert_eq!(event, bound());
    assert_eq!((server.asked(&Method::POST), server.asked(&Method::GET)), (1, 0));
}
