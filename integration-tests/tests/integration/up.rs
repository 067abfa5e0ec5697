//! `flotilla up` and `flotilla down` as in docs/getting-started/try-locally.md, and the commands that they print.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use anyhow::{Context as _, ensure};
use flotilla_control_plane::wait_until;
use flotilla_integration_tests::{
    fleet::{PATIENCE, binary},
    person::{Person, folder, processes_in, signal, worker_in},
};
use serde_json::Value;

fn run(person: &Person, arguments: &[&str]) -> anyhow::Result<Output> {
    Ok(person.flotilla(arguments)?.output()?)
}

/// Starts a cluster in the foreground, and returns its standard output until it is ready.
fn start(person: &Person, arguments: &[&str]) -> anyhow::Result<(Child, String)> {
    let mut command = person.flotilla(&[&["up"], arguments].concat())?;
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut printed = String::new();
    for line in BufReader::new(child.stdout.take().context("a pipe")?).lines() {
        printed += &(line? + "\n");
        if printed.contains("End it with") {
            return Ok((child, printed));
        }
    }
    let (code, words) = end(child)?;
    anyhow::bail!("it has ended ({code:?}): {words}")
}

/// Exit code and standard error at the end.
fn end(mut child: Child) -> anyhow::Result<(Option<i32>, String)> {
    let mut words = String::new();
    child.stderr.take().context("a pipe")?.read_to_string(&mut words)?;
    Ok((child.wait()?.code(), words))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn lines(printed: &str, words: &[&str]) -> String {
    let wanted = printed.lines().filter(|line| words.iter().any(|word| line.trim_start().starts_with(word)));
    wanted.map(|line| format!("{line}\n")).collect()
}

/// Runs printed commands in a shell with the cluster's environment.
fn paste(printed: &str, commands: &str) -> anyhow::Result<String> {
    let script = lines(printed, &["export "]) + commands;
    let output = Command::new("sh").args(["-e", "-c", &script]).output()?;
    ensure!(output.status.success(), "{script}\n{}", stderr(&output));
    Ok(String::from_utf8(output.stdout)?)
}

fn assert_nothing_is_left(person: &Person, folder: &Path) -> anyhow::Result<()> {
    assert_eq!(processes_in(folder)?, Vec::new());
    assert!(!folder.exists(), "{} is still there", folder.display());
    assert!(!person.state().exists(), "{} is still there", person.state().display());
    Ok(())
}

#[test]
fn a_cluster_in_the_background_does_what_it_prints_until_it_is_taken_down() -> anyhow::Result<()> {
    let person = Person::new()?;
    let up = run(&person, &["up", "--detach", "--nodes", "3", "--workers", "2"])?;
    ensure!(up.status.success(), "{}", stderr(&up));
    for step in ["etcd", "kube-apiserver", "kwok", "3 nodes", "2 workers", "coordinator"] {
        assert!(stderr(&up).contains(&format!("\u{2713} {step} ")), "{step}: {}", stderr(&up));
    }
    let printed = String::from_utf8(up.stdout)?;
    let folder = folder(&printed)?;
    assert_eq!(processes_in(&folder)?.len(), 7, "four of Kubernetes and three of ours: {:?}", processes_in(&folder)?);

    let answers = paste(&printed, &lines(&printed, &["kubectl "]))?;
    assert!(answers.contains("deployment.apps/hello created"), "{answers}");
    let json = |what: &str| -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&paste(&printed, &format!("kubectl get {what} -o json"))?)?)
    };
    let (nodes, pods) = (json("nodes")?, json("pods")?);
    let zones: BTreeSet<_> = nodes["items"].as_array().context("a list")?.iter().map(zone_of).collect();
    assert_eq!(zones.len(), 3, "{zones:?}");
    let pods = pods["items"].as_array().context("a list")?;
    assert_eq!(pods.len(), 10);
    for pod in pods {
        assert_eq!(pod["status"]["phase"], "Running");
        assert!(pod["spec"]["nodeName"].as_str().is_some_and(|node| node.starts_with("node-")), "{pod}");
    }
    let events = json("events --field-selector reason=Scheduled")?;
    let events = events["items"].as_array().context("a list")?;
    assert_eq!(events.len(), 10);
    assert!(events.iter().all(|event| event["reportingComponent"] == "flotilla"), "{events:?}");

    let second = run(&person, &["up", "--nodes", "1"])?;
    assert_eq!(second.status.code(), Some(1));
    let words = stderr(&second);
    let kubeconfig = format!("export KUBECONFIG={}", folder.join("kubeconfig").display());
    assert!(words.contains(&kubeconfig) && words.contains("flotilla down`"), "{words}");

    let down = run(&person, &["down"])?;
    assert!(down.status.success(), "{}", stderr(&down));
    assert_nothing_is_left(&person, &folder)?;
    let again = run(&person, &["down"])?;
    assert_eq!((again.status.code(), &*stderr(&again)), (Some(0), "No cluster is up.\n"));
    Ok(())
}

