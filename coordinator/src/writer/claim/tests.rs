//! Writes to claims against a scripted API server.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use flotilla_framework::{
    class::{NodeTerm, Requirement},
    devices::{
        amount::Amount,
        extended::Mapping,
        model::{
            DeviceName,
            allocation::{AllocatedConfig, Allocation, ConfigSource, DeviceResult},
            claim::{Consumer, Controller, FINALIZER},
            request::{Ask, ClaimSpec, Configuration, OpaqueConfiguration, Request, RequestKind},
        },
        objects::DeviceKey,
    },
    extension::objects::Patch,
};
use flotilla_machine::{
    action::{PodName, PreBind, Unreserve},
    event::{Event, PreparationId},
};
use flotilla_runtime::driver::testing::listener;
use http::{Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::*;
use crate::{
    lease::{self, Leadership},
    versions::Served,
    writer::{Tally, Writer},
};

enum Act {
    Answer(Value),
    Bytes(&'static [u8]),
    Refuse(u16, &'static str),
    Break,
}

use Act::{Answer, Break, Bytes as Received, Refuse};

type Asked = Arc<Mutex<Vec<(String, String, String, Value)>>>;

fn client(script: Vec<Act>) -> (kube::Client, Asked) {
    let script = Arc::new(Mutex::new(VecDeque::from(script)));
    let asked = Asked::default();
    let log = Arc::clone(&asked);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (script, log) = (Arc::clone(&script), Arc::clone(&log));
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.expect("a body");
            // A body that is not JSON is represented by its length.
            let body = if body.is_empty() {
                Value::Null
            } else {
                serde_json::from_slice(&body).unwrap_or_else(|_| json!(body.len()))
            };
            let media = head.headers.get("content-type").map_or("", |value| value.to_str().expect("a text")).to_owned();
            log.lock().expect("unpoisoned").push((head.method.to_string(), head.uri.path().to_owned(), media, body));
            let (code, body) = match script.lock().expect("unpoisoned").pop_front().expect("no more than that") {
                Answer(object) => (200, object),
                Received(bytes) => {
                    return Ok(Response::builder().body(Body::from(bytes.to_vec())).expect("a response"));
                }
                Refuse(code, message) => (
                    code,
                    json!({ "kind": "Status", "status": "Failure", "code": code, "message": message, "reason": "x" }),
                ),
                Break => return Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
            };
            let code = StatusCode::from_u16(code).expect("a code");
            Ok(Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).expect("a response"))
        }
    });
    (kube::Client::new(service, "default"), asked)
}

fn claim(version: &str, more: &Value) -> Value {
    let mut claim = json!({
        "metadata": { "name": "gpu", "namespace": "shop", "uid": "claim-uid", "resourceVersion": version }, "status": {},
    });
    for (part, fields) in more.as_object().into_iter().flatten() {
        claim[part].as_object_mut().expect("an object").extend(fields.as_object().cloned().unwrap_or_default());
    }
    claim
}

fn other_pod() -> Value {
    json!({ "resource": "pods", "name": "other", "uid": "u0" })
}

fn own_pod() -> Value {
    json!({ "resource": "pods", "name": "web-1", "uid": "u1" })
}

fn consumer() -> Consumer {
    Consumer { api_group: "".into(), resource: "pods".into(), name: "web-1".into(), uid: "u1".into() }
}

/// One device, with all fields of an allocation.
fn allocation() -> Arc<Allocation> {
    let result = DeviceResult {
        request: "r".into(),
        device: DeviceName { driver: "d".into(), pool: "p".into(), device: "x".into() },
        share: Some("s".into()),
        consumed: Some(vec![("memory".into(), Amount::parse("1Gi").expect("a quantity"))]),
        binding_conditions: vec!["B".into()],
        skipped_operations: vec!["NodePrepareResources".into()],
        ..DeviceResult::default()
    };
    let parameters = r#"{"a":null,"b":[null]}"#.into();
    let opaque = Some(OpaqueConfiguration { driver: "d".into(), parameters });
    let config = AllocatedConfig {
        source: ConfigSource::Claim,
        requests: vec!["r".into()],
        configuration: Configuration { opaque },
    };
    let on = Requirement { key: "metadata.name".into(), operator: "In".into(), values: vec!["n1".into()] };
    Arc::new(Allocation {
        results: vec![result],
        config: vec![config],
        node_selector: Some(vec![NodeTerm { expressions: Vec::new(), fields: vec![on] }]),
        allocated_s: Some(60),
        is_untimed: false,
    })
}

