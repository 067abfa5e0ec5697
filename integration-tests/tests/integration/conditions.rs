//! Conditions, events and API writes equal kube-scheduler's for the same pods and nodes.

use std::{collections::BTreeMap, fs};

use flotilla_control_plane::{AuditLevel, ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::{
    census::misreported,
    fleet::{Fleet, PATIENCE, node_of, not_scheduled, pods, wait_for_event, wait_until_refused, wait_until_running},
};
use k8s_openapi::api::core::v1::{Node, Pod, PodSchedulingGate};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

const SCHEDULER: &str = "default-scheduler";
const AGENT: &str = "flotilla-coordinator/";
const HOST: &str = "kubernetes.io/hostname";

fn configuration() -> Value {
    json!({ "profiles": [{ "schedulerName": SCHEDULER }] })
}

#[derive(Debug, Default, PartialEq)]
struct Account {
    conditions: BTreeMap<String, Value>,
    /// Events by pod, in order of creation.
    events: BTreeMap<String, Vec<Value>>,
    /// Number of the scheduler's committed writes by pod and kind.
    writes: BTreeMap<(String, String), usize>,
}

fn on_node(mut pod: Pod, label: &str, value: &str) -> Pod {
    pod.spec.get_or_insert_default().node_selector = Some([(label.to_owned(), value.to_owned())].into());
    pod
}

/// A gated pod, an infeasible pod, one that becomes feasible with a node label, a deleted one, and one with an unknown scheduler.
fn held_back() -> Vec<Pod> {
    let mut gated = on_node(pod("gated", SCHEDULER, &[]), HOST, "node-0");
    gated.spec.get_or_insert_default().scheduling_gates = Some(vec![PodSchedulingGate { name: "wait/for-it".into() }]);
    let huge = |name: &str| pod(name, SCHEDULER, &[("cpu", "1k")]);
    let late = on_node(pod("late", SCHEDULER, &[]), "zone", "c");
    vec![gated, huge("huge"), huge("doomed"), late, pod("nobodys", "somebody-else", &[])]
}

async fn wait_for_counts(cluster: &ControlPlane, name: &str, wanted: &[i32]) -> anyhow::Result<()> {
    wait_until(&format!("events {wanted:?} about {name}"), PATIENCE * 2, async || {
        let events = cluster.events_for("default", name).await.map_err(|error| format!("{error:#}"))?;
        let mut counts: Vec<i32> = events.iter().map(|event| event.series.as_ref().map_or(1, |it| it.count)).collect();
        counts.sort_unstable();
        if counts == wanted { Ok(()) } else { Err(format!("there are {counts:?}")) }
    })
    .await
}

/// The same sequence of actions for both schedulers.
async fn course(cluster: &ControlPlane, agent: &str) -> anyhow::Result<Account> {
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    let nodes: Api<Node> = Api::all(cluster.client());
    let filler = |index: usize| {
        let filler = pod(&format!("filler-{index}"), SCHEDULER, &[("cpu", "1")]);
        on_node(filler, HOST, &format!("node-{index}"))
    };
    let mut created = cluster.create_pods((0..2).map(filler)).await?;
    wait_until_running(cluster, "filler-", 2).await?;
    created.extend(cluster.create_pods(held_back()).await?);
    for name in ["huge", "doomed", "late"] {
        wait_until_refused(cluster, name).await?;
        wait_for_counts(cluster, name, &[1]).await?;
    }
    let at_once = DeleteParams::default().grace_period(0);
    pods.delete("doomed", &at_once).await?;
    // Each deletion wakes the infeasible pod: it has changed since it was rejected, and a further attempt follows.
    pods.delete("filler-0", &at_once).await?;
    wait_for_counts(cluster, "huge", &[1, 1]).await?;
    pods.delete("filler-1", &at_once).await?;
    wait_for_counts(cluster, "huge", &[1, 2]).await?;
    let zone = json!({ "metadata": { "labels": { "zone": "c" } } });
    nodes.patch("node-1", &PatchParams::default(), &Patch::Merge(zone)).await?;
    let open = json!({ "spec": { "schedulingGates": null } });
    pods.patch("gated", &PatchParams::default(), &Patch::Merge(open)).await?;
    for name in ["late", "gated"] {
        wait_until_running(cluster, name, 1).await?;
        wait_for_event(cluster, name, "Scheduled").await?;
    }
    account(cluster, agent, &created).await
}

async fn account(cluster: &ControlPlane, agent: &str, created: &[Pod]) -> anyhow::Result<Account> {
    let mut account = Account::default();
    for pod in pods(cluster).await? {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let condition = conditions.clone().find(|condition| condition.type_ == "PodScheduled");
        let mut condition = serde_json::to_value(condition)?;
        if let Some(time) = condition.get_mut("lastTransitionTime") {
            *time = json!("some time");
        }
        account.conditions.insert(pod.name_any(), condition);
        if node_of(&pod).is_some() {
            assert_eq!(not_scheduled(&pod), None, "a condition was written over a binding");
        }
    }
    for pod in created {
        let events = cluster.events_for("default", &pod.name_any()).await?;
        let mut events: Vec<_> = events.iter().filter(|event| event.reason.as_deref() != Some("Killing")).collect();
        events.sort_by_key(|event| event.event_time.clone());
        let events = events.into_iter().map(|event| told(serde_json::to_value(event)?, pod));
        account.events.insert(pod.name_any(), events.collect::<anyhow::Result<_>>()?);
    }
    for line in fs::read_to_string(cluster.audit_log())?.lines() {
        let entry: Value = serde_json::from_str(line)?;
        if let Some(write) = write_in(&entry, agent) {
            *account.writes.entry(write).or_default() += 1;
        }
    }
    Ok(account)
}

/// An event of a pod, without fields that differ between runs.
fn told(mut event: Value, pod: &Pod) -> anyhow::Result<Value> {
    let name = event["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let prefix = format!("{}.", pod.name_any());
    let time = name.strip_prefix(&prefix).map(|time| u64::from_str_radix(time, 16));
    assert!(matches!(time, Some(Ok(_))), "{name} is no pod's name and a time");
    assert!(event["eventTime"].is_string(), "{event}");
    let about = &mut event["regarding"];
    assert_eq!(about["uid"].as_str(), pod.uid().as_deref());
    // The pod's version in an event is part of the deduplication key.
    let is_new = about["resourceVersion"].as_str() == pod.resource_version().as_deref();
    about["uid"] = json!("its UID");
    about["resourceVersion"] = json!(if is_new { "as created" } else { "later" });
    let fields = event.as_object_mut().expect("an object");
    fields.retain(|field, _| !matches!(&**field, "metadata" | "eventTime"));
    if let Some(series) = fields.get_mut("series") {
        *series = series["count"].clone();
    }
    Ok(event)
}

/// Pod and kind of a committed write of this agent; none for elections.
fn write_in(entry: &Value, agent: &str) -> Option<(String, String)> {
    let (about, verb) = (&entry["objectRef"], entry["verb"].as_str()?);
    let is_write = matches!(verb, "create" | "update" | "patch" | "delete");
    let is_theirs = entry["userAgent"].as_str().is_some_and(|its| its.starts_with(agent));
    let is_taken = entry["responseStatus"]["code"].as_u64().is_some_and(|code| code < 300);
    let kind = match (about["resource"].as_str()?, about["subresource"].as_str()) {
        ("pods", Some(part)) => format!("{verb} pods/{part}"),
        (resource @ ("pods" | "events"), None) => format!("{verb} {resource}"),
        _ => return None,
    };
    let regarding = entry["requestObject"]["regarding"]["name"].as_str();
    if entry["requestObject"]["regarding"]["kind"] == "Lease" {
        return None;
    }
    let named = about["name"].as_str()?.split('.').next()?;
    (is_write && is_theirs && is_taken).then(|| (regarding.unwrap_or(named).to_owned(), kind))
}

async fn nodes(cluster: &ControlPlane) -> anyhow::Result<()> {
    cluster.add_nodes((0..2).map(|index| NodeBuilder::new(format!("node-{index}")))).await?;
    cluster.add_nodes([NodeBuilder::new("gpu").taint("gpu", "", "NoSchedule")]).await
}

async fn theirs() -> anyhow::Result<Account> {
    let options = Options { kube_scheduler: Some(configuration()), ..Options::default() };
    let cluster = ControlPlane::start(options.with_audit(AuditLevel::Request)).await?;
    nodes(&cluster).await?;
    course(&cluster, "kube-scheduler/").await
}

async fn ours() -> anyhow::Result<Account> {
    let cluster = ControlPlane::start(Options::default().with_audit(AuditLevel::Request)).await?;
    nodes(&cluster).await?;
    let _fleet = fleet(&cluster).await?;
    course(&cluster, AGENT).await
}

async fn fleet(cluster: &ControlPlane) -> anyhow::Result<Fleet<'_>> {
    let mut fleet = Fleet::new(cluster);
    for worker in ["worker-0", "worker-1"] {
        fleet.reserve(worker)?;
        fleet.start_worker(worker)?;
    }
    let mut text = configuration();
    text["apiVersion"] = json!("kubescheduler.config.k8s.io/v1");
    text["kind"] = json!("KubeSchedulerConfiguration");
    let config = fleet.config(&text.to_string())?;
    fleet.start_coordinator("coordinator", Some(&config))?;
    fleet.wait_for_workers("coordinator", 2).await?;
    Ok(fleet)
}

/// Number of Flotilla's requests about pods and events by kind, except lists and watches, including failed ones.
fn asked(cluster: &ControlPlane) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut asked = BTreeMap::new();
    for line in fs::read_to_string(cluster.audit_log())?.lines() {
        let entry: Value = serde_json::from_str(line)?;
        let (about, verb) = (&entry["objectRef"], entry["verb"].as_str().unwrap_or_default());
        let is_ours = entry["userAgent"].as_str().is_some_and(|its| its.starts_with(AGENT));
        let resource = about["resource"].as_str().unwrap_or_default();
        let is_about_lease = entry["requestObject"]["regarding"]["kind"] == "Lease";
        let is_read = matches!(verb, "list" | "watch");
        if is_ours && matches!(resource, "pods" | "events") && !is_read && !is_about_lease {
            let part = about["subresource"].as_str().map_or_else(String::new, |part| format!("/{part}"));
            *asked.entry(format!("{verb} {resource}{part}")).or_default() += 1;
        }
    }
    Ok(asked)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_placed_at_once_costs_one_binding_and_one_event_and_nothing_else() -> anyhow::Result<()> {
    const PODS: usize = 150;
    let cluster = ControlPlane::start(Options::default().with_audit(AuditLevel::Request)).await?;
    nodes(&cluster).await?;
    let _fleet = fleet(&cluster).await?;
    cluster.create_pods((0..PODS).map(|index| pod(&format!("burst-{index}"), SCHEDULER, &[]))).await?;
    wait_until_running(&cluster, "burst-", PODS).await?;
    // Events follow bindings, and the last ones come after all bindings.
    wait_until("an event about each pod", PATIENCE, async || {
        let wrong = misreported(&cluster, false).await.map_err(|error| format!("{error:#}"))?;
        if wrong.is_empty() { Ok(()) } else { Err(format!("{} of {PODS} have none", wrong.len())) }
    })
    .await?;
    let wanted = [("create events", PODS), ("create pods/binding", PODS)];
    assert_eq!(asked(&cluster)?, wanted.map(|(kind, times)| (kind.to_owned(), times)).into());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_told_what_kube_scheduler_tells_them_with_as_many_writes() -> anyhow::Result<()> {
    let theirs = theirs().await?;
    let ours = ours().await?;
    assert_eq!(ours.conditions, theirs.conditions);
    assert_eq!(ours.events, theirs.events);
    assert_eq!(ours.writes, theirs.writes);
    // The schedulers agree, and these writes happened at all.
    let write = |pod: &str, kind: &str| ours.writes.get(&(pod.to_owned(), kind.to_owned())).copied().unwrap_or(0);
    assert_eq!(write("huge", "patch pods/status"), 1, "it says the same each time");
    assert_eq!((write("huge", "create events"), write("huge", "patch events")), (2, 1));
    assert_eq!((write("late", "patch pods/status"), write("late", "create pods/binding")), (1, 1));
    assert_eq!((write("gated", "patch pods/status"), write("gated", "create pods/binding")), (0, 1));
    assert!(ours.writes.keys().all(|(pod, _)| pod != "nobodys"), "{:?}", ours.writes);
    Ok(())
}
