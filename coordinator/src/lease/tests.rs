//! Elections against a fake API server that stores one Lease, in virtual time.

use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Well,
    /// Accepts the request and never answers.
    Silent,
    /// 503, as during a restart.
    Unavailable,
    /// Stores the request, and the answer is lost.
    StoresSilently,
}

struct Store {
    mood: Mood,
    version: u64,
    lease: Option<Value>,
    /// Method and path of every request, with the version that a write was conditional on.
    log: Vec<(Method, String, Option<String>)>,
    events: Vec<String>,
    watches: Vec<mpsc::UnboundedSender<Value>>,
}

#[derive(Clone)]
struct Server(Arc<Mutex<Store>>);

impl Server {
    fn new() -> Self {
        let store = Store { mood: Mood::Well, version: 0, lease: None, log: vec![], events: vec![], watches: vec![] };
        Self(Arc::new(Mutex::new(store)))
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.0.lock().expect("no test panics inside")
    }

    fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        kube::Client::new(service, "default")
    }

    async fn answer(&self, request: Request<Body>) -> Answer {
        let (head, body) = request.into_parts();
        if head.uri.path().starts_with("/apis/coordination.k8s.io/v1beta1") || head.uri.path().contains("v1alpha2") {
            // `candidate/tests.rs` tests LeaseCandidates.
            return failure(404, "NotFound");
        }
        let body = body.collect().await.expect("a body in memory").to_bytes();
        let sent: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if head.uri.path().contains("/events") {
            self.store().events.push(sent["note"].as_str().unwrap_or_default().to_owned());
            return reply(201, &sent);
        }
        if head.uri.query().is_some_and(|query| query.contains("watch=true")) {
            return self.watch();
        }
        let condition = sent["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        self.store().log.push((head.method.clone(), head.uri.path().to_owned(), condition));
        let mood = self.store().mood;
        match mood {
            Mood::Well => self.store().apply(&head.method, sent),
            Mood::Unavailable => failure(503, "ServiceUnavailable"),
            Mood::StoresSilently => {
                self.store().apply(&head.method, sent);
                std::future::pending().await
            }
            Mood::Silent => std::future::pending().await,
        }
    }

    fn watch(&self) -> Answer {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut store = self.store();
        if let Some(lease) = &store.lease {
            sender.send(json!({"type": "ADDED", "object": lease})).expect("the receiver is here");
        }
        store.watches.push(sender);
        let lines = futures::stream::unfold(receiver, |mut receiver| async {
            let event: Value = receiver.recv().await?;
            let frame = hyper::body::Frame::data(Bytes::from(format!("{event}\n")));
            Some((Ok::<_, Infallible>(frame), receiver))
        });
        Response::new(StreamBody::new(lines).boxed_unsync())
    }

    fn holder(&self) -> String {
        self.store().spec("holderIdentity").as_str().unwrap_or_default().to_owned()
    }

    fn writes(&self) -> usize {
        self.store().log.iter().filter(|(method, ..)| *method == Method::PUT).count()
    }
}

impl Store {
    fn spec(&self, field: &str) -> Value {
        self.lease.as_ref().map_or(Value::Null, |lease| lease["spec"][field].clone())
    }

    fn apply(&mut self, method: &Method, mut sent: Value) -> Answer {
        let known = self.lease.as_ref().map(|lease| lease["metadata"]["resourceVersion"].clone());
        match (method, known) {
            (&Method::GET, None) => return failure(404, "NotFound"),
            (&Method::GET, Some(_)) => return reply(200, self.lease.as_ref().expect("known")),
            (&Method::POST, None) => {}
            (&Method::POST, Some(_)) => return failure(409, "AlreadyExists"),
            (&Method::PUT, None) => return failure(404, "NotFound"),
            (&Method::PUT, Some(known)) if known == sent["metadata"]["resourceVersion"] => {}
            (&Method::PUT, Some(_)) => return failure(409, "Conflict"),
            (method, _) => panic!("an election must not {method} its Lease"),
        }
        self.version += 1;
        sent["metadata"]["resourceVersion"] = json!(self.version.to_string());
        sent["metadata"]["uid"] = json!("8f5c");
        self.watches.retain(|watch| watch.send(json!({"type": "MODIFIED", "object": sent})).is_ok());
        self.lease = Some(sent.clone());
        reply(200, &sent)
    }
}

