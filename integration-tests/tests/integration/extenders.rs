//! HTTP extenders on loopback, called by Flotilla and by kube-scheduler.
//!
//! Each extender manages a resource, so that a pod's requests select its extender.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

use flotilla_control_plane::{ControlPlane, NodeBuilder, Options, free_port, pod, wait_until};
use flotilla_integration_tests::{
    extender::{Extender, Respond},
    fleet::{Fleet, PATIENCE, node_of, pods, profile, wait_for_event, wait_until_refused, wait_until_running},
    placements,
};
use futures::FutureExt as _;
use k8s_openapi::{
    api::{
        core::v1::{Container, Pod},
        scheduling::v1::PriorityClass,
    },
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{PostParams, Request},
};
use serde_json::{Value, json};

/// A pod that requests one of a resource of `example.com`.
fn asking(name: &str, scheduler: &str, resource: &str) -> Pod {
    let mut pod = pod(name, scheduler, &[("cpu", "100m")]);
    let container: &mut Container = &mut pod.spec.as_mut().expect("a spec").containers[0];
    let resources = container.resources.get_or_insert_default();
    let (name, one) = (format!("example.com/{resource}"), Quantity("1".to_owned()));
    resources.limits.get_or_insert_default().insert(name.clone(), one.clone());
    resources.requests.get_or_insert_default().insert(name, one);
    pod
}

/// Configuration of an extender for pods that request a resource ignored by the scheduler.
fn managing(resource: &str, url: &str, fields: Value) -> Value {
    let mut extender = json!({
        "urlPrefix": url,
        "managedResources": [{ "name": format!("example.com/{resource}"), "ignoredByScheduler": true }],
    });
    let all = extender.as_object_mut().expect("an object");
    all.extend(fields.as_object().cloned().unwrap_or_default());
    extender
}

fn say(answer: impl Fn(&str, &Value) -> Value + Send + Sync + 'static) -> Respond {
    Arc::new(move |verb, question| {
        let answer = answer(&verb, &question);
        async move { answer }.boxed()
    })
}

/// Filters out the largest node, which kube-scheduler would choose, and prefers the last node.
fn picky() -> Respond {
    say(|verb, question| match verb {
        "filter" => {
            let items = question["Nodes"]["items"].as_array().cloned().unwrap_or_default();
            let left: Vec<Value> = items.into_iter().filter(|node| node["metadata"]["name"] != "large").collect();
            json!({ "Nodes": { "items": left }, "FailedNodes": { "large": "too large" } })
        }
        _ => json!([{ "Host": "node-0", "Score": 1 }, { "Host": "node-2", "Score": 10 }]),
    })
}