fn allocation_as_json() -> Value {
    let result = json!({
        "request": "r", "driver": "d", "pool": "p", "device": "x", "shareID": "s", "consumedCapacity": { "memory": "1Gi" },
        "bindingConditions": ["B"], "skipNodeOperations": ["NodePrepareResources"],
    });
    let opaque = json!({ "driver": "d", "parameters": { "a": null, "b": [null] } });
    let on = json!({ "key": "metadata.name", "operator": "In", "values": ["n1"] });
    json!({
        "devices": { "results": [result], "config": [{ "source": "FromClaim", "requests": ["r"], "opaque": opaque }] },
        "nodeSelector": { "nodeSelectorTerms": [{ "matchFields": [on] }] },
        "allocationTimestamp": "1970-01-01T00:01:00Z",
    })
}

#[test]
fn an_allocation_without_binding_conditions_has_no_time() {
    let untimed = Allocation { is_untimed: true, ..Allocation::clone(&allocation()) };
    let mut expected = allocation_as_json();
    assert_eq!(json::allocation(&allocation(), 7).as_ref(), Ok(&expected));
    expected.as_object_mut().expect("an object").remove("allocationTimestamp");
    assert_eq!(json::allocation(&untimed, 7), Ok(expected));
}

fn to(name: &str, uid: &str, version: &str, patch: ClaimPatch) -> Write {
    let object = DeviceKey::claim("shop".into(), name.into()).into();
    Write { object, uid: uid.into(), resource_version: version.into(), patch: Patch::Claim(patch) }
}

fn protect() -> Write {
    to("gpu", "claim-uid", "7", ClaimPatch::SetFinalizers(vec!["a".into(), FINALIZER.into()]))
}

fn allocate() -> Write {
    let patch =
        ClaimPatch::SetStatus { allocation: Some(allocation()), reserved_for: vec![consumer()], consumer: consumer() };
    to("gpu", "claim-uid", "7", patch)
}

fn reserve() -> Write {
    to(
        "gpu",
        "claim-uid",
        "7",
        ClaimPatch::SetStatus { allocation: None, reserved_for: vec![consumer()], consumer: consumer() },
    )
}

fn create() -> Write {
    let ask = Ask { class: "gpu".into(), ..Ask::default() };
    let request = Request { name: "container-0-request-0".into(), kind: RequestKind::Exactly(ask) };
    let claim = DeviceClaim {
        namespace: "shop".into(),
        name: "web-1-extended".into(),
        controller: Some(Controller {
            kind: "Pod".into(),
            name: "web-1".into(),
            uid: "u1".into(),
            ..Controller::default()
        }),
        spec: Arc::new(ClaimSpec { requests: vec![request], ..ClaimSpec::default() }),
        ..DeviceClaim::default()
    };
    to("web-1-extended", "", "", ClaimPatch::Create(Arc::new(claim)))
}

fn tell() -> Write {
    let mapping = Mapping {
        container: "main".into(),
        resource: "example.com/gpu".into(),
        request: "container-0-request-0".into(),
    };
    let patch = ClaimPatch::TellPod { pod: "web-1".into(), uid: "u1".into(), mappings: vec![mapping].into() };
    to("web-1-extended", "", "", patch)
}

fn writer(script: Vec<Act>) -> (Writer, Asked, mpsc::UnboundedReceiver<Event>, watch::Sender<Leadership>) {
    let (client, asked) = client(script);
    let valid_until = lease::now() + Duration::from_secs(1_000);
    let (leading, follows) = watch::channel(Leadership::Leading { epoch: 1, valid_until });
    let (handle, heard): (_, mpsc::UnboundedReceiver<Event>) = listener();
    (Writer::new(client, handle, follows, Served::default()), asked, heard, leading)
}

