//! The kinds of devices, and API servers that lack some.

use flotilla_framework::devices::{
    model::{claim::DeviceClaim, class::DeviceClass, slice::Slice, taint::DeviceTaintRule},
    objects::DeviceObject,
};

use super::*;

#[tokio::test(start_paused = true)]
async fn claims_classes_slices_and_rules_are_told_with_what_scheduling_reads() {
    let claim = DeviceClaim { namespace: "shop".into(), name: "gpu".into(), uid: "u".into(), ..DeviceClaim::default() };
    let of_claim = json!({ "metadata": { "namespace": "shop", "name": "gpu", "uid": "u" }, "spec": {} });
    let class = DeviceClass { name: "gpu".into(), selectors: vec![Some("true".into())], ..DeviceClass::default() };
    let of_class =
        json!({ "metadata": { "name": "gpu" }, "spec": { "selectors": [{ "cel": { "expression": "true" } }] } });
    let slice = Slice { name: "s".into(), driver: "d".into(), pool: "p".into(), slice_count: 1, ..Slice::default() };
    let pool = json!({ "name": "p", "generation": 0, "resourceSliceCount": 1 });
    let of_slice = json!({ "metadata": { "name": "s" }, "spec": { "driver": "d", "pool": pool } });
    let rule = DeviceTaintRule { name: "r".into(), ..DeviceTaintRule::default() };
    let of_rule = json!({ "metadata": { "name": "r" }, "spec": { "taint": { "key": "", "effect": "NoSchedule" } } });
    let table: [(DeviceObject, [Event; 2]); 4] = [
        (claim.into(), told_of_storage::<AllOf<ResourceClaim>>(of_claim).await),
        (class.into(), told_of_storage::<AllOf<stored::DeviceClass>>(of_class).await),
        (slice.into(), told_of_storage::<AllOf<stored::ResourceSlice>>(of_slice).await),
        (rule.into(), told_of_storage::<AllOf<stored::DeviceTaintRule>>(of_rule).await),
    ];
    for (object, told) in table {
        let key = object.key();
        assert_eq!(told, [Event::ObjectApplied(object.into()), Event::ObjectDeleted(key.into())]);
    }
}

#[tokio::test(start_paused = true)]
async fn where_a_list_of_claims_begins_and_ends_is_told() {
    let expired = json!({ "kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version" });
    let claim = |name: &str, version: &str| {
        let metadata = json!({ "namespace": "shop", "name": name, "uid": name, "resourceVersion": version });
        json!({ "metadata": metadata, "spec": {} })
    };
    let list = |version: &str, items: &[Value]| json!({ "metadata": { "resourceVersion": version }, "items": items });
    let server = Server::default();
    server.answers("list resourceclaims", 200, list("10", &[claim("a", "5")]));
    server.answers("watch resourceclaims", 410, &expired);
    server.answers("list resourceclaims", 200, list("20", &[claim("b", "15")]));
    let (mut heard, _, _) = server.heard_of::<AllOf<ResourceClaim>>();
    let mut told = Vec::new();
    while told.len() < 6 {
        told.push(match heard.recv().await.expect("more to come") {
            Event::ObjectApplied(object) => format!("+{}", object.key().name()),
            Event::ObjectDeleted(key) => format!("-{}", key.name()),
            Event::ClaimsRelisted => "anew".to_owned(),
            Event::ClaimsListed { version } => format!("up to {version}"),
            other => format!("{other:?}"),
        });
    }
    assert_eq!(told, ["+a", "up to 10", "anew", "+b", "-a", "up to 20"]);
}

#[tokio::test(start_paused = true)]
async fn what_an_older_api_server_does_not_have_there_is_none_of_until_it_has_it() {
    let server = Server::default();
    let absent =
        json!({ "kind": "Status", "code": 404, "message": "the server could not find the requested resource" });
    for _ in 0..3 {
        server.answers("list devicetaintrules", 404, &absent);
    }
    let list = json!({ "metadata": { "resourceVersion": "10" }, "items": [
        { "metadata": { "name": "r" }, "spec": { "taint": { "key": "k", "effect": "NoExecute" } } },
    ] });
    server.answers("list devicetaintrules", 200, list);
    let (mut heard, shared, _) = server.heard_of::<AllOf<stored::DeviceTaintRule>>();
    shared.listed.cancelled().await;
    assert!(shared.unserved.load(Ordering::Relaxed));
    assert_eq!(shared.tally().lists, 0);
    assert!(matches!(heard.recv().await, Some(Event::ObjectApplied(_))), "it is there after an upgrade");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!shared.unserved.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn claims_are_read_in_the_newest_version_that_is_served_and_again_in_another_after_an_upgrade() {
    let server = Server::default();
    let absent =
        json!({ "kind": "Status", "code": 404, "message": "the server could not find the requested resource" });
    let list = |version: &str, uid: &str, request: Value| {
        let metadata = json!({ "namespace": "shop", "name": "gpu", "uid": uid, "resourceVersion": version });
        let spec = json!({ "devices": { "requests": [request] } });
        json!({ "metadata": { "resourceVersion": version }, "items": [{ "metadata": metadata, "spec": spec }] })
    };
    // v1 and v1beta2 are absent, v1beta1 is served.
    server.answers("list resourceclaims", 404, &absent).answers("list resourceclaims", 404, &absent);
    server.answers("list resourceclaims", 200, list("10", "u1", json!({ "name": "a", "deviceClassName": "c" })));
    // The upgraded API server no longer serves v1beta1.
    server.answers("watch resourceclaims", 404, &absent);
    let exactly = json!({ "deviceClassName": "c" });
    server.answers("list resourceclaims", 200, list("20", "u1", json!({ "name": "b", "exactly": exactly })));
    let (mut heard, shared, reporter) = server.heard_of::<AllOf<ResourceClaim>>();
    let mut names = Vec::new();
    let mut read_in = Vec::new();
    while names.len() < 2 {
        if let Event::ObjectApplied(object) = heard.recv().await.expect("more to come") {
            let text = format!("{object:?}");
            assert!(text.contains("Exactly"), "{text}");
            names.push(if text.contains("\"a\"") { "a" } else { "b" });
            read_in.push(reporter.versions().claims.of(crate::versions::DEVICES));
        }
    }
    assert_eq!(names, ["a", "b"]);
    assert_eq!(read_in[1], "resource.k8s.io/v1");
    assert!(!shared.unserved.load(Ordering::Relaxed));
}
