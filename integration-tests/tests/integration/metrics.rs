//! Compares metrics with kube-scheduler's: names, types, help, labels and buckets, and the queries of monitoring for kube-scheduler.

use std::collections::{BTreeMap, BTreeSet};

use flotilla_control_plane::{Component, ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::{
    fleet::{Fleet, PATIENCE, wait_until_refused, wait_until_running},
    metrics::{Family, Labels, parse},
    oracle,
};
use k8s_openapi::api::core::v1::{Pod, PodSchedulingGate};
use serde_json::{from_value, json};

/// Families of kube-scheduler that Flotilla lacks, with reasons. A trailing `*` matches a prefix.
const LEFT_OUT: &[(&str, &str)] = &[
    ("scheduler_batch_*", "kube-scheduler's batches of equal pods: here every class is judged once for all its pods"),
    ("scheduler_get_node_hint_duration_seconds", "as above"),
    ("scheduler_store_schedule_results_duration_seconds", "as above"),
    ("scheduler_inflight_events", "no event is kept for pods that are being decided: one is applied after the other"),
    ("aggregator_*", "of the server library that kube-scheduler is built on"),
    ("apiserver_*", "of the server library that kube-scheduler is built on"),
    ("authenticated_user_requests", "of the server library"),
    ("authentication_*", "of the server library"),
    ("authorization_*", "of the server library"),
    ("cardinality_enforcement_unexpected_categorizations_total", "of the metrics library"),
    ("disabled_metrics_total", "of the metrics library"),
    ("hidden_metrics_total", "of the metrics library"),
    ("registered_metrics_total", "of the metrics library"),
    ("go_*", "of the Go runtime, but for go_goroutines"),
    ("informer_*", "of client-go's informers; flotilla_watch* tells of our watches"),
    ("process_network_*", "of the machine's network, not of the process"),
    ("process_virtual_memory_max_bytes", "the kernel's limit; not among what the crate for the process tells"),
    ("rest_client_exec_plugin_*", "of Go's credential plugins"),
    ("rest_client_request_size_bytes", "bodies are streamed and not measured"),
    ("rest_client_response_size_bytes", "bodies are streamed and not measured"),
    (
        "rest_client_rate_limiter_duration_seconds",
        "only where clientConnection.qps is set, which nothing is by default",
    ),
    ("rest_client_transport_*", "of client-go's cache of connections"),
    ("version_*", "of the emulated version"),
    ("workqueue_*", "of client-go's work queues, which are not there"),
];

/// Flotilla's families that kube-scheduler lacks, at least in this test.
const EXTRA: &[(&str, &str)] = &[
    ("flotilla_*", "our own"),
    ("leader_election_master_status", "kube-scheduler runs without an election here"),
    ("process_threads", "the crate for the process tells more"),
];

/// Metrics with `job="kube-scheduler"` in the rules, alerts and dashboards of kubernetes-mixin and kube-prometheus. `false`: kube-scheduler
/// removed the metric years ago, so those panels are empty with both.
const MONITORED: &[(&str, bool)] = &[
    ("scheduler_scheduling_attempt_duration_seconds", true),
    ("scheduler_scheduling_algorithm_duration_seconds", true),
    ("scheduler_pod_scheduling_sli_duration_seconds", true),
    ("scheduler_e2e_scheduling_duration_seconds", false),
    ("scheduler_binding_duration_seconds", false),
    ("scheduler_volume_scheduling_duration_seconds", false),
    ("rest_client_requests_total", true),
    ("rest_client_request_duration_seconds", true),
    ("process_resident_memory_bytes", true),
    ("process_cpu_seconds_total", true),
    ("process_start_time_seconds", true),
    ("process_open_fds", true),
    ("process_max_fds", true),
    ("go_goroutines", true),
    ("kubernetes_build_info", true),
];

type Page = BTreeMap<String, Family>;

fn is_listed(name: &str, listed: &[(&str, &str)]) -> bool {
    listed.iter().any(|(known, _)| known.strip_suffix('*').map_or(name == *known, |start| name.starts_with(start)))
}

/// Pods for a scheduler: five feasible ones, an infeasible and a gated one.
fn workload(scheduler: &str) -> Vec<Pod> {
    let mut pods: Vec<Pod> =
        (0..5).map(|index| pod(&format!("{scheduler}-web-{index}"), scheduler, &[("cpu", "100m")])).collect();
    pods.push(pod(&format!("{scheduler}-huge"), scheduler, &[("cpu", "1000")]));
    let mut gated = pod(&format!("{scheduler}-gated"), scheduler, &[]);
    gated.spec.get_or_insert_default().scheduling_gates =
        Some(vec![PodSchedulingGate { name: "example.com/wait".into() }]);
    pods.push(gated);
    pods
}

async fn play(cluster: &ControlPlane) -> anyhow::Result<Fleet<'_>> {
    cluster.add_nodes((0..3).map(|index| NodeBuilder::new(format!("node-{index}")))).await?;
    let fleet = Fleet::start(cluster, "flotilla", 2).await?;
    for scheduler in ["default-scheduler", "flotilla"] {
        cluster.create_pods(workload(scheduler)).await?;
        wait_until_running(cluster, &format!("{scheduler}-web-"), 5).await?;
        wait_until_refused(cluster, &format!("{scheduler}-huge")).await?;
    }
    Ok(fleet)
}

