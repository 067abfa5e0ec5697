//! Candidates against a fake API server that stores one LeaseCandidate, in virtual time.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::client::Body;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::*;

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

#[derive(Default)]
struct Store {
    served: BTreeSet<&'static str>,
    is_down: bool,
    version: u64,
    object: Option<Value>,
    /// Method and path of every write.
    writes: Vec<(Method, String)>,
    watches: Vec<mpsc::UnboundedSender<Value>>,
}

#[derive(Clone, Default)]
struct Server(Arc<Mutex<Store>>);

impl Server {
    fn serving(versions: &[&'static str]) -> Self {
        let server = Self::default();
        server.store().served = versions.iter().copied().collect();
        server
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
        let body = body.collect().await.expect("a body in memory").to_bytes();
        let mut store = self.store();
        if let Some(version) =
            head.uri.path().strip_prefix("/apis/coordination.k8s.io/").filter(|rest| !rest.contains('/'))
        {
            return store.resources(version);
        }
        if head.uri.query().is_some_and(|query| query.contains("watch=true")) {
            assert!(head.uri.query().is_some_and(|query| query.contains("fieldSelector=metadata.name%3Dhost_1")));
            return store.watch();
        }
        store.writes.push((head.method.clone(), head.uri.path().to_owned()));
        if store.is_down {
            return failure(503, "ServiceUnavailable");
        }
        store.write(&head.method, serde_json::from_slice(&body).expect("JSON"))
    }

    /// The controller asks for a renewal.
    fn ping(&self) {
        let mut store = self.store();
        let mut object = store.object.clone().expect("a candidate");
        object["spec"]["pingTime"] = json!(MicroTime(wall::now()));
        store.set(Some(object));
    }

    fn spec(&self, field: &str) -> Value {
        self.store().object.as_ref().map_or(Value::Null, |object| object["spec"][field].clone())
    }

    fn methods(&self) -> Vec<Method> {
        self.store().writes.iter().map(|(method, _)| method.clone()).collect()
    }
}

impl Store {
    fn resources(&self, version: &str) -> Answer {
        if !self.served.contains(version) {
            return failure(404, "NotFound");
        }
        let resource = json!({ "name": PLURAL, "singularName": "leasecandidate", "namespaced": true, "kind": "LeaseCandidate", "verbs": [] });
        let group_version = format!("{GROUP}/{version}");
        reply(200, &json!({ "kind": "APIResourceList", "groupVersion": group_version, "resources": [resource] }))
    }

    fn watch(&mut self) -> Answer {
        let (sender, receiver) = mpsc::unbounded_channel();
        if let Some(object) = &self.object {
            sender.send(json!({"type": "ADDED", "object": object})).expect("the receiver is here");
        }
        self.watches.push(sender);
        let lines = futures::stream::unfold(receiver, |mut receiver| async {
            let event: Value = receiver.recv().await?;
            let frame = hyper::body::Frame::data(Bytes::from(format!("{event}\n")));
            Some((Ok::<_, Infallible>(frame), receiver))
        });
        Response::new(StreamBody::new(lines).boxed_unsync())
    }

    fn write(&mut self, method: &Method, sent: Value) -> Answer {
        let known = self.object.as_ref().map(|object| object["metadata"]["resourceVersion"].clone());
        match (method, known) {
            (&Method::POST, None) => {}
            (&Method::PUT, Some(known)) if known == sent["metadata"]["resourceVersion"] => {}
            (&Method::PUT, None) => return failure(404, "NotFound"),
            (&Method::POST | &Method::PUT, Some(_)) => return failure(409, "Conflict"),
            (method, _) => panic!("a candidate must not {method} its object"),
        }
        self.set(Some(sent));
        reply(200, self.object.as_ref().expect("stored"))
    }