/// The answer to a PreBind with these writes, and the requests after the announcement of the node.
async fn outcome(
    writes: Vec<Write>,
    script: Vec<Act>,
) -> (Result<Vec<String>, String>, Vec<(String, String, String, Value)>) {
    let announced = Answer(json!({ "metadata": { "resourceVersion": "1" } }));
    let (writer, asked, mut heard, _leading) = writer(std::iter::once(announced).chain(script).collect());
    let (id, uid, node) = (PreparationId(3), Arc::from("u1"), Arc::from("n1"));
    writer.pre_bind(PreBind {
        id,
        uid,
        namespace: "shop".into(),
        name: "web-1".into(),
        node,
        is_announced: true,
        writes,
    });
    writer.drained().await;
    let Some(Event::Written { versions, failure, .. }) = heard.recv().await else { panic!("no answer") };
    let versions = versions.iter().map(ToString::to_string).collect();
    let asked = asked.lock().expect("unpoisoned")[1..].to_vec();
    (failure.map_or(Ok(versions), Err), asked)
}

fn methods(asked: &[(String, String, String, Value)]) -> Vec<&str> {
    asked.iter().map(|(method, ..)| method.as_str()).collect()
}

const PATH: &str = "/apis/resource.k8s.io/v1/namespaces/shop/resourceclaims";
const NOT_FOUND: Act = Refuse(404, "resourceclaims.resource.k8s.io \"gpu\" not found");
const CONFLICT: Act = Refuse(
    409,
    "Operation cannot be fulfilled on resourceclaims.resource.k8s.io \"gpu\": the object has been modified",
);

#[tokio::test(start_paused = true)]
async fn a_claim_is_protected_allocated_and_reserved_each_on_the_version_before() {
    let script = vec![Answer(claim("8", &json!({}))), Answer(claim("9", &json!({})))];
    let (versions, asked) = outcome(vec![protect(), allocate()], script).await;
    assert_eq!(versions, Ok(vec!["8".to_owned(), "9".to_owned()]));
    let protected =
        json!({ "metadata": { "uid": "claim-uid", "resourceVersion": "7", "finalizers": ["a", FINALIZER] } });
    let allocated = json!([
        { "op": "replace", "path": "/metadata/uid", "value": "claim-uid" },
        { "op": "replace", "path": "/metadata/resourceVersion", "value": "8" },
        { "op": "add", "path": "/status/allocation", "value": allocation_as_json() },
        { "op": "add", "path": "/status/reservedFor", "value": [own_pod()] },
    ]);
    let expected = [
        ("PATCH", format!("{PATH}/gpu"), "application/merge-patch+json", protected),
        ("PATCH", format!("{PATH}/gpu/status"), "application/json-patch+json", allocated),
    ];
    assert_eq!(asked, expected.map(|(method, path, media, body)| (method.to_owned(), path, media.to_owned(), body)));
}

#[tokio::test(start_paused = true)]
async fn a_claim_for_extended_resources_is_created_first_and_named_on_the_pod_last() {
    let created = json!({ "metadata": { "name": "web-1-extended", "uid": "new", "resourceVersion": "5" } });
    let protect = to("web-1-extended", "", "", ClaimPatch::SetFinalizers(vec![FINALIZER.into()]));
    let written = |version: &str| Answer(json!({ "metadata": { "resourceVersion": version } }));
    let script = vec![Answer(created), written("6"), written("99")];
    let (versions, asked) = outcome(vec![create(), protect, tell()], script).await;
    assert_eq!(versions, Ok(["5", "6", "6"].map(str::to_owned).to_vec()));
    let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "web-1", "uid": "u1", "controller": true });
    let exactly = json!({ "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1 });
    let made = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {
            "name": "web-1-extended", "namespace": "shop", "ownerReferences": [owner],
            "annotations": { "resource.kubernetes.io/extended-resource-claim": "true" },
        },
        "spec": { "devices": { "requests": [{ "name": "container-0-request-0", "exactly": exactly }] } },
    });
    let mapping =
        json!({ "containerName": "main", "resourceName": "example.com/gpu", "requestName": "container-0-request-0" });
    let told = json!({ "metadata": { "uid": "u1" }, "status": { "extendedResourceClaimStatus": {
        "resourceClaimName": "web-1-extended", "requestMappings": [mapping] } } });
    assert_eq!((asked[0].0.as_str(), asked[0].1.as_str(), &asked[0].3), ("POST", PATH, &made));
    let metadata = json!({ "uid": "new", "resourceVersion": "5", "finalizers": [FINALIZER] });
    assert_eq!(asked[1].3, json!({ "metadata": metadata }));
    assert_eq!((asked[2].1.as_str(), &asked[2].3), ("/api/v1/namespaces/shop/pods/web-1/status", &told));
}