/// Filters out all nodes, for two reasons.
fn refusing() -> Respond {
    say(|_, question| {
        let names: Vec<&str> =
            question["NodeNames"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let (first, rest) = names.split_first().expect("it is asked about nodes");
        let failed: serde_json::Map<String, Value> =
            rest.iter().map(|name| ((*name).to_owned(), json!("no licence there"))).collect();
        json!({ "NodeNames": [], "FailedNodes": failed, "FailedAndUnresolvableNodes": { *first: "no way" } })
    })
}

/// Binds pods once it has a client.
fn binding(client: Arc<OnceLock<Client>>) -> Respond {
    Arc::new(move |_, question| {
        let client = client.get().cloned();
        async move {
            let bound = async {
                let (name, namespace) = (question["PodName"].as_str()?, question["PodNamespace"].as_str()?);
                let body = json!({
                    "apiVersion": "v1", "kind": "Binding",
                    "metadata": { "name": name, "namespace": namespace, "uid": question["PodUID"],
                                  "annotations": { "example.com/bound-by": "the extender" } },
                    "target": { "kind": "Node", "name": question["Node"] },
                });
                let request = Request::new(format!("/api/v1/namespaces/{namespace}/pods"))
                    .create_subresource("binding", name, &PostParams::default(), body.to_string().into_bytes())
                    .ok()?;
                client?.request_text(request).await.ok()
            };
            if bound.await.is_some() { json!({}) } else { json!({ "Error": "the extender cannot bind" }) }
        }
        .boxed()
    })
}

/// Paths of all fields in an object; one entry represents those of maps and lists.
fn fields(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    let is_map = ["labels", "annotations", "managedFields"].iter().any(|map| path.ends_with(map));
    match value {
        Value::Object(object) if !is_map => {
            for (name, value) in object {
                let path = format!("{path}.{name}");
                fields(value, &path, into);
                into.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| fields(item, path, into)),
        _ => {}
    }
}

fn fields_of(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    fields(value, "", &mut found);
    found
}

/// Reason and message of an unscheduled pod's condition, and the note of its event.
async fn refusal(cluster: &ControlPlane, name: &str) -> anyhow::Result<(String, String, String)> {
    let (reason, message) = wait_until_refused(cluster, name).await?;
    Ok((reason, message, wait_for_event(cluster, name, "FailedScheduling").await?))
}

struct Played {
    picky: Extender,
    refusing: Extender,
    binding: Extender,
    client: Arc<OnceLock<Client>>,
    configured: Vec<Value>,
}

async fn play() -> anyhow::Result<Played> {
    let client = Arc::<OnceLock<Client>>::default();
    let picky = Extender::start(picky()).await?;
    let refusing = Extender::start(refusing()).await?;
    let binding = Extender::start(binding(Arc::clone(&client))).await?;
    let nobody = format!("http://127.0.0.1:{}", free_port()?);
    let url = |extender: &Extender| format!("http://{}", extender.address());
    let filter = json!({ "filterVerb": "filter", "nodeCacheCapable": true });
    let ignorable = json!({ "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 5, "ignorable": true });
    let configured = vec![
        managing("ignorable", &nobody, ignorable),
        managing(
            "picky",
            &url(&picky),
            json!({ "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 10 }),
        ),
        managing("refused", &url(&refusing), filter.clone()),
        managing("absent", &nobody, filter),
        managing("bound", &url(&binding), json!({ "bindVerb": "bind" })),
    ];
    Ok(Played { picky, refusing, binding, client, configured })
}

async fn start(played: &Played) -> anyhow::Result<ControlPlane> {
    let configuration = json!({
        "extenders": played.configured,
        "profiles": [{ "schedulerName": "default-scheduler" }],
    });
    let options = Options { kube_scheduler: Some(configuration), ..Options::default() };
    let cluster = ControlPlane::start(options).await?;
    let nodes = (0..3).map(|index| NodeBuilder::new(format!("node-{index}")));
    cluster
        .add_nodes(nodes.chain([NodeBuilder::new("large").capacity("cpu", "64").capacity("memory", "512Gi")]))
        .await?;
    let _ = played.client.set(cluster.client());
    Ok(cluster)
}

async fn start_fleet<'a>(cluster: &'a ControlPlane, extenders: &[Value]) -> anyhow::Result<Fleet<'a>> {
    let mut fleet = Fleet::new(cluster);
    for name in ["worker-0", "worker-1"] {
        fleet.reserve(name)?;
        fleet.start_worker(name)?;
    }
    let config = fleet.config(&format!("{}extenders: {}\n", profile("flotilla"), json!(extenders)))?;
    fleet.start_coordinator("coordinator", Some(&config))?;
    fleet.wait_for_workers("coordinator", 2).await?;
    Ok(fleet)
}

#[tokio::test(flavor = "multi_thread")]
async fn extenders_are_asked_as_kube_scheduler_asks_them_and_their_words_have_the_same_effect() -> anyhow::Result<()> {
    let played = play().await?;
    let cluster = start(&played).await?;
    let fleet = start_fleet(&cluster, &played.configured).await?;
    let schedulers = [("ours", "flotilla"), ("theirs", "default-scheduler")];
    for resource in ["picky", "refused", "absent", "ignorable", "bound", "none"] {
        for (prefix, scheduler) in schedulers {
            let name = format!("{prefix}-{resource}");
            let made = if resource == "none" { pod(&name, scheduler, &[]) } else { asking(&name, scheduler, resource) };
            cluster.create_pods([made]).await?;
        }
    }

    for (prefix, _) in schedulers {
        let landed = wait_until_running(&cluster, &format!("{prefix}-picky"), 1).await?;
        assert_eq!(node_of(&landed[0]), Some("node-2"), "{prefix}: filtered, and moved by the score");
        for resource in ["ignorable", "none"] {
            let landed = wait_until_running(&cluster, &format!("{prefix}-{resource}"), 1).await?;
            assert_eq!(node_of(&landed[0]), Some("large"), "{prefix}: as if no extender was there");
        }
        let name = format!("{prefix}-bound");
        let bound = wait_until_running(&cluster, &name, 1).await?;
        assert_eq!(bound[0].annotations().get("example.com/bound-by").map(String::as_str), Some("the extender"));
        let node = node_of(&bound[0]).unwrap_or_default();
        let note = wait_for_event(&cluster, &name, "Scheduled").await?;
        assert_eq!(note, format!("Successfully assigned default/{name} to {node}"));
    }
    for resource in ["refused", "absent"] {
        let ours = refusal(&cluster, &format!("ours-{resource}")).await?;
        assert_eq!(ours, refusal(&cluster, &format!("theirs-{resource}")).await?, "{resource}");
        assert_eq!(ours.0, if resource == "refused" { "Unschedulable" } else { "SchedulerError" });
    }

    for (extender, verb, resource) in [
        (&played.picky, "filter", "picky"),
        (&played.picky, "prioritize", "picky"),
        (&played.refusing, "filter", "refused"),
        (&played.binding, "bind", "bound"),
    ] {
        let question = |prefix: &str| {
            let calls = extender.calls_about(verb, &format!("{prefix}-{resource}"));
            calls.first().map(|call| fields_of(&call.question)).unwrap_or_default()
        };
        let (ours, theirs) = (question("ours"), question("theirs"));
        assert!(!ours.is_empty(), "{verb} of {resource} was asked");
        // Conditions depend on earlier attempts, and kwok may have reported more nodes by then.
        let known = |fields: BTreeSet<String>| -> BTreeSet<String> {
            fields.into_iter().filter(|field| !field.contains(".status.conditions")).collect()
        };
        assert_eq!(known(ours), known(theirs), "{verb} of {resource}");
    }
    let calls = fleet.metric("coordinator", "flotilla_extender_calls_total").await?;
    assert!(calls >= Some(6.0), "{calls:?}");
    let failures = fleet.metric("coordinator", "flotilla_extender_call_failures_total").await?;
    assert!(failures >= Some(3.0), "{failures:?}");
    assert_eq!(fleet.metric("coordinator", "flotilla_invariant_violations_total").await?, Some(0.0));
    Ok(())
}

/// Preemption verb: removes protected nodes, and replaces victims if allowed.
fn sparing() -> Respond {
    say(|_, question| {
        let offered = question["NodeNameToMetaVictims"].as_object().cloned().unwrap_or_default();
        let preemptor = question["Pod"]["metadata"]["name"].as_str().unwrap_or_default();
        let left = offered.into_iter().filter(|(node, _)| match preemptor.rsplit('-').next() {
            Some("spares" | "invents") => node.ends_with("-1"),
            Some("refuses") => false,
            _ => true,
        });
        let left = left.map(|(node, mut victims)| {
            if preemptor.ends_with("invents") {
                victims["Pods"] = json!([{ "UID": "nobody" }]);
            }
            (node, victims)
        });
        json!({ "NodeNameToMetaVictims": Value::Object(left.collect()) })
    })
}

/// Nodes in an extender's first preemption call for a pod, with their numbers of victims.
fn proposed(extender: &Extender, pod: &str, prefix: &str) -> BTreeMap<String, usize> {
    let calls = extender.calls_about("preempt", pod);
    let offered = calls.first().and_then(|call| call.question["NodeNameToMetaVictims"].as_object().cloned());
    let count = |victims: &Value| victims["Pods"].as_array().map_or(0, Vec::len);
    offered.into_iter().flatten().map(|(node, victims)| (node.replace(prefix, ""), count(&victims))).collect()
}

/// One pod fills the first node, two fill the second. Without an extender's objection the first is chosen.
async fn fill_two(cluster: &ControlPlane, prefix: &str, scheduler: &str) -> anyhow::Result<()> {
    let label = prefix.trim_end_matches('-');
    let node = |index: usize| NodeBuilder::new(format!("{prefix}{index}")).capacity("cpu", "1").label("whose", label);
    cluster.add_nodes((0..2).map(node)).await?;
    for (name, index, cpus) in [("whole", 0, "1"), ("half-0", 1, "500m"), ("half-1", 1, "500m")] {
        let mut filling = pod(&format!("{prefix}{name}"), scheduler, &[("cpu", cpus)]);
        filling.spec.get_or_insert_default().node_name = Some(format!("{prefix}{index}"));
        cluster.create_pods([filling]).await?;
    }
    wait_until_running(cluster, prefix, 3).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn extenders_have_the_same_say_in_who_makes_room() -> anyhow::Result<()> {
    let extender = Extender::start(sparing()).await?;
    let url = format!("http://{}", extender.address());
    let extenders = vec![json!({ "urlPrefix": url, "preemptVerb": "preempt", "nodeCacheCapable": true })];
    let configuration = json!({ "extenders": extenders, "profiles": [{ "schedulerName": "default-scheduler" }] });
    let cluster = ControlPlane::start(Options { kube_scheduler: Some(configuration), ..Options::default() }).await?;
    let class = json!({ "metadata": { "name": "high" }, "value": 100 });
    Api::<PriorityClass>::all(cluster.client()).create(&PostParams::default(), &serde_json::from_value(class)?).await?;
    let fleet = start_fleet(&cluster, &extenders).await?;
    let schedulers = [("ours", "flotilla"), ("theirs", "default-scheduler")];
    let cases = ["spares", "refuses", "invents", "agrees"];
    let of = |prefix: &str, name: &str, scheduler: &str| {
        let mut pod = pod(&format!("{prefix}{name}"), scheduler, &[("cpu", "1")]);
        let whose = BTreeMap::from([("whose".to_owned(), prefix.trim_end_matches('-').to_owned())]);
        pod.spec.get_or_insert_default().node_selector = Some(whose);
        pod
    };
    for case in cases {
        for (whose, scheduler) in schedulers {
            fill_two(&cluster, &format!("{case}-{whose}-"), scheduler).await?;
        }
    }
    for case in cases {
        for (whose, scheduler) in schedulers {
            let prefix = format!("{case}-{whose}-");
            let mut high = of(&prefix, case, scheduler);
            high.spec.get_or_insert_default().priority_class_name = Some("high".to_owned());
            cluster.create_pods([high]).await?;
        }
    }
    for (case, place, left) in [
        ("spares", Some("1"), ["spares", "whole"].as_slice()),
        ("refuses", None, &["half-0", "half-1", "refuses", "whole"]),
        ("invents", None, &["half-0", "half-1", "invents", "whole"]),
        ("agrees", Some("0"), &["agrees", "half-0", "half-1"]),
    ] {
        let mut told = Vec::new();
        for (whose, _) in schedulers {
            let prefix = format!("{case}-{whose}-");
            let name = format!("{prefix}{case}");
            let note = wait_for_event(&cluster, &name, "FailedScheduling").await?;
            if place.is_some() {
                let landed = wait_until_running(&cluster, &name, 1).await?;
                assert_eq!(node_of(&landed[0]).map(|node| node.replace(&prefix, "")).as_deref(), place, "{name}");
            } else {
                wait_until_refused(&cluster, &name).await?;
            }
            let names: Vec<String> = pods(&cluster).await?.iter().map(|pod| pod.name_any()).collect();
            let names: Vec<&str> = names.iter().filter_map(|name| name.strip_prefix(&prefix)).collect();
            assert_eq!(names, left, "{name}");
            told.push((note.replace(&prefix, ""), proposed(&extender, &name, &prefix)));
        }
        assert_eq!(told[0], told[1], "{case}");
        assert_eq!(told[0].1, BTreeMap::from([("0".to_owned(), 1), ("1".to_owned(), 2)]), "{case}");
    }
    let question = |name: &str| fields_of(&extender.calls_about("preempt", name)[0].question);
    let known = |fields: BTreeSet<String>| -> BTreeSet<String> {
        // Nodes are keys in these fields.
        let is_node = |field: &str| field.contains("NodeNameToMetaVictims.");
        fields.into_iter().filter(|field| !field.contains(".status.conditions") && !is_node(field)).collect()
    };
    let (ours, theirs) = (question("spares-ours-spares"), question("spares-theirs-spares"));
    assert_eq!(known(ours), known(theirs));
    assert_eq!(fleet.metric("coordinator", "flotilla_invariant_violations_total").await?, Some(0.0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extender_over_tls_is_asked_and_comes_and_goes_with_the_configuration() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default()).await?;
    cluster.add_nodes((0..3).map(|index| NodeBuilder::new(format!("node-{index}")))).await?;
    let (certificate, key) = cluster.serving_certificate();
    let last = say(|_, _| json!({ "NodeNames": ["node-2"] }));
    let extender = Extender::start_secured(last, &certificate, &key).await?;
    let configured = |tls: Value| {
        json!({
            "urlPrefix": format!("https://{}", extender.address()),
            "filterVerb": "filter",
            "nodeCacheCapable": true,
            "enableHTTPS": true,
            "tlsConfig": tls,
        })
    };
    let trusting = configured(json!({ "caFile": cluster.authority_certificate() }));
    let mut fleet = Fleet::new(&cluster);
    fleet.reserve("worker")?;
    fleet.start_worker("worker")?;
    let text = |extenders: Value| format!("{}extenders: {extenders}\n", profile("flotilla"));
    let config = fleet.config(&text(json!([trusting])))?;
    fleet.start_coordinator("coordinator", Some(&config))?;
    fleet.wait_for_workers("coordinator", 1).await?;
    for index in 0..3 {
        let name = format!("web-{index}");
        cluster.create_pods([pod(&name, "flotilla", &[("cpu", "1")])]).await?;
        let landed = wait_until_running(&cluster, &name, 1).await?;
        assert_eq!(node_of(&landed[0]), Some("node-2"));
    }
    assert_eq!(extender.calls_about("filter", "web-2").len(), 1);

    // A certificate that needs another authority.
    let distrusting = configured(json!({ "caFile": cluster.authority_certificate(), "serverName": "elsewhere.test" }));
    std::fs::write(&config, text(json!([distrusting])))?;
    wait_until("the new configuration", PATIENCE, async || {
        let generation = fleet.metric("coordinator", "flotilla_configuration_generation").await;
        if matches!(generation, Ok(Some(2.0))) { Ok(()) } else { Err(format!("{generation:?}")) }
    })
    .await?;
    cluster.create_pods([pod("distrusting", "flotilla", &[])]).await?;
    let (reason, message) = wait_until_refused(&cluster, "distrusting").await?;
    assert_eq!(reason, "SchedulerError");
    assert!(message.starts_with("Post \"https://") && message.contains("certificate"), "{message}");

    std::fs::write(&config, text(json!([])))?;
    let landed = wait_until_running(&cluster, "distrusting", 1).await?;
    assert_ne!(node_of(&landed[0]), Some("node-2"), "the emptiest ones are the others");
    Ok(())
}

/// Nodes, and pods of several kinds, each requesting an extender's resource.
fn written_cluster() -> String {
    let mut documents: Vec<Value> = (0..6)
        .map(|index| {
            let taints = json!([{ "key": "slow", "value": index.to_string(), "effect": "PreferNoSchedule" }]);
            json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": { "name": format!("node-{index}"), "labels": { "zone": format!("z{}", index % 2) } },
                "spec": { "taints": if index % 3 == 0 { taints } else { json!([]) }, "unschedulable": index == 5 },
                "status": { "allocatable": { "cpu": format!("{}", 2 + index), "memory": "8Gi", "pods": "10" } },
            })
        })
        .collect();
    let pod = |name: &str, resource: &str, fields: Value| {
        let limits = json!({ "cpu": "500m", format!("example.com/{resource}"): "1" });
        let mut spec = json!({ "containers": [{ "name": "c", "resources": { "limits": limits } }] });
        spec.as_object_mut().expect("an object").extend(fields.as_object().cloned().unwrap_or_default());
        let metadata = json!({ "name": name, "labels": { "app": "web" } });
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec })
    };
    let spread = json!({ "topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": { "matchLabels": { "app": "web" } },
    }] });
    let named = json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["node-1"] }] }],
    } } } });
    // Not on a node that an extender returns as an object: kube-scheduler scores it as empty, Flotilla does not.
    let standing = json!({ "nodeName": "node-5" });
    documents.push(pod("standing", "none", standing));
    for resource in ["halved", "refused", "wordless", "absent", "ignorable", "none"] {
        documents.push(pod(resource, resource, json!({})));
        documents.push(pod(&format!("{resource}-spread"), resource, spread.clone()));
        documents.push(pod(&format!("{resource}-named"), resource, named.clone()));
    }
    documents.iter().map(|document| format!("---\n{document}\n")).collect()
}

