//! Recorded clusters on the API server of another version: explanations and placements are kube-scheduler's.

use std::{
    collections::BTreeSet,
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use flotilla_integration_tests::{
    fleet::profile,
    oracle,
    served::{self, ServedClusters},
};
use flotilla_placements::{Case, CaseOutcome, differences, outcomes};

use super::*;

/// One in so many recorded clusters, in the order of their names.
const EVERY: usize = 7;

/// Fields of recorded clusters that some API servers drop, with their minor versions. All clusters with a field of the first two are
/// selected. docs/reference/versions.md lists them.
const DROPPED: [(&str, Range<u32>); 4] = [
    ("Pod.spec.resources", 0..34),
    ("Node.status.declaredFeatures", 0..36),
    ("Pod.spec.containers.restartPolicy", 34..35),
    ("Pod.spec.containers.restartPolicyRules", 34..35),
];

/// Fields of pods that some API servers reject, with their minor versions. Since 1.33 a pod cannot have both the host's network and its own
/// users.
const REJECTED: [(&str, Range<u32>); 3] = [
    ("spec.containers[0].restartPolicy", 0..34),
    ("spec.containers[0].restartPolicyRules[0].action", 35..36),
    ("spec.hostNetwork", 33..u32::MAX),
];

/// The nomination of a bound pod is removed since this minor version.
const NOMINATION_REMOVED_SINCE: (&str, u32) = ("Pod.status.nominatedNodeName", 35);

/// Fields of an answer about a live cluster that kube-scheduler's code does not report.
const LIVE_FIELDS: [&str; 6] = ["nominatedNode", "queue", "boundTo", "accountOf", "inTheWay", "onNode"];

type Outcomes = BTreeMap<String, CaseOutcome>;

/// A recorded cluster on the API server.
struct ServedCase {
    name: String,
    dropped: BTreeSet<String>,
    /// Flotilla's explanations of all pending pods.
    explained: CaseOutcome,
    /// The coordinator's decision about the only pending pod.
    placed: Option<Placed>,
}

#[derive(Debug)]
enum Placed {
    On(String),
    /// The message of the condition.
    Refused(String),
}

fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/placements")
}

/// Whether an object of the case has the field, such as `Pod.spec.resources`.
fn has(case: &Case, field: &str) -> bool {
    let (kind, path) = field.split_once('.').unwrap_or((field, ""));
    let pointer = format!("/{}", path.replace('.', "/"));
    case.objects.iter().any(|object| object["kind"] == kind && object.pointer(&pointer).is_some())
}

/// Whether an object has the recorded UID of a pod, which is created last.
fn refers_to_a_pod(case: &Case) -> bool {
    let owners = |object: &Value| object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    case.objects.iter().flat_map(owners).any(|owner| owner["kind"] == "Pod")
}

fn selected() -> anyhow::Result<Vec<Case>> {
    let cases = recorded().join("cases");
    let mut selected = Vec::new();
    for (index, name) in Case::names(&cases)?.iter().enumerate() {
        let case = Case::read(&cases, name)?;
        if refers_to_a_pod(&case) {
            continue;
        }
        if index % EVERY == 0 || DROPPED.iter().any(|(field, _)| has(&case, field)) {
            selected.push(case);
        }
    }
    Ok(selected)
}