#[tokio::test(start_paused = true)]
async fn after_a_conflict_the_write_is_sent_on_the_claim_as_it_is_if_it_still_makes_sense() {
    let others = json!({ "metadata": { "finalizers": ["b"] } });
    let script = vec![CONFLICT, Answer(claim("8", &others)), Answer(claim("9", &json!({})))];
    let (versions, asked) = outcome(vec![protect()], script).await;
    assert_eq!(versions, Ok(vec!["9".to_owned()]));
    assert_eq!(methods(&asked), ["PATCH", "GET", "PATCH"]);
    let metadata = json!({ "uid": "claim-uid", "resourceVersion": "8", "finalizers": ["b", FINALIZER] });
    assert_eq!(asked[2].3, json!({ "metadata": metadata }));

    let shared = json!({ "status": { "allocation": allocation_as_json(), "reservedFor": [other_pod()] } });
    let script = vec![CONFLICT, Answer(claim("8", &shared)), Answer(claim("9", &json!({})))];
    let (versions, asked) = outcome(vec![reserve()], script).await;
    assert_eq!(versions, Ok(vec!["9".to_owned()]));
    assert_eq!(asked[2].3[1]["value"], "8");
    assert_eq!(asked[2].3[2]["value"], json!([other_pod(), own_pod()]));
}

#[tokio::test(start_paused = true)]
async fn a_reservation_for_the_group_that_another_pod_has_written_is_not_repeated() {
    let group = Consumer {
        api_group: "scheduling.k8s.io".into(),
        resource: "podgroups".into(),
        name: "g".into(),
        uid: "group-uid".into(),
    };
    let in_json = json!({
        "apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "group-uid",
    });
    let patch = ClaimPatch::SetStatus { allocation: None, reserved_for: vec![group.clone()], consumer: group };
    let status = |reserved_for: &[Value]| json!({ "status": { "allocation": allocation_as_json(), "reservedFor": reserved_for } });
    for (reserved_for, expected) in [(vec![in_json.clone()], None), (vec![], Some(json!([in_json])))] {
        let fresh = Answer(claim("8", &status(&reserved_for)));
        let script = vec![CONFLICT, fresh, Answer(claim("9", &json!({})))];
        let (versions, asked) = outcome(vec![to("gpu", "claim-uid", "7", patch.clone())], script).await;
        assert_eq!(versions, Ok(vec![if expected.is_some() { "9" } else { "8" }.to_owned()]));
        assert_eq!(asked.get(2).map(|asked| asked.3[2]["value"].clone()), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_conflict_a_write_that_makes_no_sense_any_more_is_none() {
    let elsewhere = json!({
        "metadata": { "finalizers": [FINALIZER] },
        "status": { "allocation": { "devices": { "results": [
            { "request": "r", "driver": "d", "pool": "p", "device": "y" } ] } }, "reservedFor": [other_pod()] },
    });
    let deleting = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [FINALIZER] } });
    let again = json!({ "metadata": { "uid": "another" } });
    let unprotected = json!({});
    let cases = [
        (allocate(), &elsewhere, "claim shop/gpu got allocated elsewhere in the meantime"),
        (protect(), &elsewhere, "claim shop/gpu got allocated elsewhere in the meantime"),
        (allocate(), &deleting, "claim shop/gpu got deleted in the meantime"),
        (reserve(), &deleting, "claim shop/gpu got deleted in the meantime"),
        (reserve(), &again, "claim shop/gpu got deleted in the meantime"),
        (reserve(), &unprotected, "claim shop/gpu got deallocated elsewhere in the meantime"),
        (allocate(), &unprotected, "claim shop/gpu lost its finalizer in the meantime"),
    ];
    for (write, fresh, expected) in cases {
        let (said, asked) = outcome(vec![write], vec![CONFLICT, Answer(claim("8", fresh))]).await;
        assert_eq!(said, Err(expected.to_owned()));
        assert_eq!(methods(&asked), ["PATCH", "GET"]);
    }
    let (said, _) = outcome(vec![allocate()], vec![CONFLICT, NOT_FOUND]).await;
    assert_eq!(said, Err("claim shop/gpu got deleted in the meantime".to_owned()));
}