fn differences(theirs: &Page, ours: &Page) -> Vec<String> {
    let mut found = Vec::new();
    for (name, family) in theirs {
        let listed = is_listed(name, LEFT_OUT) && name != "go_goroutines";
        let Some(own) = ours.get(name) else {
            if !listed {
                found.push(format!("{name} is missing: {} {:?}", family.kind, family.labels));
            }
            continue;
        };
        if listed {
            found.push(format!("{name} is listed as left out and is there"));
        }
        if family.kind != own.kind {
            found.push(format!("{name} is a {} and not a {}", own.kind, family.kind));
        }
        if family.labels != own.labels {
            found.push(format!("{name} has the labels {:?} and not {:?}", own.labels, family.labels));
        }
        if family.bounds != own.bounds {
            let [own, theirs] =
                [own, family].map(|of| of.bounds.iter().map(|bits| f64::from_bits(*bits)).collect::<Vec<_>>());
            found.push(format!("{name} has the buckets {own:?} and not {theirs:?}"));
        }
        // Libraries have their own help texts for process metrics.
        if family.help != own.help && !name.starts_with("process_") && name != "go_goroutines" {
            found.push(format!("{name} says {:?} and not {:?}", own.help, family.help));
        }
    }
    let new = ours.keys().filter(|name| !theirs.contains_key(*name) && !is_listed(name, EXTRA));
    found.extend(new.map(|name| format!("{name} is not kube-scheduler's")));
    found
}

/// A missing duration of Filter or Score, if any.
fn untimed(page: &Page) -> Option<String> {
    let points = [("Filter", "NodeResourcesFit"), ("Score", "NodeResourcesBalancedAllocation")];
    points.into_iter().find_map(|(point, plugin)| {
        let families = [
            ("scheduler_plugin_execution_duration_seconds", ("plugin", plugin)),
            ("scheduler_framework_extension_point_duration_seconds", ("profile", "flotilla")),
        ];
        families.into_iter().find_map(|(family, label)| {
            let labels = [("extension_point", point), label];
            let count = page.get(family).and_then(|parsed| parsed.sum(&format!("{family}_count"), &labels));
            (!count.is_some_and(|count| count > 0.0)).then(|| format!("{family} {labels:?}: {count:?}"))
        })
    })
}

