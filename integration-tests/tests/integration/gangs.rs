//! Pods of a pod group are bound together or not at all, on a real API server.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_control_plane::{Component, ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::{
    extender::{Extender, Respond},
    fleet::{Fleet, PATIENCE, node_of, pods, profile, wait_for_event, wait_until_refused, wait_until_running},
    metrics::parse,
};
use futures::FutureExt as _;
use k8s_openapi::api::{
    core::v1::{Pod, PodSchedulingGroup},
    scheduling::{v1::PriorityClass, v1beta1::PodGroup},
};
use kube::{
    Api, ResourceExt as _,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::{Value, from_value, json};

const GATE: &str = "--feature-gates=GenericWorkload=true";

async fn cluster(nodes: usize) -> anyhow::Result<ControlPlane> {
    cluster_with(Options::default(), nodes).await
}

/// The same with kube-scheduler as `default-scheduler`.
async fn cluster_of_both(configuration: Value) -> anyhow::Result<ControlPlane> {
    let mut options = Options { kube_scheduler: Some(configuration), ..Options::default() };
    options.extra_args.insert(Component::Scheduler, vec![GATE.to_owned()]);
    cluster_with(options, 0).await
}

async fn cluster_with(mut options: Options, nodes: usize) -> anyhow::Result<ControlPlane> {
    let serves = vec![GATE.to_owned(), "--runtime-config=scheduling.k8s.io/v1beta1=true".to_owned()];
    options.extra_args.insert(Component::ApiServer, serves);
    let cluster = ControlPlane::start(options).await?;
    cluster.add_nodes((0..nodes).map(|index| NodeBuilder::new(format!("node-{index}")).capacity("cpu", "8"))).await?;
    Ok(cluster)
}

async fn group(cluster: &ControlPlane, name: &str, min_count: i32) -> anyhow::Result<()> {
    let spec = json!({ "schedulingPolicy": { "gang": { "minCount": min_count } } });
    create_group(cluster, name, spec).await
}

async fn create_group(cluster: &ControlPlane, name: &str, spec: Value) -> anyhow::Result<()> {
    let kind = json!({ "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "spec": spec });
    let group =
        PodGroup { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, ..from_value(kind)? };
    let api: Api<PodGroup> = Api::namespaced(cluster.client(), "default");
    api.create(&PostParams::default(), &group).await?;
    Ok(())
}

fn member(name: &str, group: &str, cpus: &str) -> Pod {
    let mut pod = pod(name, "flotilla", &[("cpu", cpus)]);
    let group = PodSchedulingGroup { pod_group_name: Some(group.to_owned()) };
    pod.spec.get_or_insert_default().scheduling_group = Some(group);
    pod
}

async fn create(cluster: &ControlPlane, pod: Pod) -> anyhow::Result<()> {
    let api: Api<Pod> = Api::namespaced(cluster.client(), "default");
    api.create(&PostParams::default(), &pod).await?;
    Ok(())
}

/// Waits for this status of a group's condition, and returns its reason and message.
async fn condition(cluster: &ControlPlane, name: &str, status: &str) -> anyhow::Result<(String, String)> {
    let api: Api<PodGroup> = Api::namespaced(cluster.client(), "default");
    wait_until(&format!("pod group {name} to be initially scheduled: {status}"), PATIENCE, async || {
        let group = api.get(name).await.map_err(|error| error.to_string())?;
        let conditions = group.status.and_then(|status| status.conditions).unwrap_or_default();
        let found = conditions.iter().find(|condition| condition.type_ == "PodGroupInitiallyScheduled");
        let found = found.filter(|condition| condition.status == status);
        found.map(|found| (found.reason.clone(), found.message.clone())).ok_or_else(|| format!("{conditions:?}"))
    })
    .await
}

async fn with_nodes(cluster: &ControlPlane) -> anyhow::Result<Vec<String>> {
    let pods = pods(cluster).await?;
    Ok(pods.iter().filter(|pod| node_of(pod).is_some()).map(|pod| pod.name_any()).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gang_lands_once_its_quorum_is_there_and_one_that_does_not_fit_blocks_no_other_pod() -> anyhow::Result<()> {
    let cluster = cluster(2).await?;
    let fleet = Fleet::new(&cluster).with_args([GATE.to_owned()]).up("flotilla", 2).await?;

    // Two of three members wait without an event, while other pods are bound.
    group(&cluster, "small", 3).await?;
    create(&cluster, member("small-0", "small", "1")).await?;
    create(&cluster, member("small-1", "small", "1")).await?;
    create(&cluster, pod("single-0", "flotilla", &[("cpu", "1")])).await?;
    wait_until_running(&cluster, "single-", 1).await?;
    assert_eq!(with_nodes(&cluster).await?, ["single-0"]);
    create(&cluster, member("small-2", "small", "1")).await?;
    wait_until_running(&cluster, "small-", 3).await?;
    assert_eq!(condition(&cluster, "small", "True").await?, ("Scheduled".to_owned(), String::new()));

    // All three members exist and only two fit: none is bound, and other pods can use the resources.
    group(&cluster, "large", 3).await?;
    for index in 0..3 {
        create(&cluster, member(&format!("large-{index}"), "large", "5")).await?;
    }
    let (reason, message) = condition(&cluster, "large", "False").await?;
    assert_eq!(reason, "Unschedulable");
    assert!(message.starts_with("minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"), "{message}");
    let (_, message) = wait_until_refused(&cluster, "large-0").await?;
    assert!(message.starts_with("pod group is unschedulable, minCount (3) cannot be satisfied"), "{message}");
    create(&cluster, pod("single-1", "flotilla", &[("cpu", "5")])).await?;
    wait_until_running(&cluster, "single-1", 1).await?;
    assert!(!with_nodes(&cluster).await?.iter().any(|name| name.starts_with("large")));

    // With enough nodes all are bound.
    cluster.add_nodes((2..4).map(|index| NodeBuilder::new(format!("node-{index}")).capacity("cpu", "8"))).await?;
    wait_until_running(&cluster, "large-", 3).await?;
    condition(&cluster, "large", "True").await?;
    assert_eq!(fleet.metric("coordinator", "flotilla_invariant_violations_total").await?, Some(0.0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_starts_again_in_the_middle_goes_on_where_the_first_one_was() -> anyhow::Result<()> {
    let cluster = cluster(2).await?;
    let mut fleet = Fleet::new(&cluster).with_args([GATE.to_owned()]).up("flotilla", 1).await?;
    group(&cluster, "g", 2).await?;
    create(&cluster, member("g-0", "g", "1")).await?;
    create(&cluster, member("g-1", "g", "1")).await?;
    wait_until_running(&cluster, "g-", 2).await?;
    cluster.processes().kill("coordinator")?;

    // A third member, and half of another group: both wait for a leader.
    create(&cluster, member("g-2", "g", "1")).await?;
    group(&cluster, "h", 2).await?;
    create(&cluster, member("h-0", "h", "1")).await?;
    let config = fleet.config(&profile("flotilla"))?;
    fleet.start_coordinator("second", Some(&config))?;
    fleet.wait_for_workers("second", 1).await?;
    wait_until_running(&cluster, "g-", 3).await?;
    create(&cluster, member("h-1", "h", "1")).await?;
    wait_until_running(&cluster, "h-", 2).await?;

    // A smaller minimum suffices now.
    group(&cluster, "i", 2).await?;
    create(&cluster, member("i-0", "i", "1")).await?;
    let api: Api<PodGroup> = Api::namespaced(cluster.client(), "default");
    let fewer = json!({ "spec": { "schedulingPolicy": { "gang": { "minCount": 1 } } } });
    api.patch("i", &PatchParams::default(), &Patch::Merge(fewer)).await?;
    wait_until_running(&cluster, "i-", 1).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_api_server_has_no_groups_all_other_pods_land() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default()).await?;
    cluster.add_nodes([NodeBuilder::new("node-0")]).await?;
    let fleet = Fleet::new(&cluster).with_args([GATE.to_owned()]).up("flotilla", 1).await?;
    create(&cluster, pod("single", "flotilla", &[("cpu", "1")])).await?;
    wait_until_running(&cluster, "single", 1).await?;
    let text = fleet.get("coordinator", "/metrics").await?;
    let failures = text.lines().find(|line| line.starts_with("flotilla_watch_failures") && line.contains("podgroups"));
    assert!(failures.is_some_and(|line| !line.ends_with(" 0")), "{failures:?}");
    let log = cluster.processes().log_tail("coordinator", 200);
    assert!(log.contains("--runtime-config=scheduling.k8s.io/v1beta1=true"), "{log}");
    Ok(())
}

/// Nodes and pods of one scheduler and case: a group on two nodes, and a single pod on the first.
async fn fill(cluster: &ControlPlane, prefix: &str, disruption: Value) -> anyhow::Result<()> {
    let nodes = [format!("{prefix}-0"), format!("{prefix}-1")];
    cluster.add_nodes(nodes.iter().map(|name| NodeBuilder::new(name).capacity("cpu", "8"))).await?;
    let group = format!("{prefix}-group");
    let spec = json!({ "schedulingPolicy": { "basic": {} }, "disruptionMode": disruption });
    create_group(cluster, &group, spec).await?;
    let on = |mut pod: Pod, node: &str| {
        pod.spec.get_or_insert_default().node_name = Some(node.to_owned());
        pod
    };
    // The oldest pod, so that it would be the last victim if groups did not have precedence.
    create(cluster, on(pod(&format!("{prefix}-single"), "nobody", &[("cpu", "4")]), &nodes[0])).await?;
    wait_until_running(cluster, &format!("{prefix}-single"), 1).await?;
    for (index, node) in nodes.iter().enumerate() {
        create(cluster, on(member(&format!("{prefix}-member-{index}"), &group, "4"), node)).await?;
    }
    wait_until_running(cluster, prefix, 3).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_takes_groups_away_as_kube_scheduler_does_whole_or_one_by_one() -> anyhow::Result<()> {
    let cluster = cluster_of_both(json!({ "profiles": [{ "schedulerName": "default-scheduler" }] })).await?;
    let class = json!({ "metadata": { "name": "high" }, "value": 100 });
    Api::<PriorityClass>::all(cluster.client()).create(&PostParams::default(), &from_value(class)?).await?;
    let fleet = Fleet::new(&cluster).with_args([GATE.to_owned()]).up("flotilla", 2).await?;
    let (all, single) = (json!({ "all": {} }), json!({ "single": {} }));
    let cases = [
        ("spared", all.clone(), "4", ["member-0", "member-1"].as_slice()),
        ("whole", all, "8", &[]),
        ("parts", single, "8", &["member-1"]),
    ];
    let schedulers = [("ours", "flotilla"), ("theirs", "default-scheduler")];
    for (case, disruption, ..) in &cases {
        for (whose, _) in schedulers {
            let prefix = format!("{case}-{whose}");
            fill(&cluster, &prefix, disruption.clone()).await?;
        }
    }
    for (case, _, cpus, _) in &cases {
        for (whose, scheduler) in schedulers {
            let prefix = format!("{case}-{whose}");
            let mut high = pod(&format!("{prefix}-high"), scheduler, &[("cpu", cpus)]);
            let spec = high.spec.get_or_insert_default();
            spec.priority_class_name = Some("high".to_owned());
            spec.node_selector = Some(BTreeMap::from([("kubernetes.io/hostname".to_owned(), format!("{prefix}-0"))]));
            create(&cluster, high).await?;
        }
    }
    for (case, _, _, left) in cases {
        let mut told = Vec::new();
        for (whose, _) in schedulers {
            let prefix = format!("{case}-{whose}-");
            let high = format!("{prefix}high");
            wait_until_running(&cluster, &high, 1).await?;
            let names: Vec<String> = pods(&cluster).await?.iter().map(|pod| pod.name_any()).collect();
            let names: Vec<&str> = names.iter().filter_map(|name| name.strip_prefix(&prefix)).collect();
            let expected: Vec<&str> = ["high"].into_iter().chain(left.iter().copied()).collect();
            assert_eq!(names, expected, "{prefix}");
            let note = wait_for_event(&cluster, &high, "FailedScheduling").await?;
            told.push(note.replace(&prefix, ""));
        }
        assert_eq!(told[0], told[1], "{case}");
        assert!(told[0].contains("preemption: found a potential placement for pod on node 0, preempting "), "{told:?}");
    }
    assert_eq!(fleet.metric("coordinator", "flotilla_invariant_violations_total").await?, Some(0.0));
    Ok(())
}

/// Keeps the last node by name; none for pods with `refused` in their name.
fn choosy() -> Respond {
    Arc::new(|_, question: Value| {
        let names = question["NodeNames"].as_array().cloned().unwrap_or_default();
        let mut names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
        names.sort_unstable();
        let is_refused = question["Pod"]["metadata"]["name"].as_str().is_some_and(|name| name.contains("refused"));
        let left = if is_refused { None } else { names.pop() };
        let failed: BTreeMap<&str, &str> = names.iter().map(|name| (*name, "not the last one")).collect();
        let answer = json!({ "NodeNames": left.into_iter().collect::<Vec<_>>(), "FailedNodes": failed });
        async move { answer }.boxed()
    })
}

/// Nodes in an extender's first call for a pod, without the scheduler's prefix.
fn first_asked(extender: &Extender, pod: &str, prefix: &str) -> Vec<String> {
    let calls = extender.calls_about("filter", pod);
    let names = calls.first().and_then(|call| call.question["NodeNames"].as_array().cloned()).unwrap_or_default();
    let mut names: Vec<String> = names.iter().filter_map(Value::as_str).map(|name| name.replace(prefix, "")).collect();
    names.sort_unstable();
    names
}

/// Group metrics of `coordinator` and kube-scheduler agree after each has placed one group.
async fn the_pages_tell_the_same_of_groups(cluster: &ControlPlane, fleet: &Fleet<'_>) -> anyhow::Result<()> {
    let theirs = parse(&cluster.get(Component::Scheduler, "metrics").await?);
    let ours = parse(&fleet.get("coordinator", "/metrics").await?);
    let attempts = "scheduler_podgroup_schedule_attempts_total";
    for name in [
        attempts,
        "scheduler_podgroup_scheduling_attempt_duration_seconds",
        "scheduler_podgroup_scheduling_algorithm_duration_seconds",
        "scheduler_workload_preemption_attempts_total",
    ] {
        let told = [&ours, &theirs].map(|page| {
            let family = page.get(name)?;
            Some((family.kind.clone(), family.help.clone(), family.labels.clone(), family.bounds.clone()))
        });
        assert!(told[0].is_some() && told[0] == told[1], "{name}: {told:?}");
    }
    for (page, scheduler) in [(&ours, "flotilla"), (&theirs, "default-scheduler")] {
        let placed = page[attempts].sum(attempts, &[("result", "scheduled"), ("profile", scheduler)]);
        assert_eq!(placed, Some(1.0), "{scheduler}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn extenders_are_asked_about_the_pods_of_a_gang_as_kube_scheduler_asks_them() -> anyhow::Result<()> {
    let extender = Extender::start(choosy()).await?;
    let url = format!("http://{}", extender.address());
    let extenders = json!([{ "urlPrefix": url, "filterVerb": "filter", "nodeCacheCapable": true }]);
    let theirs = json!({ "profiles": [{ "schedulerName": "default-scheduler" }], "extenders": extenders });
    let cluster = cluster_of_both(theirs).await?;
    let mut fleet = Fleet::new(&cluster).with_args([GATE.to_owned()]);
    fleet.reserve("worker")?;
    fleet.start_worker("worker")?;
    let config = fleet.config(&format!("{}extenders: {extenders}\n", profile("flotilla")))?;
    fleet.start_coordinator("coordinator", Some(&config))?;
    fleet.wait_for_workers("coordinator", 1).await?;
    let schedulers = [("ours-", "flotilla"), ("theirs-", "default-scheduler")];
    for (prefix, scheduler) in schedulers {
        let node = |index| NodeBuilder::new(format!("{prefix}{index}")).capacity("cpu", "8").label("whose", scheduler);
        cluster.add_nodes((0..3).map(node)).await?;
    }
    for (prefix, scheduler) in schedulers {
        for gang in ["placed", "refused"] {
            group(&cluster, &format!("{prefix}{gang}"), 3).await?;
            for index in 0..3 {
                let mut pod = member(&format!("{prefix}{gang}-{index}"), &format!("{prefix}{gang}"), "3");
                let spec = pod.spec.get_or_insert_default();
                spec.scheduler_name = Some(scheduler.to_owned());
                spec.node_selector = Some(BTreeMap::from([("whose".to_owned(), scheduler.to_owned())]));
                create(&cluster, pod).await?;
            }
            // Sequentially, so that each finds the same state.
            match gang {
                "placed" => _ = wait_until_running(&cluster, &format!("{prefix}{gang}"), 3).await?,
                _ => _ = wait_until_refused(&cluster, &format!("{prefix}{gang}-2")).await?,
            }
        }
    }
    let mut told = Vec::new();
    for (prefix, _) in schedulers {
        let nodes: Vec<String> = wait_until_running(&cluster, &format!("{prefix}placed"), 3)
            .await?
            .iter()
            .filter_map(|pod| Some(node_of(pod)?.replace(prefix, "")))
            .collect();
        let pods = ["placed-0", "placed-1", "placed-2", "refused-0"];
        let asked = pods.map(|pod| first_asked(&extender, &format!("{prefix}{pod}"), prefix));
        let refusals = [
            wait_until_refused(&cluster, &format!("{prefix}refused-0")).await?,
            wait_until_refused(&cluster, &format!("{prefix}refused-2")).await?,
            condition(&cluster, &format!("{prefix}refused"), "False").await?,
        ];
        told.push((nodes, asked, refusals));
    }
    assert_eq!(told[0], told[1]);
    assert_eq!(told[0].0, ["2", "2", "1"], "each beside those before it");
    assert_eq!(told[0].1[2], ["0", "1"], "the last node is full by then");
    the_pages_tell_the_same_of_groups(&cluster, &fleet).await?;
    assert_eq!(fleet.metric("coordinator", "flotilla_invariant_violations_total").await?, Some(0.0));
    Ok(())
}