fn zone_of(node: &Value) -> Option<&str> {
    node["metadata"]["labels"]["topology.kubernetes.io/zone"].as_str()
}

const GANG: &str = "
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: training}
spec:
  schedulingPolicy: {gang: {minCount: 1}}
  schedulingConstraints: {topology: [{key: topology.kubernetes.io/zone}]}
---
apiVersion: v1
kind: Pod
metadata: {name: training-0}
spec:
  schedulingGroup: {podGroupName: training}
  containers: [{name: worker, image: registry.k8s.io/pause:3.10}]
";

#[test]
fn a_cluster_in_the_foreground_serves_pods_without_a_scheduler_name_and_ends_with_an_interrupt() -> anyhow::Result<()> {
    let person = Person::new()?;
    let gates = "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true";
    let (child, printed) = start(&person, &["--nodes=1", "--workers=1", "--scheduler-name=default-scheduler", gates])?;
    let folder = folder(&printed)?;
    fs::write(folder.join("gang.yaml"), GANG)?;
    let gang = folder.join("gang.yaml").display().to_string();
    let commands = format!(
        "kubectl create deployment plain --image=registry.k8s.io/pause:3.10
        kubectl rollout status deployment/plain --timeout=60s
        kubectl apply -f {gang}
        kubectl wait podgroup/training --for=condition=PodGroupInitiallyScheduled --timeout=60s"
    );
    paste(&printed, &commands)?;
    signal("INT", child.id())?;
    let (code, words) = end(child)?;
    assert_eq!(code, Some(0), "{words}");
    assert!(words.contains("\u{2713} ended "), "{words}");
    assert_nothing_is_left(&person, &folder)
}

#[test]
fn a_cluster_in_the_foreground_is_taken_down_from_another_terminal() -> anyhow::Result<()> {
    let person = Person::new()?;
    let (child, printed) = start(&person, &["--nodes=1", "--workers=1"])?;
    let down = run(&person, &["down"])?;
    assert!(down.status.success(), "{}", stderr(&down));
    assert_eq!(end(child)?.0, Some(0));
    assert_nothing_is_left(&person, &folder(&printed)?)
}

#[tokio::test]
async fn with_devices_the_pods_of_the_printed_manifest_get_what_they_claim() -> anyhow::Result<()> {
    let person = Person::new()?;
    let (child, printed) = start(&person, &["--nodes=3", "--workers=1", "--devices"])?;
    let folder = folder(&printed)?;
    let published = paste(&printed, &lines(&printed, &["kubectl get deviceclasses,resourceslices"]))?;
    assert!(published.contains("node-1-gpu.example.com") && published.contains("large.gpu.example.com"), "{published}");
    let manifest = folder.join("devices.yaml").display().to_string();
    paste(&printed, &lines(&printed, &[&format!("kubectl apply -f {manifest}")]))?;
    wait_until("the pods with devices to run", PATIENCE, async || {
        let told = paste(&printed, "kubectl get pods -l example=devices --no-headers");
        let told = told.map_err(|error| format!("{error:#}"))?;
        let run = told.lines().filter(|line| line.contains("Running")).count();
        if run == told.lines().count() && run > 4 { Ok(()) } else { Err(told) }
    })
    .await?;
    let claims = paste(&printed, "kubectl get resourceclaims --no-headers")?;
    assert!(claims.lines().all(|line| line.contains("allocated,reserved")), "{claims}");
    signal("INT", child.id())?;
    let (code, words) = end(child)?;
    assert_eq!(code, Some(0), "{words}");
    assert_nothing_is_left(&person, &folder)
}