/// Counts that must be equal after the same workload.
fn counts(page: &Page, profile: &str) -> Vec<(String, Option<f64>)> {
    let sum = |family: &str, name: &str, labels: &[(&str, &str)]| {
        let value = page.get(family).and_then(|family| family.sum(name, labels));
        (format!("{name} {:?}", labels.iter().filter(|(label, _)| *label != "profile").collect::<Vec<_>>()), value)
    };
    let one = |name: &'static str, labels: &[(&str, &str)]| sum(name, name, labels);
    let attempts = "scheduler_scheduling_attempt_duration_seconds";
    let mut counts = vec![
        one("scheduler_schedule_attempts_total", &[("result", "scheduled"), ("profile", profile)]),
        sum(attempts, &format!("{attempts}_count"), &[("result", "scheduled"), ("profile", profile)]),
        one("scheduler_pending_pods", &[("queue", "active")]),
        one("scheduler_pending_pods", &[("queue", "unschedulable")]),
        one("scheduler_pending_pods", &[("queue", "gated")]),
        one("scheduler_queued_entities", &[("queue", "gated"), ("type", "pod")]),
        one("scheduler_unschedulable_pods", &[("plugin", "NodeResourcesFit"), ("profile", profile)]),
        one("scheduler_unschedulable_pods", &[("plugin", "SchedulingGates"), ("profile", profile)]),
        one("scheduler_queue_incoming_pods_total", &[("queue", "active"), ("event", "UnscheduledPodAdd")]),
        one("scheduler_queue_incoming_pods_total", &[("queue", "unschedulable"), ("event", "ScheduleAttemptFailure")]),
        one("scheduler_queue_incoming_entities_total", &[("queue", "active"), ("type", "pod")]),
        one("scheduler_cache_size", &[("type", "nodes")]),
        one("scheduler_cache_size", &[("type", "pods")]),
        one("scheduler_pod_scheduled_after_flush_total", &[]),
        one("scheduler_preemption_victims_count", &[]),
    ];
    for family in ["scheduler_pod_scheduling_attempts", "scheduler_pod_scheduling_sli_duration_seconds"] {
        counts.push(sum(family, &format!("{family}_count"), &[]));
    }
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_has_what_kube_schedulers_page_has_and_says_the_same_of_the_same_pods() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default().with_kube_scheduler()).await?;
    let fleet = play(&cluster).await?;
    let (theirs, ours) = wait_until("both pages to say the same", PATIENCE, async || {
        let theirs = cluster.get(Component::Scheduler, "metrics").await.map_err(|error| format!("{error:#}"))?;
        let ours = fleet.get("coordinator", "/metrics").await.map_err(|error| format!("{error:#}"))?;
        let [told, own] =
            [(&theirs, "default-scheduler"), (&ours, "flotilla")].map(|(page, of)| counts(&parse(page), of));
        let off: Vec<_> = told.iter().zip(&own).filter(|(told, own)| told != own).collect();
        if off.is_empty() { Ok((theirs, ours)) } else { Err(format!("{off:#?}")) }
    })
    .await?;
    let (theirs, parsed) = (parse(&theirs), parse(&ours));
    let mut differences = differences(&theirs, &parsed);
    let stale = LEFT_OUT.iter().filter(|listed| !theirs.keys().any(|name| is_listed(name, &[**listed])));
    differences.extend(stale.map(|(name, _)| format!("{name} is listed as left out and kube-scheduler has none")));
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    for (name, is_there) in MONITORED {
        assert_eq!(parsed.contains_key(*name), *is_there, "{name}, which dashboards and rules ask for");
        assert_eq!(theirs.contains_key(*name), *is_there, "{name}, of kube-scheduler itself");
    }
    let release = |page: &Page| {
        let (_, labels, _) = page.get("kubernetes_build_info")?.samples.first()?;
        Some(labels.get("git_version")?.split('+').next()?.to_owned())
    };
    assert_eq!(release(&parsed), release(&theirs), "KubeVersionMismatch compares this");
    assert_eq!(
        parsed["leader_election_master_status"].sum("leader_election_master_status", &[("name", "flotilla")]),
        Some(1.0)
    );

    // One evaluation in ten is timed, and infeasible pods are not scored. So more pods of distinct classes are needed.
    let more = (0..20).map(|index| pod(&format!("more-{index}"), "flotilla", &[("cpu", &format!("{}m", 10 + index))]));
    cluster.create_pods(more).await?;
    let ours = wait_until("plugins to be timed", PATIENCE, async || {
        let page = fleet.get("coordinator", "/metrics").await.map_err(|error| format!("{error:#}"))?;
        untimed(&parse(&page)).map_or(Ok(page), Err)
    })
    .await?;
    let file = cluster.folder().join("metrics.txt");
    std::fs::write(&file, &ours)?;
    let problems = oracle::ask("lint", &[&file])?;
    assert_eq!(problems, "", "promtool check metrics has something to say");
    Ok(())
}