fn reply(code: u16, value: &Value) -> Answer {
    let body = Full::new(Bytes::from(value.to_string())).boxed_unsync();
    Response::builder().status(code).body(body).expect("a valid answer")
}

fn failure(code: u16, reason: &str) -> Answer {
    reply(code, &json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason}))
}

struct Process {
    leading: watch::Receiver<Leadership>,
    shutdown: CancellationToken,
    drained: CancellationToken,
    end_of_term: CancellationToken,
    handover: Arc<Handover>,
    end: tokio::task::JoinHandle<Result<(), LeaseError>>,
}

fn config(identity: &str) -> LeaseConfig {
    LeaseConfig {
        name: "flotilla".to_owned(),
        namespace: "kube-system".to_owned(),
        identity: identity.to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
        coordinated: false,
    }
}

fn start(server: &Server, identity: &str, progress: Option<Probe>) -> Process {
    start_candidate(server, identity, progress, None)
}

fn start_candidate(server: &Server, identity: &str, progress: Option<Probe>, candidacy: Option<Probe>) -> Process {
    start_with(server, config(identity), progress, candidacy)
}

fn start_with(server: &Server, config: LeaseConfig, progress: Option<Probe>, candidacy: Option<Probe>) -> Process {
    let (sender, leading) = watch::channel(Leadership::UNKNOWN);
    let (shutdown, drained) = (CancellationToken::new(), CancellationToken::new());
    let end_of_term = CancellationToken::new();
    let handover = Arc::<Handover>::default();
    let signals = Signals {
        leading: sender,
        shutdown: shutdown.clone(),
        drained: drained.clone(),
        handover: Arc::clone(&handover),
        progress,
        candidacy,
        end_of_term: end_of_term.clone(),
        is_candidate: Arc::default(),
    };
    let end = tokio::spawn(run(config, server.client(), signals));
    Process { leading, shutdown, drained, end_of_term, handover, end }
}

impl Process {
    /// Waits until this process leads; returns the epoch and the end of the lead.
    async fn leads(&mut self) -> (u64, Instant) {
        let state = self.leading.wait_for(|state| matches!(state, Leadership::Leading { .. })).await;
        match &*state.expect("the election runs") {
            Leadership::Leading { epoch, valid_until } => (*epoch, *valid_until),
            Leadership::Following { .. } => unreachable!("waited for a lead"),
        }
    }

    fn epoch(&self) -> Option<u64> {
        self.leading.borrow().epoch_at(now())
    }
}