#[tokio::test]
async fn with_jaeger_the_trace_of_a_pod_is_shown_by_what_is_printed() -> anyhow::Result<()> {
    let person = Person::new()?;
    let (child, printed) = start(&person, &["--nodes=2", "--tracing"])?;
    let folder = folder(&printed)?;
    let hello =
        "kubectl run hello --image=registry.k8s.io/pause:3.10 --overrides='{\"spec\":{\"schedulerName\":\"flotilla\"}}'
        kubectl wait --for=condition=PodScheduled pod/hello --timeout=60s";
    paste(&printed, hello)?;
    let program = binary("flotilla")?.display().to_string();
    let trace = lines(&printed, &[&format!("{program} trace ")]).replace("NAME", "hello");
    let parts = ["schedule pod", "evaluate shard", "bind request", "apiserver"];
    wait_until("the trace", PATIENCE, async || {
        let told = paste(&printed, &trace).map_err(|error| format!("{error:#}"))?;
        if parts.iter().all(|part| told.contains(part)) { Ok(()) } else { Err(told) }
    })
    .await?;
    signal("INT", child.id())?;
    let (code, words) = end(child)?;
    assert_eq!(code, Some(0), "{words}");
    assert_nothing_is_left(&person, &folder)
}

#[test]
fn when_a_part_ends_by_itself_it_is_named_and_the_rest_is_taken_down() -> anyhow::Result<()> {
    let person = Person::new()?;
    let (child, printed) = start(&person, &["--nodes=1", "--workers=1"])?;
    let folder = folder(&printed)?;
    signal("KILL", worker_in(&folder)?)?;
    let (code, words) = end(child)?;
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("flotilla: worker-0 has ended unexpectedly (signal: 9 (SIGKILL))"), "{words}");
    assert!(words.contains("listening, with TLS"), "its last lines: {words}");
    assert_nothing_is_left(&person, &folder)
}

#[tokio::test]
async fn when_the_supervisor_is_killed_all_ends_with_it_and_down_cleans_up() -> anyhow::Result<()> {
    let person = Person::new()?;
    let up = run(&person, &["up", "--detach", "--nodes=1", "--workers=1"])?;
    ensure!(up.status.success(), "{}", stderr(&up));
    let folder = folder(&String::from_utf8(up.stdout)?)?;
    let state: Value = serde_json::from_slice(&fs::read(person.state().join("up.json"))?)?;
    let pid = state["supervisor"]["pid"].as_u64().context("a number")?;
    signal("KILL", u32::try_from(pid)?)?;
    wait_until("its processes to end", PATIENCE, async || match processes_in(&folder) {
        Ok(left) if left.is_empty() => Ok(()),
        left => Err(format!("{left:?}")),
    })
    .await?;
    let down = run(&person, &["down"])?;
    assert!(down.status.success(), "{}", stderr(&down));
    let words = format!("The cluster of process {pid} went with that process, which was killed; its files in");
    assert!(stderr(&down).starts_with(&words), "{}", stderr(&down));
    assert_nothing_is_left(&person, &folder)
}

#[test]
fn without_a_network_the_first_run_says_where_the_modules_come_from() -> anyhow::Result<()> {
    let person = Person::new()?;
    let cache = person.home().join("cache");
    let mut command = person.flotilla(&["up", "--detach", "--cache-dir"])?;
    command.arg(&cache).env("GOPROXY", "off").env("GOMODCACHE", person.home().join("modules"));
    let up = command.output()?;
    assert_eq!(up.status.code(), Some(1));
    let words = stderr(&up);
    assert!(words.contains("cannot be downloaded") && words.contains("GOPROXY (off)"), "{words}");
    assert!(!person.state().join("up.log").exists(), "who waited was told");
    Ok(())
}