/// Pods with all combinations of requests, limits and init containers.
fn amounts() -> anyhow::Result<Vec<Pod>> {
    let spec = |name: &str, spec: serde_json::Value| -> anyhow::Result<Pod> {
        Ok(from_value(json!({ "metadata": { "name": name }, "spec": spec }))?)
    };
    let container =
        |name: &str, resources: serde_json::Value| json!({ "name": name, "image": "pause", "resources": resources });
    Ok(vec![
        spec(
            "two",
            json!({ "schedulerName": "flotilla", "containers": [
            container("a", json!({ "requests": { "cpu": "250m", "memory": "64Mi" }, "limits": { "cpu": "1", "memory": "128Mi" } })),
            container("b", json!({ "requests": { "cpu": "100m" }, "limits": { "memory": "100M", "ephemeral-storage": "1Gi" } })),
        ] }),
        )?,
        spec(
            "sidecar",
            json!({ "schedulerName": "default-scheduler",
                "initContainers": [
                    { "name": "s", "image": "pause", "restartPolicy": "Always",
                      "resources": { "requests": { "cpu": "100m" }, "limits": { "cpu": "200m" } } },
                    container("i", json!({ "requests": { "cpu": "2" }, "limits": { "cpu": "3", "memory": "1Gi" } })),
                ],
                "containers": [container("a", json!({ "requests": { "cpu": "300m" }, "limits": { "cpu": "500m" } }))],
            }),
        )?,
        spec(
            "whole",
            json!({ "schedulerName": "flotilla",
                "resources": { "requests": { "cpu": "700m" }, "limits": { "cpu": "2", "memory": "1Gi" } },
                "containers": [container("a", json!({ "requests": { "cpu": "100m", "memory": "10Mi" } }))],
            }),
        )?,
        spec(
            "nobodys",
            json!({ "schedulerName": "somebody-else", "priority": 0, "containers": [
            container("a", json!({ "limits": { "example.com/gpu": "2" } })),
        ] }),
        )?,
        spec("free", json!({ "schedulerName": "flotilla", "containers": [container("a", json!({}))] }))?,
        spec(
            "unplaced",
            json!({ "schedulerName": "flotilla", "containers": [
            container("a", json!({ "requests": { "cpu": "1000", "memory": "0" } })),
        ] }),
        )?,
    ])
}

fn samples(page: &Page) -> BTreeMap<(String, Labels), f64> {
    page.values()
        .flat_map(|family| family.samples.iter().cloned())
        .map(|(name, labels, value)| ((name, labels), value))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_resources_says_of_every_pod_what_kube_schedulers_says() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default().with_kube_scheduler()).await?;
    let node = |index| NodeBuilder::new(format!("node-{index}")).capacity("ephemeral-storage", "100Gi");
    cluster.add_nodes((0..3).map(node)).await?;
    let fleet = Fleet::start(&cluster, "flotilla", 1).await?;
    cluster.create_pods(amounts()?).await?;
    for name in ["two", "sidecar", "whole", "free"] {
        wait_until_running(&cluster, name, 1).await?;
    }
    let path = "metrics/resources";
    wait_until("both pages to say the same", PATIENCE, async || {
        let theirs = cluster.get(Component::Scheduler, path).await.map_err(|error| format!("{error:#}"))?;
        let ours = fleet.get("coordinator", path).await.map_err(|error| format!("{error:#}"))?;
        let (theirs, ours) = (parse(&theirs), parse(&ours));
        let differences = differences(&theirs, &ours);
        if !differences.is_empty() {
            return Err(differences.join("\n"));
        }
        let (told, own) = (samples(&theirs), samples(&ours));
        let pods: BTreeSet<&String> = told.keys().filter_map(|(_, labels)| labels.get("pod")).collect();
        if pods.len() < 5 {
            return Err(format!("kube-scheduler tells of {pods:?} alone"));
        }
        let keys: BTreeSet<_> = told.keys().chain(own.keys()).collect();
        let is_off = |key: &&&(String, Labels)| match (told.get(**key), own.get(**key)) {
            (Some(told), Some(own)) => (told - own).abs() > 1e-9 * told.abs(),
            _ => true,
        };
        let off: Vec<_> = keys.iter().filter(is_off).map(|key| (key, told.get(*key), own.get(*key))).collect();
        if off.is_empty() { Ok(()) } else { Err(format!("{off:#?}")) }
    })
    .await
}
