//! Tests of the model through clients of `kube`.

use std::time::Duration;

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Namespace, Node, Pod},
};
use kube::{
    api::{
        Api as Objects, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
        Preconditions, VersionMatch, WatchEvent, WatchParams,
    },
    core::Request,
};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::*;

mod failing;
mod watching;

const SECOND: Duration = Duration::from_secs(1);

fn api() -> Api {
    Api::new(Seed::new(1), Options::default())
}

fn with(faults: Faults) -> Api {
    let api = api();
    api.set_faults(faults);
    api
}

fn pods(api: &Api) -> Objects<Pod> {
    Objects::namespaced(api.client("one"), "default")
}

fn pod(name: &str) -> Value {
    json!({ "metadata": { "namespace": "default", "name": name }, "spec": { "containers": [{ "name": "c" }] } })
}

fn typed(name: &str) -> Pod {
    serde_json::from_value(pod(name)).expect("a pod")
}

/// Code of a refusal; 0 for a connection error.
fn code<T>(done: kube::Result<T>) -> u16 {
    match done {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(_) => 0,
    }
}

/// Sends a Binding with this metadata, and returns the code and message of the response.
async fn bind(api: &Api, name: &str, metadata: Value) -> (u16, String) {
    let binding = json!({ "metadata": metadata, "target": { "kind": "Node", "name": "n1" } });
    let body = serde_json::to_vec(&binding).expect("JSON");
    let request = Request::new("/api/v1/namespaces/default/pods");
    let request = request.create_subresource("binding", name, &PostParams::default(), body).expect("a request");
    match api.client("one").request::<Value>(request).await {
        Ok(_) => (201, String::new()),
        Err(kube::Error::Api(status)) => (status.code, status.message),
        Err(error) => (0, error.to_string()),
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_is_made_read_changed_and_deleted() {
    let api = api();
    let pods = pods(&api);
    let made = pods.create(&PostParams::default(), &typed("a")).await.expect("made");
    assert_eq!(made.status.and_then(|status| status.phase).as_deref(), Some("Pending"));
    assert_eq!(code(pods.create(&PostParams::default(), &typed("a")).await), 409);
    let mut read = pods.get("a").await.expect("there");
    assert_eq!(read.metadata.resource_version, made.metadata.resource_version);
    read.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    let changed = pods.replace("a", &PostParams::default(), &read).await.expect("changed");
    assert_ne!(changed.metadata.resource_version, made.metadata.resource_version);
    assert_eq!(code(pods.replace("a", &PostParams::default(), &read).await), 409, "the version is old");
    let same = pods.replace("a", &PostParams::default(), &changed).await.expect("nothing to do");
    assert_eq!(
        same.metadata.resource_version, changed.metadata.resource_version,
        "what changes nothing is not written"
    );
    pods.delete("a", &DeleteParams::default()).await.expect("deleted");
    assert_eq!((code(pods.get("a").await), code(pods.delete("a", &DeleteParams::default()).await)), (404, 404));
    let verbs: Vec<Verb> = api.commits(3).iter().map(|commit| commit.verb).collect();
    assert_eq!(verbs, [Verb::Create, Verb::Update, Verb::Delete]);
    assert!(api.commits(3).iter().all(|commit| &*commit.by == "one" && commit.key() == "default/a"));
}

#[tokio::test(start_paused = true)]
async fn objects_of_any_kind_are_served_without_their_types() {
    let api = api();
    let resource = ApiResource::erase::<Namespace>(&());
    let namespaces: Objects<DynamicObject> = Objects::all_with(api.client("one"), &resource);
    let mut made = DynamicObject::new("shop", &resource);
    made.metadata.labels = Some([("team".to_owned(), "a".to_owned())].into());
    namespaces.create(&PostParams::default(), &made).await.expect("made");
    let found = namespaces.list(&ListParams::default().labels("team=a")).await.expect("a list");
    assert_eq!(found.items.iter().map(|one| one.metadata.name.as_deref()).collect::<Vec<_>>(), [Some("shop")]);
    assert_eq!(found.items[0].types.as_ref().map(|types| &*types.kind), Some("Namespace"));
    let other: Objects<Pod> = Objects::namespaced(api.client("one"), "nowhere");
    assert_eq!(code(other.create(&PostParams::default(), &Pod { spec: typed("a").spec, ..Pod::default() }).await), 422);
    let mut pod = typed("a");
    pod.metadata.namespace = None;
    assert_eq!(code(other.create(&PostParams::default(), &pod).await), 404, "the namespace is not there");
}

#[tokio::test(start_paused = true)]
async fn a_name_is_made_where_only_its_beginning_is_given() {
    let api = api();
    let pods = pods(&api);
    let mut pod = typed("");
    (pod.metadata.name, pod.metadata.generate_name) = (None, Some("web-".to_owned()));
    let one = pods.create(&PostParams::default(), &pod).await.expect("made").metadata.name;
    let other = pods.create(&PostParams::default(), &pod).await.expect("made").metadata.name;
    assert!(one.as_deref().is_some_and(|name| name.starts_with("web-")) && one != other, "{one:?} {other:?}");
}

#[tokio::test(start_paused = true)]
async fn a_list_comes_in_pages_as_of_its_first_one() {
    let api = api();
    let (pods, world) = (pods(&api), api.actor("world"));
    for name in ["a", "b", "c", "d", "e"] {
        world.create(Kind::Pod, pod(name)).expect("made");
    }
    let first = pods.list(&ListParams::default().limit(2)).await.expect("a page");
    world.delete(Kind::Pod, "default/d", &Deletion::default()).expect("deleted");
    world.create(Kind::Pod, pod("f")).expect("made");
    let (mut names, mut more) = (Vec::new(), Some(first.clone()));
    while let Some(page) = more {
        assert_eq!(page.metadata.resource_version, first.metadata.resource_version);
        names.extend(page.items.iter().filter_map(|pod| pod.metadata.name.clone()));
        more = match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => {
                Some(pods.list(&ListParams::default().limit(2).continue_token(&token)).await.expect("a page"))
            }
            None => None,
        };
    }
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_is_as_old_as_it_may_be() {
    let api = api();
    let (pods, world) = (pods(&api), api.actor("world"));
    let names = async |params: ListParams| {
        let list = pods.list(&params).await?;
        Ok::<_, kube::Error>(list.items.into_iter().filter_map(|pod| pod.metadata.name).collect::<Vec<_>>().concat())
    };
    let any = || ListParams { resource_version: Some("0".to_owned()), ..ListParams::default() };
    let at = |version: u64| ListParams { resource_version: Some(version.to_string()), ..ListParams::default() };
    assert_eq!(names(any()).await.expect("a list"), "", "which fills the cache");
    api.set_faults(Faults { stalls: 1_000, stall_ms: 60_000, ..Faults::NONE });
    let first = world.create(Kind::Pod, pod("a")).expect("made").version();
    world.create(Kind::Pod, pod("b")).expect("made");
    assert_eq!(names(any()).await.expect("a list"), "", "the cache lags behind");
    assert_eq!(names(ListParams::default()).await.expect("a list"), "ab", "etcd does not");
    let exact = ListParams { version_match: Some(VersionMatch::Exact), ..at(first) };
    assert_eq!(names(exact).await.expect("a list"), "a");
    let begun = Instant::now();
    assert_eq!(code(names(at(first)).await), 504, "the cache does not catch up in time");
    assert!((SECOND * 3..SECOND * 4).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    sleep(SECOND * 120).await;
    assert_eq!(names(at(first)).await.expect("a list"), "ab");
    assert_eq!(code(names(at(1_000)).await), 504, "there is no such version yet");
}

#[tokio::test(start_paused = true)]
async fn a_read_of_one_object_is_as_old_as_it_may_be() {
    let api = api();
    let world = api.actor("world");
    world.create(Kind::Pod, pod("a")).expect("made");
    let get = async |version: Option<&str>| {
        let params = kube::core::params::GetParams { resource_version: version.map(str::to_owned) };
        let request = Request::new("/api/v1/namespaces/default/pods").get("a", &params).expect("a request");
        api.client("one").request::<Pod>(request).await.map(|pod| pod.metadata.labels.unwrap_or_default().len())
    };
    assert_eq!(get(Some("0")).await.expect("there"), 0);
    api.set_faults(Faults { stalls: 1_000, stall_ms: 60_000, ..Faults::NONE });
    world.change(Kind::Pod, "default/a", |pod| pod["metadata"]["labels"] = json!({ "b": "c" })).expect("changed");
    assert_eq!((get(Some("0")).await.expect("there"), get(None).await.expect("there")), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_once_and_only_as_it_is_taken_to_be() {
    let api = api();
    let world = api.actor("world");
    let labels = json!({ "topology.kubernetes.io/zone": "z1", "other": "x" });
    world.create(Kind::Node, json!({ "metadata": { "name": "n1", "labels": labels } })).expect("made");
    let free = world.create(Kind::Pod, pod("free")).expect("made");
    let mut gated = pod("gated");
    gated["spec"]["schedulingGates"] = json!([{ "name": "wait" }]);
    world.create(Kind::Pod, gated).expect("made");
    let mut held = pod("held");
    held["metadata"]["finalizers"] = json!(["a/b"]);
    world.create(Kind::Pod, held).expect("made");
    world.delete(Kind::Pod, "default/held", &Deletion::default()).expect("marked");
    for (name, metadata, code, says) in [
        ("none", json!({}), 404, "pods \"none\" not found"),
        ("gated", json!({}), 409, "has non-empty .spec.schedulingGates"),
        ("held", json!({}), 409, "is being deleted, cannot be assigned to a host"),
        ("free", json!({ "uid": "another" }), 409, "UID in precondition: another"),
        ("free", json!({ "resourceVersion": "1" }), 409, "the object has been modified"),
        ("free", json!({ "name": "other" }), 400, "name in URL does not match"),
        ("free", json!({ "namespace": "other" }), 400, "namespace of the provided object does not match"),
        ("free", json!({ "name": "free", "uid": free.uid() }), 201, ""),
        ("free", json!({ "uid": free.uid() }), 409, "is already assigned to node \"n1\""),
    ] {
        let (answered, message) = bind(&api, name, metadata).await;
        assert_eq!(answered, code, "{name}: {message}");
        assert!(message.contains(says), "{name}: {message}");
    }
    let bound = api.look(|store| store.get(Kind::Pod, "default", "free").cloned()).expect("there");
    assert_eq!((bound.text("/spec/nodeName"), bound.text("/status/conditions/0/status")), ("n1", "True"));
    assert_eq!(bound.at("/metadata/labels"), &json!({ "topology.kubernetes.io/zone": "z1" }));
    let bindings = api.commits(0).iter().filter(|commit| commit.verb == Verb::Bind).count();
    assert_eq!(bindings, 1);
}

#[tokio::test(start_paused = true)]
async fn a_binding_is_taken_in_protobuf_and_an_event_too() {
    let api = api();
    let free = api.actor("world").create(Kind::Pod, pod("free")).expect("made");
    let binding = flotilla_encoding::Binding { namespace: "default", name: "free", uid: free.uid(), node: "n1" };
    let regarding = flotilla_encoding::Reference { kind: "Pod", name: "free", ..Default::default() };
    let event = flotilla_encoding::Event {
        namespace: "default",
        name: "free.1",
        time: jiff::Timestamp::UNIX_EPOCH,
        series: None,
        controller: "default-scheduler",
        instance: "host",
        action: "Binding",
        reason: "Scheduled",
        regarding,
        related: None,
        note: "bound",
        kind: "Normal",
    };
    for (uri, body) in [
        ("/api/v1/namespaces/default/pods/free/binding", binding.encode(flotilla_encoding::Encoding::Protobuf)),
        ("/apis/events.k8s.io/v1/namespaces/default/events", event.encode(flotilla_encoding::Encoding::Protobuf)),
    ] {
        let request = http::Request::post(uri).header("content-type", flotilla_encoding::Encoding::PROTOBUF);
        let answer = api.client("one").send(request.body(body.into()).expect("a request")).await.expect("answered");
        assert_eq!(answer.status(), 201, "{uri}");
    }
    api.look(|store| {
        assert_eq!(store.get(Kind::Pod, "default", "free").map(|pod| pod.text("/spec/nodeName")), Some("n1"));
        assert_eq!(store.get(Kind::Event, "default", "free.1").map(|event| event.text("/note")), Some("bound"));
    });
}

#[tokio::test(start_paused = true)]
async fn a_patch_changes_what_it_may_and_only_the_object_that_it_names() {
    let api = api();
    let made = api.actor("world").create(Kind::Pod, pod("a")).expect("made");
    let pods = pods(&api);
    let condition = json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" });
    let status = json!({ "conditions": [condition], "nominatedNodeName": "n1" });
    let patch =
        |uid: &str, status| json!({ "metadata": { "uid": uid }, "spec": { "nodeName": "n9" }, "status": status });
    let params = PatchParams::default();
    let done = pods.patch_status("a", &params, &Patch::Strategic(patch(made.uid(), status.clone()))).await;
    let done = done.expect("patched");
    assert_eq!(done.spec.and_then(|spec| spec.node_name), None, "the spec is not changed with the status");
    assert_eq!(done.status.and_then(|status| status.nominated_node_name).as_deref(), Some("n1"));
    let again =
        pods.patch_status("a", &params, &Patch::Strategic(patch(made.uid(), status.clone()))).await.expect("same");
    assert_eq!(again.metadata.resource_version, done.metadata.resource_version);
    assert_eq!(code(pods.patch_status("a", &params, &Patch::Strategic(patch("another", status))).await), 409);
    let cleared = json!({ "status": { "nominatedNodeName": null } });
    let cleared = pods.patch_status("a", &params, &Patch::Merge(cleared)).await.expect("patched").status;
    assert_eq!(
        cleared.map(|status| (status.nominated_node_name, status.phase)),
        Some((None, Some("Pending".to_owned())))
    );
    let moved = json!({ "spec": { "nodeName": "n9" }, "status": { "phase": "Failed" } });
    assert_eq!(code(pods.patch("a", &params, &Patch::Merge(moved)).await), 422, "a pod gets its node by a binding");
    let labelled = json!({ "metadata": { "labels": { "a": "b" } }, "status": { "phase": "Failed" } });
    let labelled = pods.patch("a", &params, &Patch::Merge(labelled)).await.expect("patched");
    assert_eq!(
        labelled.status.and_then(|status| status.phase).as_deref(),
        Some("Pending"),
        "nor is the status with the rest"
    );
    assert_eq!(labelled.metadata.labels.map(|labels| labels.len()), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_pod_on_a_node_goes_when_its_kubelet_says_so_and_another_at_once() {
    let api = api();
    let world = api.actor("world");
    let pods = pods(&api);
    for name in ["waiting", "running"] {
        world.create(Kind::Pod, pod(name)).expect("made");
    }
    assert_eq!(bind(&api, "running", json!({})).await.0, 201);
    for name in ["waiting", "running"] {
        pods.delete(name, &DeleteParams::default()).await.expect("deleted");
    }
    assert_eq!(code(pods.get("waiting").await), 404);
    let going = pods.get("running").await.expect("still there");
    assert_eq!(going.metadata.deletion_grace_period_seconds, Some(30));
    let uid = going.metadata.uid.clone();
    let other = Preconditions { uid: Some("another".to_owned()), resource_version: None };
    let params = DeleteParams { preconditions: Some(other), ..DeleteParams::default() };
    assert_eq!(code(pods.delete("running", &params).await), 409);
    let confirmed = Deletion { grace_s: Some(0), uid, version: None };
    world.delete(Kind::Pod, "default/running", &confirmed).expect("gone");
    assert_eq!(code(pods.get("running").await), 404);
    let verbs: Vec<Verb> = api.commits(6).iter().map(|commit| commit.verb).collect();
    assert_eq!(verbs, [Verb::Delete, Verb::MarkDeleted, Verb::Delete]);
}

#[tokio::test(start_paused = true)]
async fn an_object_with_a_finalizer_goes_when_that_is_taken_away() {
    let api = api();
    let world = api.actor("world");
    let held = json!({ "metadata": { "name": "n1", "finalizers": ["a/b"] } });
    world.create(Kind::Node, held).expect("made");
    let nodes: Objects<Node> = Objects::all(api.client("one"));
    nodes.delete("n1", &DeleteParams::default()).await.expect("marked");
    assert!(nodes.get("n1").await.expect("still there").metadata.deletion_timestamp.is_some());
    let free = json!({ "metadata": { "finalizers": null } });
    nodes.patch("n1", &PatchParams::default(), &Patch::Merge(free)).await.expect("freed");
    assert_eq!(code(nodes.get("n1").await), 404);
}

#[tokio::test(start_paused = true)]
async fn of_two_who_write_a_lease_that_both_have_read_one_is_refused() {
    let api = api();
    let leases = |name| Objects::<Lease>::namespaced(api.client(name), "kube-system");
    let lease = json!({ "metadata": { "name": "l" }, "spec": { "holderIdentity": "a", "leaseTransitions": 0 } });
    let lease: Lease = serde_json::from_value(lease).expect("a lease");
    let (one, two) = (leases("one"), leases("two"));
    let params = PostParams::default();
    let (first, second) = tokio::join!(one.create(&params, &lease), two.create(&params, &lease));
    assert_eq!([code(first), code(second)].iter().filter(|code| **code == 409).count(), 1);
    let mut read = one.get("l").await.expect("there");
    read.spec.as_mut().expect("a spec").holder_identity = Some("b".to_owned());
    let (first, second) = tokio::join!(one.replace("l", &params, &read), two.replace("l", &params, &read));
    let codes = [code(first), code(second)];
    assert!(codes == [200, 200] || codes == [200, 409] || codes == [409, 200], "{codes:?}");
    read.spec.as_mut().expect("a spec").holder_identity = Some("c".to_owned());
    assert_eq!(code(one.replace("l", &params, &read).await), 409, "the version is old");
}

/// Runs the same requests with the same seed.
async fn course(seed: u64) -> Vec<(u64, String, u64)> {
    let api = Api::new(Seed::new(seed), Options::default());
    api.set_faults(Faults::draw(&mut Seed::new(seed)));
    let tasks = ["one", "two"].map(|client| {
        let pods: Objects<Pod> = Objects::namespaced(api.client(client), "default");
        tokio::spawn(async move {
            for index in 0..50 {
                let pod = typed(&format!("{client}-{index}"));
                let _ = timeout(SECOND, pods.create(&PostParams::default(), &pod)).await;
                let _ =
                    timeout(SECOND, pods.delete(&format!("{client}-{}", index / 2), &DeleteParams::default())).await;
            }
        })
    });
    for task in tasks {
        task.await.expect("no panic");
    }
    api.commits(0).iter().map(|commit| (commit.at_ms, commit.key().to_owned(), commit.version)).collect()
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_course() {
    let mut courses = Vec::new();
    for seed in 0..10 {
        courses.push(course(seed).await);
        assert_eq!(courses.last(), Some(&course(seed).await), "seed {seed}");
    }
    assert!(courses.iter().any(|other| *other != courses[0]));
}