async fn pass(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_created_renewed_by_conditional_puts_and_released_after_the_last_write() {
    let server = Server::new();
    let mut process = start(&server, "host_1", None);
    let t0 = now();
    assert_eq!(process.leads().await, (0, t0 + Duration::from_secs(10)));
    pass(30.5).await;
    assert_eq!(process.epoch(), Some(0));
    assert_eq!(server.writes(), 15, "one renewal each two seconds");
    for (n, (method, path, condition)) in server.store().log.iter().skip(2).enumerate() {
        assert_eq!((method, condition), (&Method::PUT, &Some((n + 1).to_string())));
        assert_eq!(path, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/flotilla");
    }

    process.shutdown.cancel();
    pass(9.0).await;
    assert_eq!(process.epoch(), Some(0), "renewed as long as writes may be on their way");
    process.drained.cancel();
    process.end.await.expect("no panic").expect("a clean end");
    let store = server.store();
    assert_eq!(store.spec("holderIdentity"), json!(""));
    assert_eq!(store.spec("leaseDurationSeconds"), json!(1));
    assert_eq!(store.events, ["host_1 became leader", "host_1 stopped leading"]);
}

#[tokio::test(start_paused = true)]
async fn a_standby_takes_a_released_lease_at_once_and_not_at_its_next_poll() {
    let server = Server::new();
    let mut first = start(&server, "host_1", None);
    first.leads().await;
    let mut second = start(&server, "host_2", None);
    pass(31.3).await;
    assert_eq!(*second.leading.borrow(), Leadership::Following { holder: Some("host_1".to_owned()) });
    first.shutdown.cancel();
    first.drained.cancel();
    let released = now();
    let (epoch, _) = second.leads().await;
    assert_eq!(epoch, 1);
    assert!(now() - released < Duration::from_millis(10), "took {:?}", now() - released);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_ends_tells_the_next_what_is_committed_and_the_next_takes_that_off_the_lease() {
    let server = Server::new();
    let told = |server: &Server| server.store().lease.as_ref().expect("there")["metadata"]["annotations"].clone();
    let mut first = start(&server, "host_1", None);
    first.leads().await;
    let mut second = start(&server, "host_2", None);
    pass(31.3).await;
    first.handover.ours.set(812).expect("once");
    first.shutdown.cancel();
    first.drained.cancel();
    first.end.await.expect("no panic").expect("a clean end");
    second.leads().await;
    assert_eq!(second.handover.before.get(), Some(&812));
    assert!(told(&server)[COMMITTED].is_null(), "{}", told(&server));
    second.shutdown.cancel();
    second.drained.cancel();
    second.end.await.expect("no panic").expect("a clean end");
    assert_eq!(server.holder(), "");
    let mut third = start(&server, "host_3", None);
    third.leads().await;
    assert_eq!(third.handover.before.get(), None, "the second told nothing");
}

#[tokio::test(start_paused = true)]
async fn what_a_leader_told_is_not_believed_once_another_led_who_left_it_on_the_lease() {
    let server = Server::new();
    let mut first = start(&server, "host_1", None);
    first.leads().await;
    first.handover.ours.set(812).expect("once");
    first.shutdown.cancel();
    first.drained.cancel();
    first.end.await.expect("no panic").expect("a clean end");
    // client-go's election keeps annotations.
    {
        let mut store = server.store();
        let lease = store.lease.as_mut().expect("there");
        assert!(lease["metadata"]["annotations"][COMMITTED].as_str().is_some_and(|text| text.ends_with("/812")));
        lease["spec"]["leaseTransitions"] = json!(1);
        lease["spec"]["renewTime"] = json!("2026-01-01T00:00:00.000000Z");
    }
    let mut third = start(&server, "host_3", None);
    third.leads().await;
    assert_eq!(third.handover.before.get(), None);
}

#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_one_lease_duration_after_the_last_renewal_of_a_dead_leader() {
    let server = Server::new();
    let t0 = now();
    let mut first = start(&server, "host_1", None);
    first.leads().await;
    let mut second = start(&server, "host_2", None);
    pass(9.0).await;
    first.end.abort();
    let (epoch, _) = second.leads().await;
    assert_eq!((epoch, server.holder().as_str()), (1, "host_2"));
    // The last renewal was sent 8 s in, and the watch observed it at once; tokio's timer ticks in milliseconds.
    let late = now() - t0 - Duration::from_secs(8 + 15);
    assert!(late < Duration::from_millis(20), "{late:?} later than it could");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_ends_at_its_deadline() {
    for mood in [Mood::Silent, Mood::Unavailable, Mood::StoresSilently] {
        let server = Server::new();
        let mut process = start(&server, "host_1", None);
        process.leads().await;
        pass(4.5).await;
        let Leadership::Leading { valid_until, .. } = *process.leading.borrow() else { panic!("leads") };
        server.store().mood = mood;
        let end = process.end.await.expect("no panic");
        assert!(matches!(end, Err(LeaseError::Lost { loss: Loss::Deadline, .. })), "{end:?}");
        let late = now() - valid_until;
        assert!(late < Duration::from_millis(2), "ended {late:?} late");
        assert!(matches!(*process.leading.borrow(), Leadership::Following { .. }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_costs_nothing() {
    for mood in [Mood::Silent, Mood::Unavailable, Mood::StoresSilently] {
        let server = Server::new();
        let mut process = start(&server, "host_1", None);
        process.leads().await;
        pass(1.0).await;
        server.store().mood = mood;
        pass(5.0).await;
        server.store().mood = Mood::Well;
        pass(20.0).await;
        assert_eq!(process.epoch(), Some(0), "leads on under the same epoch");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_finds_another_holder_ends() {
    let server = Server::new();
    let mut process = start(&server, "host_1", None);
    process.leads().await;
    {
        let mut store = server.store();
        store.version = 70;
        let lease = store.lease.as_mut().expect("created");
        lease["spec"]["holderIdentity"] = json!("intruder");
        lease["metadata"]["resourceVersion"] = json!("70");
    }
    let end = process.end.await.expect("no panic");
    let Err(LeaseError::Lost { loss, lease }) = end else { panic!("{end:?}") };
    assert_eq!((loss, lease.as_str()), (Loss::Taken("intruder".to_owned()), "kube-system/flotilla"));
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_labels_by_others_is_survived_and_kept() {
    let server = Server::new();
    let mut process = start(&server, "host_1", None);
    process.leads().await;
    {
        let mut store = server.store();
        store.version = 70;
        let lease = store.lease.as_mut().expect("created");
        lease["metadata"]["labels"] = json!({"team": "harbour"});
        lease["metadata"]["resourceVersion"] = json!("70");
    }
    pass(20.0).await;
    assert_eq!(process.epoch(), Some(0));
    assert_eq!(server.store().lease.as_ref().expect("there")["metadata"]["labels"]["team"], "harbour");
}

#[tokio::test(start_paused = true)]
async fn a_process_without_progress_loses_the_lead_to_another() {
    let server = Server::new();
    let stuck = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stuck);
    let progress: Probe = Arc::new(move || match seen.load(std::sync::atomic::Ordering::Relaxed) {
        true => Err("the loop has not turned for 10 s".to_owned()),
        false => Ok(()),
    });
    let mut first = start(&server, "host_1", Some(progress));
    first.leads().await;
    let mut second = start(&server, "host_2", None);
    pass(10.0).await;
    stuck.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(matches!(first.end.await.expect("no panic"), Err(LeaseError::Lost { loss: Loss::Deadline, .. })));
    assert_eq!(second.leads().await.0, 1);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_could_not_schedule_leaves_the_lease_to_another_and_a_leader_is_not_asked() {
    let server = Server::new();
    let unfit = Arc::new(AtomicBool::new(true));
    let seen = Arc::clone(&unfit);
    let candidacy: Probe = Arc::new(move || match seen.load(std::sync::atomic::Ordering::Relaxed) {
        true => Err("the view of nodes is 200 s old".to_owned()),
        false => Ok(()),
    });
    let mut first = start_candidate(&server, "host_1", None, Some(candidacy));
    pass(30.0).await;
    assert_eq!((server.holder().as_str(), first.epoch()), ("", None), "the Lease is free all the time");
    let mut second = start(&server, "host_2", None);
    second.leads().await;
    second.shutdown.cancel();
    second.drained.cancel();
    second.end.await.expect("no panic").expect("a clean end");
    unfit.store(false, std::sync::atomic::Ordering::Relaxed);
    first.leads().await;
    unfit.store(true, std::sync::atomic::Ordering::Relaxed);
    pass(30.0).await;
    assert!(first.epoch().is_some(), "what a leader does about it is not for the election to say");
}

#[tokio::test(start_paused = true)]
async fn a_candidate_leaves_at_once_and_leaves_the_lease_alone() {
    let server = Server::new();
    let mut first = start(&server, "host_1", None);
    first.leads().await;
    let second = start(&server, "host_2", None);
    pass(5.0).await;
    let before = now();
    second.shutdown.cancel();
    second.end.await.expect("no panic").expect("a clean end");
    assert_eq!(now(), before);
    assert_eq!(server.holder(), "host_1");
}

#[tokio::test(start_paused = true)]
async fn a_release_after_a_renewal_whose_answer_was_lost_still_succeeds() {
    let server = Server::new();
    let mut process = start(&server, "host_1", None);
    process.leads().await;
    pass(1.0).await;
    server.store().mood = Mood::StoresSilently;
    pass(2.0).await;
    server.store().mood = Mood::Well;
    process.shutdown.cancel();
    process.drained.cancel();
    process.end.await.expect("no panic").expect("a clean end");
    assert_eq!(server.holder(), "");
}

#[tokio::test(start_paused = true)]
async fn the_watchdog_barks_when_a_lead_ended_long_ago() {
    let (sender, receiver) = watch::channel(Leadership::UNKNOWN);
    let probe = watchdog(receiver, Duration::from_secs(20));
    assert_eq!(probe(), Ok(()), "a standby is healthy");
    sender.send_replace(Leadership::Leading { epoch: 1, valid_until: now() + Duration::from_secs(10) });
    pass(30.0).await;
    assert_eq!(probe(), Ok(()));
    pass(1.0).await;
    assert!(probe().is_err());
}

#[test]
fn durations_that_cannot_work_are_refused_with_the_reason() {
    let with = |change: fn(&mut LeaseConfig)| {
        let mut config = config("host_1");
        change(&mut config);
        config.validate().expect_err("cannot work").to_string()
    };
    assert!(with(|c| c.lease_duration = c.renew_deadline).contains("leaseDuration (10s) must be longer than"));
    assert!(with(|c| c.renew_deadline = Duration::from_millis(2400)).contains("1.2 times retryPeriod (2s)"));
    assert!(with(|c| c.retry_period = Duration::ZERO).contains("retryPeriod must be longer than zero"));
    assert!(with(|c| c.name.clear()).contains("resourceName"));
    assert!(config("host_1").validate().is_ok());
}

#[test]
fn a_fraction_of_a_second_is_published_as_a_whole_one() {
    let config = LeaseConfig { lease_duration: Duration::from_millis(1500), ..config("host_1") };
    assert_eq!(config.duration_s(), 2);
}

#[test]
fn identities_differ_between_processes_of_one_host() {
    let (first, second) = (identity(), identity());
    assert_ne!(first, second);
    assert_eq!(first.rsplit_once('_').map(|(host, _)| host), second.rsplit_once('_').map(|(host, _)| host));
}

#[test]
fn the_epoch_of_a_lease_made_anew_is_above_all_of_the_old_one() {
    let made_at = |second: i64| {
        let mut lease = Lease::default();
        let time = jiff::Timestamp::from_second(second).expect("a time");
        lease.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time));
        lease
    };
    let (old, new) = (made_at(1_000_000_000), made_at(1_000_000_001));
    assert!(epoch_of(Some(&old), 1) > epoch_of(Some(&old), 0));
    assert!(epoch_of(Some(&new), 0) > epoch_of(Some(&old), 1_000_000));
}

/// The controller of a coordinated election writes the holder, or the preferred one.
fn elect(server: &Server, holder: &str, preferred: Option<&str>) {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "flotilla", "namespace": "kube-system", "resourceVersion": server.store().version.to_string()},
        "spec": {
            "holderIdentity": holder, "preferredHolder": preferred, "leaseDurationSeconds": 5,
            "leaseTransitions": server.store().spec("leaseTransitions"), "strategy": "OldestEmulationVersion",
            "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    });
    let mut store = server.store();
    let method = if store.lease.is_some() { Method::PUT } else { Method::POST };
    store.apply(&method, lease);
}

#[tokio::test(start_paused = true)]
async fn a_coordinated_leader_is_elected_by_the_controller_and_leaves_for_its_successor() {
    let server = Server::new();
    let mut process = start_with(&server, LeaseConfig { coordinated: true, ..config("host_1") }, None, None);
    pass(60.0).await;
    assert_eq!((server.writes(), process.epoch()), (0, None), "it does not create the lease");
    elect(&server, "host_1", None);
    process.leads().await;
    pass(20.0).await;
    assert!(process.epoch().is_some());
    assert_eq!(server.store().spec("strategy"), "OldestEmulationVersion");
    assert_eq!(server.store().spec("leaseTransitions"), 1);
    elect(&server, "host_1", Some("host_2"));
    process.end_of_term.cancelled().await;
    let renewals = server.writes();
    process.shutdown.cancel();
    pass(1.0).await;
    assert_eq!(server.writes(), renewals, "the lead is not renewed");
    process.drained.cancel();
    process.end.await.expect("it ends").expect("in good order");
    assert_eq!((server.holder(), server.store().spec("preferredHolder")), (String::new(), Value::Null));
}

#[tokio::test(start_paused = true)]
async fn a_coordinated_leader_that_does_not_leave_loses_its_lead_at_the_deadline() {
    let server = Server::new();
    let mut process = start_with(&server, LeaseConfig { coordinated: true, ..config("host_1") }, None, None);
    elect(&server, "host_1", None);
    process.leads().await;
    elect(&server, "host_1", Some("host_2"));
    let lost = process.end.await.expect("it ends").expect_err("the lead is lost");
    assert!(matches!(&lost, LeaseError::Lost { loss: Loss::EndOfTerm(next), .. } if next == "host_2"), "{lost}");
}