    fn set(&mut self, object: Option<Value>) {
        self.version += 1;
        let kind = if object.is_some() { "MODIFIED" } else { "DELETED" };
        let mut shown = object.clone().or_else(|| self.object.take()).unwrap_or_default();
        shown["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.watches.retain(|watch| watch.send(json!({"type": kind, "object": shown})).is_ok());
        self.object = object.map(|_| shown);
    }
}

fn reply(code: u16, value: &Value) -> Answer {
    let body = Full::new(Bytes::from(value.to_string())).boxed_unsync();
    Response::builder().status(code).body(body).expect("a valid answer")
}

fn failure(code: u16, reason: &str) -> Answer {
    reply(code, &json!({ "kind": "Status", "status": "Failure", "message": reason, "reason": reason, "code": code }))
}

fn start_with(server: &Server, candidacy: Option<Probe>) -> (JoinHandle<()>, Arc<AtomicBool>) {
    let is_known = Arc::<AtomicBool>::default();
    let config = LeaseConfig {
        name: "kube-scheduler".to_owned(),
        namespace: "kube-system".to_owned(),
        identity: "host_1".to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
        coordinated: true,
    };
    let leading = watch::channel(Leadership::UNKNOWN).1;
    let candidate = Candidate { client: server.client(), config, leading, candidacy, is_known: Arc::clone(&is_known) };
    (tokio::spawn(run(candidate)), is_known)
}

fn start(server: &Server) -> (JoinHandle<()>, Arc<AtomicBool>) {
    start_with(server, None)
}

async fn after(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_candidate_names_its_lease_and_versions_and_is_renewed_every_five_minutes() {
    let server = Server::serving(&["v1beta1", "v1alpha2"]);
    let (_task, is_known) = start(&server);
    after(1).await;
    assert_eq!(crate::args::KUBERNETES_VERSION, format!("v{BINARY_VERSION}"));
    let fields = ["leaseName", "binaryVersion", "emulationVersion", "strategy"].map(|field| server.spec(field));
    assert_eq!(fields, ["kube-scheduler", "1.37.2", "1.37.0", "OldestEmulationVersion"].map(Value::from));
    let path = "/apis/coordination.k8s.io/v1beta1/namespaces/kube-system/leasecandidates".to_owned();
    assert_eq!(server.store().writes, [(Method::POST, path)]);
    assert!(is_known.load(Ordering::Relaxed));
    after(298).await;
    assert_eq!(server.methods().len(), 1);
    after(5).await;
    assert_eq!(server.methods(), [Method::POST, Method::PUT]);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_answers_the_controller_at_once() {
    let server = Server::serving(&["v1alpha2"]);
    let _task = start(&server);
    after(1).await;
    for answers in 1..4 {
        server.ping();
        after(1).await;
        assert_eq!(server.methods().len(), 1 + answers);
        assert!(!is_asked(
            &serde_json::from_value(server.store().object.clone().expect("a candidate")).expect("an object")
        ));
    }
    assert!(server.store().writes.iter().all(|(_, path)| path.contains("/v1alpha2/")));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_candidate_is_created_again() {
    let server = Server::serving(&["v1beta1"]);
    let _task = start(&server);
    after(1).await;
    server.store().set(None);
    after(1).await;
    assert_eq!(server.methods(), [Method::POST, Method::POST]);
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_with_growing_pauses() {
    let server = Server::serving(&["v1beta1"]);
    server.store().is_down = true;
    let (_task, is_known) = start(&server);
    after(15).await;
    // At 0, 2, 6 and 14 s.
    assert_eq!(server.methods().len(), 4);
    assert!(!is_known.load(Ordering::Relaxed));
    server.store().is_down = false;
    after(60).await;
    assert!(is_known.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn an_api_server_without_candidates_is_asked_until_it_serves_them() {
    let server = Server::serving(&[]);
    let _task = start(&server);
    after(10).await;
    assert!(server.methods().is_empty());
    server.store().served.insert("v1beta1");
    after(60).await;
    assert_eq!(server.methods(), [Method::POST]);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_cannot_schedule_does_not_answer() {
    let server = Server::serving(&["v1beta1"]);
    let may = Arc::<AtomicBool>::default();
    let candidacy = Arc::clone(&may);
    let probe: Probe = Arc::new(move || {
        candidacy.load(Ordering::Relaxed).then_some(()).ok_or_else(|| "the caches are too old".to_owned())
    });
    let _task = start_with(&server, Some(probe));
    after(10).await;
    assert!(server.methods().is_empty());
    may.store(true, Ordering::Relaxed);
    after(3).await;
    assert_eq!(server.methods(), [Method::POST]);
}
