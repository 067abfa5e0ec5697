//! Evictions against a scripted API server.

use std::sync::Mutex;

use super::*;
use crate::{lease, status::Reporter};
use flotilla_machine::{
    action::{PodName, PreemptorKind},
    event::PreemptionId,
};
use flotilla_runtime::driver::testing::listener;
use http::{Method, Response, StatusCode};
use kube::client::Body;

/// An API server with one script per pod; the last line of a script repeats.
#[derive(Clone, Default)]
struct Server {
    scripts: Vec<(&'static str, Vec<(u16, &'static str)>)>,
    asked: Arc<Mutex<Vec<(Method, String, Value)>>>,
}

impl Server {
    fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.expect("a body");
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let path = parts.uri.path().to_owned();
                let mut asked = server.asked.lock().expect("unpoisoned");
                let script = server.scripts.iter().find(|(pod, _)| path.contains(&format!("/{pod}")));
                let before =
                    asked.iter().filter(|(_, known, _)| script.is_some_and(|(pod, _)| known.contains(pod))).count();
                let (code, message) = script.map_or((200, ""), |(_, lines)| lines[before.min(lines.len() - 1)]);
                asked.push((parts.method, path, body));
                let kind = if code == 200 { "Pod" } else { "Status" };
                let answer =
                    json!({ "kind": kind, "status": "Failure", "code": code, "message": message, "reason": "x" });
                let body = Body::from(answer.to_string().into_bytes());
                let code = StatusCode::from_u16(code).expect("a code");
                Ok::<_, std::io::Error>(Response::builder().status(code).body(body).expect("a response"))
            }
        });
        kube::Client::new(service, "default")
    }

    fn asked(&self) -> Vec<(Method, String, Value)> {
        self.asked.lock().expect("unpoisoned").clone()
    }
}

fn named(name: &str) -> PodName {
    PodName { uid: Arc::from(format!("uid-{name}")), namespace: Arc::from("default"), name: Arc::from(name) }
}

fn preemption(victims: &[&str]) -> Preemption {
    Preemption {
        id: PreemptionId(7),
        preemptor: named("high"),
        kind: PreemptorKind::Pod,
        pods: vec![named("high").uid],
        scheduler_name: Arc::from("default-scheduler"),
        node: Some(Arc::from("n1")),
        victims: victims.iter().map(|name| Victim { pod: named(name), generation: 3 }).collect(),
        in_memory: Vec::new(),
    }
}

fn leading() -> Leadership {
    Leadership::Leading { epoch: 1, valid_until: lease::now() + Duration::from_secs(60) }
}

async fn answer(server: &Server, lead: Leadership, preemption: Preemption) -> (Option<String>, Tally) {
    let (handle, mut told) = listener();
    let (_lead, leading) = watch::channel(lead);
    let reporter = Reporter::new(&server.client(), &server.client(), "host", &watch::channel(Leadership::UNKNOWN).1);
    let events = reporter.events().clone();
    let evictor = Evictor::new(server.client(), handle, events, Scheduled::default(), leading);
    evictor.preempt(preemption);
    let event = told.recv().await.expect("an answer");
    let Event::Preempted { uid, id, failure } = event else { panic!("{event:?}") };
    assert_eq!((&*uid, id), ("uid-high", PreemptionId(7)));
    (failure, evictor.tally())
}

#[tokio::test(start_paused = true)]
async fn each_victim_is_told_and_deleted_by_its_uid_and_the_last_one_after_the_others() {
    let server = Server::default();
    let (failure, tally) = answer(&server, leading(), preemption(&["a", "b", "c"])).await;
    assert_eq!((failure, tally.deleted), (None, 3));
    let asked = server.asked();
    assert_eq!(asked.len(), 6);
    let (method, path, body) = &asked[4];
    assert_eq!((method, path.as_str()), (&Method::PATCH, "/api/v1/namespaces/default/pods/c/status"));
    assert_eq!(body["metadata"]["uid"], "uid-c");
    let condition = &body["status"]["conditions"][0];
    assert_eq!(condition["message"], "default-scheduler: preempting to accommodate a higher priority pod");
    assert_eq!((&condition["type"], &condition["status"]), (&json!("DisruptionTarget"), &json!("True")));
    assert_eq!(condition["observedGeneration"], 3);
    let (method, path, body) = &asked[5];
    assert_eq!((method, path.as_str()), (&Method::DELETE, "/api/v1/namespaces/default/pods/c"));
    assert_eq!(body["preconditions"]["uid"], "uid-c");
}

#[tokio::test(start_paused = true)]
async fn a_victim_that_is_gone_or_was_made_anew_is_left_alone() {
    let conflict = "Precondition failed: UID in precondition: u1, UID in object meta: u2";
    for script in [vec![(404, "not found")], vec![(409, conflict)], vec![(200, ""), (404, "not found")]] {
        let server = Server { scripts: vec![("a", script)], ..Server::default() };
        let (failure, tally) = answer(&server, leading(), preemption(&["a"])).await;
        assert_eq!((failure, tally.gone, tally.deleted), (None, 1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_pass_is_tried_again_and_what_may_not_is_told() {
    let server = Server { scripts: vec![("a", vec![(503, "busy"), (429, "busy"), (200, "")])], ..Server::default() };
    let (failure, tally) = answer(&server, leading(), preemption(&["a"])).await;
    assert_eq!((failure, tally.repeated, tally.deleted), (None, 2, 1));
    for (script, expected) in [((403, "forbidden"), "forbidden"), ((500, "broken"), "broken")] {
        let server = Server { scripts: vec![("a", vec![script])], ..Server::default() };
        let (failure, tally) = answer(&server, leading(), preemption(&["a"])).await;
        assert_eq!((failure.as_deref(), tally.failed), (Some(expected), 1));
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_victim_is_spared_where_another_one_cannot_be_deleted() {
    let server = Server { scripts: vec![("a", vec![(403, "forbidden")])], ..Server::default() };
    let (failure, _) = answer(&server, leading(), preemption(&["a", "b"])).await;
    assert_eq!(failure.as_deref(), Some("forbidden"));
    assert!(server.asked().iter().all(|(_, path, _)| !path.contains("/b")));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_does_not_lead_deletes_nothing() {
    let server = Server::default();
    let (failure, _) = answer(&server, Leadership::UNKNOWN, preemption(&["a", "b"])).await;
    assert_eq!(failure.as_deref(), Some("this process is no longer the leader"));
    assert_eq!(server.asked(), []);
}