/// Pending pods of the case's profiles as namespace and name, sorted.
fn pending(case: &Case, objects: &[Value]) -> Vec<(String, String)> {
    let profiles = case.configuration.as_ref().and_then(|configuration| configuration["profiles"].as_array());
    let profiles: Vec<&str> = profiles.into_iter().flatten().filter_map(|one| one["schedulerName"].as_str()).collect();
    let is_served = |scheduler: &str| match &profiles[..] {
        [] => scheduler == "default-scheduler",
        profiles => profiles.contains(&scheduler),
    };
    let is_pending = |object: &&Value| {
        object["kind"] == "Pod"
            && object["spec"]["schedulerName"].as_str().is_some_and(is_served)
            && object["spec"]["nodeName"].is_null()
            && object["metadata"]["deletionTimestamp"].is_null()
            && !matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let key = |object: &Value| (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
    let mut pods: Vec<_> = objects.iter().filter(is_pending).map(key).collect();
    pods.sort();
    pods
}

/// `flotilla explain pod`, in the form of kube-scheduler's code.
fn explain(cluster: &ControlPlane, config: &Path, (namespace, name): &(String, String)) -> anyhow::Result<Value> {
    let mut command = Command::new(binary("flotilla")?);
    command.args(["explain", "pod", name, "-n", namespace, "-o", "json", "--workers=1", "--config"]).arg(config);
    let output = command.arg("--kubeconfig").arg(cluster.kubeconfig()).env_remove("HTTPS_PROXY").output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut answer: Value = serde_json::from_slice(&output.stdout)?;
    if let Some(answer) = answer.as_object_mut() {
        LIVE_FIELDS.iter().for_each(|field| drop(answer.remove(*field)));
    }
    Ok(answer)
}

/// Answers in the order of pods.
fn sorted(outcomes: Outcomes) -> Outcomes {
    let sort = |(name, outcome)| match outcome {
        CaseOutcome::Answers(mut answers) => {
            answers.sort_by_key(|answer: &Value| answer["pod"].to_string());
            (name, CaseOutcome::Answers(answers))
        }
        refused @ CaseOutcome::Refused(_) => (name, refused),
    };
    outcomes.into_iter().map(sort).collect()
}

/// Starts a coordinator, which lists the whole cluster before it decides, until it has decided about the pod.
async fn place(
    fleet: &mut Fleet<'_>,
    cluster: &ControlPlane,
    config: &Path,
    pod: &(String, String),
) -> anyhow::Result<Placed> {
    fleet.start_coordinator("coordinator", Some(config))?;
    let path = format!("/api/v1/namespaces/{}/pods/{}", pod.0, pod.1);
    let placed = wait_until("a decision", PATIENCE, async || {
        let pod = send(cluster, "GET", &path, &Value::Null).await.map_err(|error| format!("{error:#}"))?;
        if let Some(node) = pod["spec"]["nodeName"].as_str() {
            return Ok(Placed::On(node.to_owned()));
        }
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let mut refused = conditions.filter(|condition| condition["type"] == "PodScheduled");
        let message = refused.next().and_then(|condition| condition["message"].as_str());
        message.map(|message| Placed::Refused(message.to_owned())).ok_or_else(|| pod["status"].to_string())
    })
    .await
    .with_context(|| cluster.processes().log_tail("coordinator", 20));
    cluster.processes().kill("coordinator")?;
    placed
}

/// Whether the coordinator decides about the only pending pod without a controller of volumes and within seconds.
fn is_placed(case: &Case, pods: &[(String, String)]) -> bool {
    let waits = |object: &Value| {
        object["kind"] == "PersistentVolumeClaim"
            || object["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty())
            // It may have a condition already.
            || object["status"]["conditions"].is_array() && object["kind"] == "Pod"
    };
    pods.len() == 1 && !case.objects.iter().any(waits)
}

/// Whether the coordinator decided as kube-scheduler may.
fn is_right(placed: &Placed, right: &CaseOutcome) -> bool {
    let CaseOutcome::Answers(answers) = right else { return false };
    let Some(answer) = answers.first() else { return false };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let best: Vec<String> = match text(&answer["nominated"]) {
        nominated if nominated.is_empty() => answer["best"].as_array().into_iter().flatten().map(text).collect(),
        nominated => vec![nominated],
    };
    match placed {
        Placed::On(node) => best.contains(node),
        Placed::Refused(found) => {
            let (error, message) = (text(&answer["error"]), text(&answer["message"]));
            let preempted = format!("{message} {}", text(&answer["preemption"]["message"]));
            let mut nodes = answer["nodes"].as_array().into_iter().flatten();
            // If PreFilter rejects the pod, PostFilter may end before preemption.
            let is_unresolvable = nodes.all(|node| node["code"] == "UnschedulableAndUnresolvable");
            let allowed = [(preempted.trim_end(), true), (&message, is_unresolvable), (&error, !error.is_empty())];
            best.is_empty() && allowed.iter().any(|(allowed, is_possible)| *is_possible && *allowed == *found)
        }
    }
}

/// Differences between the answers, one line each: from kube-scheduler's code, and from the record without a dropped field.
fn problems(case: &ServedCase, right: &CaseOutcome, recorded: &CaseOutcome, number: u32) -> Vec<String> {
    let ServedCase { name, dropped, explained, placed } = case;
    let mut problems: Vec<String> =
        differences(right, explained).iter().map(|difference| format!("{name}: {difference}")).collect();
    if let Some(placed) = placed.as_ref().filter(|placed| !is_right(placed, right)) {
        problems.push(format!("{name}: the coordinator's decision is {placed:?}; kube-scheduler: {right:?}"));
    }
    if dropped.is_empty() {
        let changed = differences(recorded, right).into_iter();
        problems.extend(
            changed.map(|difference| format!("{name}: unlike the record without a dropped field: {difference}")),
        );
    }
    let is_known = |field: &&String| {
        let dropped = DROPPED.iter().any(|(known, by)| *known == **field && by.contains(&number));
        dropped || (NOMINATION_REMOVED_SINCE.0 == **field && number >= NOMINATION_REMOVED_SINCE.1)
    };
    problems
        .extend(dropped.iter().filter(|field| !is_known(field)).map(|field| format!("{name}: {field} was dropped")));
    problems
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes two minutes; cargo xtask versions runs it"]
async fn recorded_clusters_have_kube_schedulers_answers() -> anyhow::Result<()> {
    let number = number()?;
    let cluster = ControlPlane::start(served::options(options()?)).await?;
    let mut fleet = Fleet::new(&cluster).with_args(["--leader-elect=false".to_owned()]);
    fleet.reserve("worker-0")?;
    fleet.start_worker("worker-0")?;
    let default = fleet.config(&profile("default-scheduler"))?;
    let mut served = ServedClusters::new(&cluster);
    let stored = tempfile::tempdir()?;
    let (mut cases, mut rejected) = (Vec::new(), Vec::new());
    for case in selected()? {
        let written = served.write(&case).await.with_context(|| case.name.clone())?;
        if let Some(why) = written.rejected {
            rejected.push(format!("{}: {why:.300}", case.name));
        } else {
            let objects = served.read_back().await?;
            let config = recorded().join("cases").join(format!("{}.config.yaml", case.name));
            let config = if config.exists() { config } else { default.clone() };
            let pods = pending(&case, &objects);
            let answers = pods.iter().map(|pod| explain(&cluster, &config, pod)).collect::<anyhow::Result<Vec<_>>>();
            let explained =
                answers.map_or_else(|error| CaseOutcome::Refused(format!("{error:#}")), CaseOutcome::Answers);
            let placed = match &pods[..] {
                [pod] if is_placed(&case, &pods) => Some(place(&mut fleet, &cluster, &config, pod).await?),
                _ => None,
            };
            cases.push(ServedCase { name: case.name.clone(), dropped: written.dropped, explained, placed });
            Case { objects, ..case }.write(stored.path())?;
        }
        served.clear().await?;
    }
    let right =
        sorted(outcomes(&oracle::ask("decide", &[Path::new("--as-is"), Path::new("--cases"), stored.path()])?)?);
    let record = sorted(outcomes(&fs::read_to_string(recorded().join("answers.jsonl"))?)?);
    let placed = cases.iter().filter(|case| case.placed.is_some()).count();
    let changed = cases.iter().filter(|case| !differences(&record[&case.name], &right[&case.name]).is_empty());
    let changed: Vec<&str> = changed.map(|case| case.name.as_str()).collect();
    println!("{} clusters, {placed} placed, {} rejected: {rejected:#?}", cases.len(), rejected.len());
    println!("{} answers unlike the record, because a field is dropped: {changed:?}", changed.len());
    let wrong: Vec<String> =
        cases.iter().flat_map(|case| problems(case, &right[&case.name], &record[&case.name], number)).collect();
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    let dropped: BTreeSet<&str> = cases.iter().flat_map(|case| &case.dropped).map(String::as_str).collect();
    for (field, by) in DROPPED {
        assert_eq!(dropped.contains(field), by.contains(&number), "{field} is listed as dropped by 1.{by:?}");
    }
    let is_known = |why: &str| REJECTED.iter().any(|(field, by)| by.contains(&number) && why.contains(field));
    assert_eq!(rejected.iter().find(|why| !is_known(why)), None, "the API server rejects this cluster");
    Ok(())
}