/// The API server's answer to a patch of a claim with parameters that it would rewrite.
const IMMUTABLE: Act =
    Refuse(422, "ResourceClaim.resource.k8s.io \"gpu\" is invalid: spec: Invalid value: null: field is immutable");

#[tokio::test(start_paused = true)]
async fn a_claim_that_no_patch_is_taken_of_is_sent_back_as_it_was_received() {
    let received = include_bytes!("../../../encoding/tests/recorded/ResourceClaim.pb");
    let (metadata, _) = flotilla_encoding::with_finalizers(received, &[]).expect("a claim");
    let version = metadata.version().expect("a version");
    let protect = |version: &str| Write { resource_version: version.into(), ..protect() };
    let script = vec![IMMUTABLE, Received(received), Answer(claim("900", &json!({})))];
    let (said, asked) = outcome(vec![protect(version)], script).await;
    assert_eq!(said, Ok(vec!["900".to_owned()]));
    assert_eq!(methods(&asked), ["PATCH", "GET", "PUT"]);
    let (_, sent) = flotilla_encoding::with_finalizers(received, &["a", FINALIZER]).expect("a claim");
    assert_eq!((asked[2].2.as_str(), &asked[2].3), ("application/vnd.kubernetes.protobuf", &json!(sent.len())));
    // It has been replaced.
    let fresh = claim("8", &json!({ "metadata": { "finalizers": [FINALIZER] } }));
    let (said, asked) = outcome(vec![protect("7")], vec![IMMUTABLE, Received(received), Answer(fresh)]).await;
    assert_eq!(said, Ok(vec!["8".to_owned()]));
    assert_eq!(methods(&asked), ["PATCH", "GET", "GET"]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_changes_all_the_time_is_given_up() {
    let protected = json!({ "metadata": { "finalizers": [FINALIZER] } });
    let script = (0..2 * TRIES).map(|turn| if turn % 2 == 0 { CONFLICT } else { Answer(claim("8", &protected)) });
    let (said, asked) = outcome(vec![allocate()], script.collect()).await;
    assert!(
        said.is_err_and(|said| said.starts_with("add allocation and reservation to claim shop/gpu: Operation cannot"))
    );
    assert_eq!(asked.len(), 2 * TRIES as usize - 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_looked_up_until_it_is_known_what_became_of_the_write() {
    let ours = json!({
        "metadata": { "finalizers": [FINALIZER] },
        "status": { "allocation": allocation_as_json(), "reservedFor": [own_pod()] },
    });
    let before = json!({ "metadata": { "finalizers": [FINALIZER] } });
    let done = Ok(vec!["8".to_owned()]);
    for lost in [Break, Refuse(500, "etcd is away"), Refuse(504, "timeout")] {
        let script = vec![lost, Break, Answer(claim("7", &before)), Answer(claim("8", &ours))];
        let (said, asked) = outcome(vec![allocate()], script).await;
        assert_eq!(said, done);
        assert_eq!(methods(&asked), ["PATCH", "GET", "GET", "GET"]);
    }
    // A refused look-up does not give the state of the claim.
    for (code, refused) in [(401, "Unauthorized"), (403, "forbidden"), (404, "404 page not found")] {
        let (said, asked) =
            outcome(vec![allocate()], vec![Break, Refuse(code, refused), Answer(claim("8", &ours))]).await;
        assert_eq!((said, methods(&asked).len()), (done.clone(), 3), "{code}");
    }
    let script = vec![Refuse(500, "etcd is away"), Answer(claim("7", &before)), Answer(claim("7", &before))];
    let (said, asked) = outcome(vec![allocate()], script).await;
    assert_eq!(said, Err("add allocation and reservation to claim shop/gpu: etcd is away".to_owned()));
    assert_eq!(methods(&asked), ["PATCH", "GET", "GET"]);
    // Another client has written meanwhile, so that the first write can no longer be executed.
    let script = vec![Break, Answer(claim("8", &before)), Answer(claim("9", &json!({})))];
    let (said, asked) = outcome(vec![allocate()], script).await;
    assert_eq!(said, Ok(vec!["9".to_owned()]));
    assert_eq!(asked[2].3[1]["value"], "8");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_created_without_an_answer_is_taken_up_and_one_of_others_is_not() {
    let made_for = |uid: &str| {
        let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "web-1", "uid": uid, "controller": true });
        let annotations = json!({ "resource.kubernetes.io/extended-resource-claim": "true" });
        claim("5", &json!({ "metadata": { "ownerReferences": [owner], "annotations": annotations } }))
    };
    let script = vec![Break, Answer(made_for("u1"))];
    assert_eq!(outcome(vec![create()], script).await.0, Ok(vec!["5".to_owned()]));
    let script = vec![Refuse(409, "already exists"), Answer(made_for("u1"))];
    assert_eq!(outcome(vec![create()], script).await.0, Ok(vec!["5".to_owned()]));
    let script = vec![Refuse(409, "already exists"), Answer(made_for("u9"))];
    let said = outcome(vec![create()], script).await.0.expect_err("it is another pod's");
    assert!(said.starts_with("create claim for extended resources shop/web-1-extended: there is a claim"), "{said}");
    let script = vec![Refuse(403, "no right")];
    assert_eq!(
        outcome(vec![create()], script).await.0,
        Err("create claim for extended resources shop/: no right".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_taken_back_may_be_gone() {
    let writes = vec![
        to("gpu", "claim-uid", "", ClaimPatch::RemoveReservation("u1".into())),
        to("gpu", "claim-uid", "7", ClaimPatch::Deallocate),
        to("gpu", "claim-uid", "7", ClaimPatch::Delete),
    ];
    let all_is_well =
        || vec![Answer(claim("8", &json!({}))), Answer(claim("9", &json!({}))), Answer(json!({ "kind": "Status" }))];
    let is_gone = || vec![Refuse(404, "not found"), Refuse(404, "not found"), Refuse(404, "not found")];
    for script in [all_is_well(), is_gone()] {
        let (writer, asked, _heard, _leading) = writer(script);
        let pod = PodName { uid: "u1".into(), namespace: "shop".into(), name: "web-1".into() };
        writer.unreserve(Unreserve { pod, plugin: "DynamicResources", writes: writes.clone() });
        writer.drained().await;
        assert_eq!(writer.tally(), Tally { written: 3, ..Tally::default() });
        let asked = asked.lock().expect("unpoisoned").clone();
        let reservation = json!({ "metadata": { "uid": "claim-uid" }, "status": {
            "reservedFor": [{ "$patch": "delete", "uid": "u1" }] } });
        assert_eq!((asked[0].2.as_str(), &asked[0].3), ("application/strategic-merge-patch+json", &reservation));
        assert_eq!(asked[1].3["status"], json!({ "allocation": null, "reservedFor": null, "devices": null }));
        assert_eq!(methods(&asked), ["PATCH", "PATCH", "DELETE"]);
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_lead_any_more_looks_nothing_up() {
    let announced = Answer(json!({ "metadata": { "resourceVersion": "1" } }));
    let (writer, asked, mut heard, leading) = writer(vec![announced]);
    leading.send_replace(Leadership::Leading { epoch: 1, valid_until: lease::now() });
    let (id, uid, node) = (PreparationId(3), Arc::from("u1"), Arc::from("n1"));
    writer.pre_bind(PreBind {
        id,
        uid,
        namespace: "shop".into(),
        name: "web-1".into(),
        node,
        is_announced: true,
        writes: vec![allocate()],
    });
    writer.drained().await;
    let Some(Event::Written { failure: Some(said), .. }) = heard.recv().await else { panic!("no failure") };
    assert!(said.ends_with("this process is no longer the leader"), "{said}");
    assert!(asked.lock().expect("unpoisoned").is_empty());
}
