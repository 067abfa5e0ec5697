//! Tests of the world's actors.

use serde_json::json;

use super::*;
use crate::{
    api::{Options, writes::Deletion},
    seed::Seed,
};

const ALWAYS: u16 = 1_000;

fn api() -> Api {
    let api = Api::new(Seed::new(1), Options::default());
    for name in ["n1", "n2"] {
        let status = json!({ "allocatable": { "cpu": "2" } });
        api.actor("person")
            .create(Kind::Node, json!({ "metadata": { "name": name }, "status": status }))
            .expect("made");
    }
    api
}

fn spec(cpu: &str) -> Value {
    json!({ "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu } } }] })
}

fn pod(api: &Api, name: &str, cpu: &str) -> Arc<Object> {
    let pod = json!({ "metadata": { "namespace": "default", "name": name }, "spec": spec(cpu) });
    api.actor("person").create(Kind::Pod, pod).expect("made")
}

fn names(api: &Api, kind: Kind, which: impl Fn(&Object) -> bool) -> Vec<String> {
    those(api, kind, which).iter().map(|object| object.name().to_owned()).collect()
}

fn get(api: &Api, kind: Kind, key: &str) -> Arc<Object> {
    api.look(|store| store.by_key(kind, key).cloned()).expect("there")
}

#[test]
fn amounts_of_cpu_are_read() {
    for (text, amount) in [("1", 1_000), ("1500m", 1_500), ("0.25", 250), ("1.5", 1_500), ("", 0), ("x", 0)] {
        assert_eq!(milli(&json!(text)), amount, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn kubelets_run_what_fits_turn_away_the_rest_and_end_what_is_deleted() {
    let api = api();
    for name in ["a", "b", "c"] {
        let pod = pod(&api, name, "800m");
        api.actor("person").bind(&pod, "n1").expect("bound");
    }
    pod(&api, "waiting", "1");
    let mut kubelets = Kubelets::new(api.actor("kubelets"), Seed::new(1));
    assert_eq!((kubelets.step(0), kubelets.step(ALWAYS), kubelets.step(ALWAYS)), (0, 1, 0));
    assert_eq!(names(&api, Kind::Pod, |pod| pod.text("/status/phase") == "Running"), ["a", "b"]);
    assert_eq!(get(&api, Kind::Pod, "default/c").text("/status/reason"), "OutOfcpu");
    api.actor("person").delete(Kind::Pod, "default/a", &Deletion::default()).expect("marked");
    assert!(get(&api, Kind::Pod, "default/a").is_terminating());
    kubelets.step(ALWAYS);
    assert_eq!(names(&api, Kind::Pod, |_| true), ["b", "c", "waiting"]);
    kubelets.finish(ALWAYS);
    assert_eq!(get(&api, Kind::Pod, "default/b").text("/status/phase"), "Succeeded");
    kubelets.lose("n1");
    assert_eq!(
        (names(&api, Kind::Pod, |_| true), names(&api, Kind::Node, |_| true)),
        (vec!["waiting".into()], vec!["n2".into()])
    );
}

#[tokio::test(start_paused = true)]
async fn controllers_make_pods_anew_under_other_names_or_the_same() {
    let api = api();
    let replicas = Replicas::new(api.actor("controllers"));
    replicas.create(Kind::ReplicaSet, "default", "web", 2, &spec("1"));
    replicas.create(Kind::StatefulSet, "default", "db", 2, &spec("1"));
    let of = |app: &str| those(&api, Kind::Pod, |pod| pod.text("/metadata/labels/app") == app);
    for _ in 0..2 {
        replicas.step();
        assert_eq!((of("web").len(), of("db").len()), (2, 2));
    }
    let (web, db) = (of("web").remove(0), of("db").remove(0));
    for pod in [&web, &db] {
        api.actor("person").delete(Kind::Pod, pod.key(), &Deletion::default()).expect("deleted");
    }
    replicas.step();
    assert!(of("web").len() == 2 && of("web").iter().all(|pod| pod.name() != web.name()), "{:?}", of("web"));
    let again = get(&api, Kind::Pod, db.key());
    assert!(again.name() == "db-0" && again.uid() != db.uid(), "{again:?}");
    // The terminating pod still has its name.
    api.actor("person").bind(&again, "n1").expect("bound");
    api.actor("person").delete(Kind::Pod, again.key(), &Deletion::default()).expect("marked");
    replicas.step();
    assert_eq!(get(&api, Kind::Pod, again.key()).uid(), again.uid());
    api.actor("person")
        .change(Kind::ReplicaSet, "default/web", |set| set["spec"]["replicas"] = json!(1))
        .expect("changed");
    api.actor("person").delete(Kind::StatefulSet, "default/db", &Deletion::default()).expect("deleted");
    replicas.step();
    assert_eq!((of("web").len(), of("db").iter().filter(|pod| is_live(pod)).count()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_budget_lets_go_what_it_does_not_need() {
    let api = api();
    let (replicas, budgets) = (Replicas::new(api.actor("controllers")), Budgets::new(api.actor("controllers")));
    let mut kubelets = Kubelets::new(api.actor("kubelets"), Seed::new(1));
    replicas.create(Kind::ReplicaSet, "default", "web", 3, &spec("100m"));
    replicas.step();
    for (name, least) in [("two", json!(2)), ("half", json!("50%")), ("all", json!("100%"))] {
        budgets.create("default", name, "web", &least);
    }
    let allowed = || {
        budgets.step();
        ["all", "half", "two"].map(|name| {
            let budget = get(&api, Kind::PodDisruptionBudget, &format!("default/{name}"));
            budget.at("/status/disruptionsAllowed").as_u64().expect("a number")
        })
    };
    assert_eq!(allowed(), [0, 0, 0], "none runs");
    for pod in those(&api, Kind::Pod, |_| true) {
        api.actor("person").bind(&pod, "n1").expect("bound");
    }
    kubelets.step(ALWAYS);
    assert_eq!(allowed(), [0, 1, 1]);
    let commits = api.commits(0).len();
    assert_eq!((allowed(), api.commits(0).len()), ([0, 1, 1], commits), "what is the same is not written");
}

#[tokio::test(start_paused = true)]
async fn an_ended_pod_of_a_stateful_set_is_replaced_and_one_without_a_node_is_surplus_first() {
    let api = api();
    let replicas = Replicas::new(api.actor("controllers"));
    replicas.create(Kind::StatefulSet, "default", "db", 1, &spec("1"));
    replicas.create(Kind::ReplicaSet, "default", "web", 2, &spec("1"));
    replicas.step();
    let old = get(&api, Kind::Pod, "default/db-0");
    assert_eq!(old.text("/spec/hostname"), "db-0");
    let failed = |pod: &mut Value| pod["status"] = json!({ "phase": "Failed" });
    api.actor("person").change(Kind::Pod, "default/db-0", failed).expect("changed");
    replicas.step();
    assert_ne!(get(&api, Kind::Pod, "default/db-0").uid(), old.uid());
    let web = those(&api, Kind::Pod, |pod| pod.text("/metadata/labels/app") == "web").remove(1);
    api.actor("person").bind(&web, "n1").expect("bound");
    let scale = |set: &mut Value| set["spec"]["replicas"] = json!(1);
    api.actor("person").change(Kind::ReplicaSet, "default/web", scale).expect("changed");
    replicas.step();
    assert_eq!(names(&api, Kind::Pod, |pod| pod.text("/metadata/labels/app") == "web"), [web.name()]);
}

#[tokio::test(start_paused = true)]
async fn budgets_count_replicas_of_controllers_for_percentages_and_maxima() {
    let api = api();
    let (replicas, budgets) = (Replicas::new(api.actor("controllers")), Budgets::new(api.actor("controllers")));
    replicas.create(Kind::ReplicaSet, "default", "web", 2, &spec("100m"));
    replicas.step();
    let bare = json!({ "metadata": { "namespace": "default", "name": "bare", "labels": { "app": "bare" } }, "spec": spec("1") });
    api.actor("person").create(Kind::Pod, bare).expect("made");
    let scale = |set: &mut Value| set["spec"]["replicas"] = json!(4);
    api.actor("person").change(Kind::ReplicaSet, "default/web", scale).expect("changed");
    budgets.create("default", "half", "web", &json!("50%"));
    budgets.create("default", "one", "web", &json!(1));
    budgets.create("default", "bare", "bare", &json!("50%"));
    budgets.create("default", "most", "web", &Value::Null);
    let at_most_one = |budget: &mut Value| {
        budget["spec"] = json!({ "maxUnavailable": 1, "selector": { "matchLabels": { "app": "web" } } });
    };
    api.actor("person").change(Kind::PodDisruptionBudget, "default/most", at_most_one).expect("changed");
    budgets.step();
    for (name, expected, desired) in [("half", 4, 2), ("one", 2, 1), ("bare", 0, 0), ("most", 4, 3)] {
        let budget = get(&api, Kind::PodDisruptionBudget, &format!("default/{name}"));
        let found = ["expectedPods", "desiredHealthy"].map(|field| budget.at(&format!("/status/{field}")).as_u64());
        assert_eq!(found, [Some(expected), Some(desired)], "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_scheduler_binds_its_own_pods_where_they_fit() {
    let api = api();
    pod(&api, "ours", "1");
    for name in ["a", "b", "c"] {
        let mut spec = spec("1500m");
        spec["schedulerName"] = json!("another");
        let pod = json!({ "metadata": { "namespace": "default", "name": name }, "spec": spec });
        api.actor("person").create(Kind::Pod, pod).expect("made");
    }
    let mut scheduler = Scheduler::new(api.actor("another"), Seed::new(1), "another");
    assert_eq!((scheduler.step(), scheduler.step()), (2, 0));
    assert_eq!(names(&api, Kind::Pod, |pod| pod.text("/spec/nodeName").is_empty()).len(), 2);
    assert_ne!(
        get(&api, Kind::Pod, "default/a").text("/spec/nodeName"),
        get(&api, Kind::Pod, "default/b").text("/spec/nodeName")
    );
}

#[tokio::test(start_paused = true)]
async fn claims_are_bound_to_what_was_chosen_and_volumes_given_back() {
    let api = api();
    let mut volumes = Volumes::new(api.actor("controllers"), Seed::new(1));
    let person = api.actor("person");
    let claim = |name: &str| get(&api, Kind::PersistentVolumeClaim, &format!("default/{name}"));
    volumes.create_class("made", true);
    volumes.create_class("there", false);
    volumes.create_claim("default", "data", "made", 1);
    volumes.create_claim("default", "disk", "there", 1);
    volumes.add("disk-1", "there", "n1", 2);
    volumes.step(0);
    assert_eq!((claim("data").text("/spec/volumeName"), claim("disk").text("/spec/volumeName")), ("", ""));
    let chosen = json!({ "volume.kubernetes.io/selected-node": "n1" });
    let choose = || {
        person.change(Kind::PersistentVolumeClaim, "default/data", |claim| {
            claim["metadata"]["annotations"] = chosen.clone()
        })
    };
    choose().expect("changed");
    volumes.step(ALWAYS);
    assert_eq!(claim("data").at("/metadata/annotations"), &json!({}), "the node has no room");
    choose().expect("changed");
    let promised = json!({ "namespace": "default", "name": "disk", "uid": claim("disk").uid() });
    person.change(Kind::PersistentVolume, "disk-1", |volume| volume["spec"]["claimRef"] = promised).expect("changed");
    volumes.step(0);
    let made = format!("pvc-{}", claim("data").uid());
    assert_eq!((claim("data").text("/spec/volumeName"), claim("disk").text("/spec/volumeName")), (&*made, "disk-1"));
    for (name, volume) in [("data", &*made), ("disk", "disk-1")] {
        let phases = (claim(name).text("/status/phase").to_owned(), get(&api, Kind::PersistentVolume, volume));
        assert_eq!((&*phases.0, phases.1.text("/status/phase")), ("Bound", "Bound"));
        person.delete(Kind::PersistentVolumeClaim, &format!("default/{name}"), &Deletion::default()).expect("deleted");
    }
    volumes.step(0);
    assert_eq!(names(&api, Kind::PersistentVolume, |volume| volume.text("/status/phase") == "Available"), ["disk-1"]);
    assert_eq!(names(&api, Kind::PersistentVolume, |_| true).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn claims_are_created_from_templates_and_given_back_by_pods_that_are_done() {
    let api = api();
    let (mut devices, person) = (Devices::new(api.actor("controllers"), Seed::new(1)), api.actor("person"));
    devices.add_template("gpu", json!({ "devices": {} }));
    let mut spec = spec("1");
    spec["resourceClaims"] = json!([{ "name": "main", "resourceClaimTemplateName": "gpu" }]);
    let pod = json!({ "metadata": { "namespace": "default", "name": "p" }, "spec": spec });
    person.create(Kind::Pod, pod).expect("made");
    devices.step(0);
    devices.step(0);
    let all = names(&api, Kind::ResourceClaim, |_| true);
    assert_eq!(all.len(), 1, "{all:?}");
    let pod = get(&api, Kind::Pod, "default/p");
    assert_eq!(pod.text("/status/resourceClaimStatuses/0/resourceClaimName"), all[0]);
    let key = format!("default/{}", all[0]);
    let allocate = |claim: &mut Value| {
        claim["metadata"]["finalizers"] = json!(["resource.kubernetes.io/delete-protection"]);
        let consumer = json!({ "resource": "pods", "name": "p", "uid": pod.uid() });
        claim["status"] = json!({ "allocation": { "devices": {} }, "reservedFor": [consumer] });
    };
    person.change(Kind::ResourceClaim, &key, allocate).expect("changed");
    devices.step(0);
    assert!(!get(&api, Kind::ResourceClaim, &key).at("/status/allocation").is_null(), "the pod uses it");
    person.delete(Kind::ResourceClaim, &key, &Deletion::default()).expect("marked");
    devices.step(0);
    assert!(get(&api, Kind::ResourceClaim, &key).is_terminating());
    person.delete(Kind::Pod, "default/p", &Deletion::default()).expect("deleted");
    devices.step(0);
    assert_eq!(names(&api, Kind::ResourceClaim, |_| true), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_driver_publishes_what_each_node_has_in_generations_that_are_whole_at_last() {
    let api = api();
    let (mut devices, person) = (Devices::new(api.actor("controllers"), Seed::new(1)), api.actor("person"));
    let has = |models: &str| {
        let annotations = json!({ devices::MODELS: models });
        person.change(Kind::Node, "n1", |node| node["metadata"]["annotations"] = annotations).expect("changed");
    };
    let published = || {
        let slices = those(&api, Kind::ResourceSlice, |_| true);
        let of = |slice: &Arc<Object>| {
            let count = slice.at("/spec/devices").as_array().map_or(0, Vec::len);
            (slice.at("/spec/pool/generation").as_u64(), slice.at("/spec/pool/resourceSliceCount").as_u64(), count)
        };
        slices.iter().map(of).collect::<Vec<_>>()
    };
    has("aab");
    devices.step(ALWAYS);
    assert_eq!(published(), [(Some(1), Some(2), 2)], "the driver rests after each slice");
    devices.step(0);
    assert_eq!(published(), [(Some(1), Some(2), 2), (Some(1), Some(2), 1)]);
    has("aB");
    devices.step(0);
    assert_eq!(published(), [(Some(2), Some(1), 2)]);
    assert!(!get(&api, Kind::ResourceSlice, "n1-0").at("/spec/devices/1/taints").is_null());
    person.delete(Kind::Node, "n1", &Deletion::default()).expect("deleted");
    devices.step(0);
    assert_eq!(published(), []);
}