/// Keeps the second half of the nodes, and scores the first one highest.
fn halving() -> Respond {
    say(|verb, question| {
        let items = question["Nodes"]["items"].as_array().expect("whole nodes").clone();
        match verb {
            "filter" => {
                let (gone, left) = items.split_at(items.len() / 2);
                let gone = gone.iter().map(|node| {
                    (node["metadata"]["name"].as_str().unwrap_or_default().to_owned(), json!("in the first half"))
                });
                json!({ "Nodes": { "items": left }, "FailedNodes": Value::Object(gone.collect()) })
            }
            _ => items.iter().enumerate().map(|(place, node)| {
                json!({ "Host": node["metadata"]["name"], "Score": 5 - i64::try_from(place).unwrap_or_default() })
            }).collect(),
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_asks_extenders_and_comes_to_kube_schedulers_account() -> anyhow::Result<()> {
    let (halving, refusing) = (Extender::start(halving()).await?, Extender::start(refusing()).await?);
    let wordless = Extender::start(say(|_, _| json!({}))).await?;
    let nobody = format!("http://127.0.0.1:{}", free_port()?);
    let url = |extender: &Extender| format!("http://{}", extender.address());
    let filter = json!({ "filterVerb": "filter", "nodeCacheCapable": true });
    let scores = json!({ "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 7 });
    let ignorable = json!({ "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 5, "ignorable": true });
    let extenders = json!([
        managing("ignorable", &nobody, ignorable),
        managing("halved", &url(&halving), scores),
        managing("refused", &url(&refusing), filter.clone()),
        managing("wordless", &url(&wordless), filter.clone()),
        managing("absent", &nobody, filter),
    ]);
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("case.yaml"), written_cluster())?;
    let scoreless = "  plugins: {score: {disabled: [{name: '*'}]}}\n";
    for plugins in ["", scoreless] {
        let text = format!("{}{plugins}extenders: {extenders}\n", profile("default-scheduler"));
        std::fs::write(folder.path().join("case.config.yaml"), text)?;
        let folder = folder.path().to_owned();
        let mismatches = tokio::task::spawn_blocking(move || placements::mismatches(&folder, "")).await??;
        assert!(mismatches.is_empty(), "{mismatches:#?}");
    }
    assert!(!halving.calls_about("prioritize", "halved-spread").is_empty());
    assert!(refusing.calls_about("filter", "none").is_empty());
    Ok(())
}
