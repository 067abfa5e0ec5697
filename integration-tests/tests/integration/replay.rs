//! Replay of a recorded coordinator: the same decisions, those of another configuration, and an anonymised copy.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};
use flotilla_control_plane::{ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::fleet::{Fleet, PATIENCE, binary, wait_until_refused, wait_until_running};
use k8s_openapi::api::{
    core::v1::{Pod, Secret},
    scheduling::v1::PriorityClass,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, from_value, json};

const WORKERS: usize = 3;
const PODS: usize = 120;
const SECRET: &str = "the-words-of-a-secret";

/// Ten nodes in two zones, two priorities, and a Secret of the pods.
async fn cluster() -> anyhow::Result<ControlPlane> {
    let cluster = ControlPlane::start(Options::default()).await?;
    let classes: Api<PriorityClass> = Api::all(cluster.client());
    for (name, value) in [("low", 10), ("high", 1_000)] {
        classes
            .create(&PostParams::default(), &from_value(json!({ "metadata": { "name": name }, "value": value }))?)
            .await?;
    }
    let node = |index: usize| {
        let zone = ["acme-east", "acme-west"][index % 2];
        NodeBuilder::new(format!("acme-node-{index}")).label("topology.kubernetes.io/zone", zone).capacity("cpu", "8")
    };
    cluster.add_nodes((0..10).map(node)).await?;
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), "default");
    let secret = json!({ "metadata": { "name": "password" }, "stringData": { "password": SECRET } });
    secrets.create(&PostParams::default(), &from_value(secret)?).await?;
    Ok(cluster)
}

/// A pod of one of several applications, some with spread constraints, and environment variables that scheduling ignores.
fn one(index: usize) -> anyhow::Result<Pod> {
    let app = format!("acme-shop-{}", index % 4);
    let mut pod = pod(&format!("acme-{index:03}"), "flotilla", &[("cpu", ["100m", "250m", "500m"][index % 3])]);
    pod.labels_mut().insert("app".to_owned(), app.clone());
    let spec = pod.spec.as_mut().context("a spec")?;
    spec.priority_class_name = Some("low".to_owned());
    let reference =
        json!({ "name": "PASSWORD", "valueFrom": { "secretKeyRef": { "name": "password", "key": "password" } } });
    let plain = json!({ "name": "TOKEN", "value": SECRET });
    spec.containers.iter_mut().try_for_each(|container| {
        container.env = Some(vec![from_value(reference.clone())?, from_value(plain.clone())?]);
        Ok::<_, serde_json::Error>(())
    })?;
    if index.is_multiple_of(4) {
        let constraint = json!({
            "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": { "matchLabels": { "app": app } },
        });
        spec.topology_spread_constraints = Some(vec![from_value(constraint)?]);
    }
    Ok(pod)
}

/// Creates pods, an infeasible and a preempting one, and deletes some, while workers change.
async fn load(cluster: &ControlPlane, fleet: &Fleet<'_>) -> anyhow::Result<()> {
    let pods: Vec<Pod> = (0..PODS).map(one).collect::<anyhow::Result<_>>()?;
    let mut huge = pod("acme-huge", "flotilla", &[("cpu", "100")]);
    huge.spec.get_or_insert_default().priority_class_name = Some("low".to_owned());
    cluster.create_pods(pods.into_iter().chain([huge])).await?;
    wait_until_refused(cluster, "acme-huge").await?;
    wait_until_running(cluster, "acme-0", 100).await?;
    cluster.processes().kill("worker-1")?;
    let api: Api<Pod> = Api::namespaced(cluster.client(), "default");
    for index in 0..20 {
        api.delete(&format!("acme-{index:03}"), &DeleteParams::default().grace_period(0)).await?;
    }
    fleet.start_worker("worker-1")?;
    let fill = |index: usize| {
        let mut pod = pod(&format!("acme-fill-{index}"), "flotilla", &[("cpu", "2")]);
        pod.spec.get_or_insert_default().priority_class_name = Some("low".to_owned());
        pod
    };
    cluster.create_pods((0..30).map(fill)).await?;
    fleet.wait_for_workers("coordinator", WORKERS).await?;
    let mut vip = pod("acme-vip", "flotilla", &[("cpu", "6")]);
    vip.spec.get_or_insert_default().priority_class_name = Some("high".to_owned());
    cluster.create_pods([vip]).await?;
    wait_until_running(cluster, "acme-vip", 1).await?;
    Ok(())
}

fn replay(words: &[&str], files: &[&Path]) -> anyhow::Result<(String, String, Option<i32>)> {
    let output = Command::new(binary("flotilla")?).arg("replay").args(words).args(files).output()?;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).context("UTF-8");
    Ok((text(output.stdout)?, text(output.stderr)?, output.status.code()))
}

fn replayed(words: &[&str], files: &[&Path]) -> anyhow::Result<Value> {
    let (out, told, code) = replay(&[words, &["-o", "json"]].concat(), files)?;
    ensure!(code == Some(0), "{code:?}: {told}{out}");
    serde_json::from_str(&out).context(out)
}

fn recordings(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<_>>()?;
    files.sort();
    Ok(files)
}

/// Text of all files, with invalid UTF-8 replaced.
fn text(files: &[PathBuf]) -> anyhow::Result<String> {
    let all: Vec<Vec<u8>> = files.iter().map(fs::read).collect::<Result<_, _>>()?;
    Ok(String::from_utf8_lossy(&all.concat()).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_coordinator_decides_the_same_when_it_is_replayed() -> anyhow::Result<()> {
    let cluster = cluster().await?;
    let folder = cluster.folder().join("recordings");
    let flag = format!("--record={}", folder.display());
    let fleet = Fleet::new(&cluster).with_args([flag]).up("flotilla", WORKERS).await?;
    load(&cluster, &fleet).await?;
    assert_eq!(fleet.metric("coordinator", "flotilla_recording_turns_dropped_total").await?, Some(0.0));
    assert!(fleet.metric("coordinator", "flotilla_recorded_bytes_total").await?.is_some_and(|bytes| bytes > 10_000.0));
    let bound = fleet.metric("coordinator", "flotilla_bindings_sent_total").await?.context("it is counted")?;

    // The file contains flushed events while the coordinator continues.
    let early = replayed(&[], &[&folder])?;
    assert!(early["exact"].get("difference").is_none(), "{early:#}");
    assert!(early["exact"]["decisions"].as_f64().is_some_and(|decisions| decisions >= bound), "{early:#}");
    assert!(cluster.processes().stop("coordinator", PATIENCE).await?, "it ends when it is asked to");

    let files = recordings(&folder)?;
    let [file] = &files[..] else { panic!("one file: {files:?}") };
    let whole = replayed(&[], &[file])?;
    assert!(whole["exact"].get("difference").is_none(), "{whole:#}");
    assert!(whole["exact"]["events"].as_u64() >= early["exact"]["events"].as_u64(), "{early:#} {whole:#}");
    let (out, _, _) = replay(&[], &[file])?;
    println!("{} bytes\n{out}", fs::metadata(file)?.len());
    assert!(out.contains(" decisions are identical"), "{out}");
    let recorded = text(&files)?;
    assert!(recorded.contains("acme-node-1") && recorded.contains("acme-vip"));
    assert!(!recorded.contains(SECRET) && !recorded.contains("PASSWORD"), "no Secret and no environment");

    other_configuration(&cluster, file)?;
    other_workers(file)?;
    anonymised(&cluster, file, &whole)?;
    damaged(&cluster, file)?;
    Ok(())
}

/// The same configuration agrees on each decision, and another one does not.
fn other_configuration(cluster: &ControlPlane, file: &Path) -> anyhow::Result<()> {
    let config = |strategy: &str| {
        let strategy = json!({ "type": strategy, "resources": [{ "name": "cpu", "weight": 1 }] });
        let fit = json!({ "name": "NodeResourcesFit", "args": { "scoringStrategy": strategy } });
        json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "profiles": [{ "schedulerName": "flotilla", "pluginConfig": [fit] }],
        })
    };
    let plain = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{ "schedulerName": "flotilla" }],
    });
    let mut answers = BTreeMap::new();
    for (name, text) in [("plain", plain), ("packing", config("MostAllocated"))] {
        let path = cluster.folder().join(format!("{name}.yaml"));
        fs::write(&path, text.to_string())?;
        let words = ["--config", path.to_str().context("a path in UTF-8")?];
        println!("{}", replay(&words, &[file])?.0);
        answers.insert(name, replayed(&words, &[file])?);
    }
    let count = |name: &str, outcome: &str| answers[name]["compared"]["outcomes"][outcome].as_u64().unwrap_or(0);
    assert_eq!(answers["plain"]["compared"]["agreementPercent"], 100.0, "{:#}", answers["plain"]);
    assert!(count("plain", "sameNode") >= PODS as u64, "{:#}", answers["plain"]);
    assert!(count("packing", "lowerTotal") > 20, "{:#}", answers["packing"]);
    Ok(())
}

/// Any number of workers places most pods on the same nodes: only the timing of results differs.
fn other_workers(file: &Path) -> anyhow::Result<()> {
    for workers in ["1", "7"] {
        println!("{}", replay(&["--workers", workers], &[file])?.0);
        let answer = replayed(&["--workers", workers], &[file])?;
        let count = |what: &str| answer["placed"][what].as_u64().unwrap_or(0);
        assert!(count("sameNode") > count("otherNode"), "{answer:#}");
        assert!(count("sameNode") + count("otherNode") >= PODS as u64, "{answer:#}");
    }
    Ok(())
}

/// An anonymised copy can be replayed with the same decisions.
fn anonymised(cluster: &ControlPlane, file: &Path, whole: &Value) -> anyhow::Result<()> {
    let copy = cluster.folder().join("copy.flr");
    let words = ["--anonymise", copy.to_str().context("a path in UTF-8")?];
    let answer = replayed(&words, &[file])?;
    assert_eq!(answer["anonymised"]["differing"], 0, "{answer:#}");
    let text = text(std::slice::from_ref(&copy))?;
    assert!(!text.contains("acme"), "a name is left");
    assert!(text.contains("topology.kubernetes.io/zone"));
    let again = replayed(&[], &[&copy])?;
    assert_eq!(again["exact"], whole["exact"], "{again:#}");
    println!("{answer:#}");
    let (_, told, code) = replay(&words, &[file])?;
    assert_eq!(code, Some(1), "nothing is written over: {told}");
    Ok(())
}

/// Damage is reported, and the part before it is replayed.
fn damaged(cluster: &ControlPlane, file: &Path) -> anyhow::Result<()> {
    let bytes = fs::read(file)?;
    let write = |name: &str, bytes: &[u8]| {
        let path = cluster.folder().join(name);
        fs::write(&path, bytes).map(|()| path)
    };
    let middle = bytes.len() / 2;
    let mut corrupt = bytes.clone();
    corrupt[middle] ^= 0xff;
    let mut newer = bytes.clone();
    newer[8] = 77;
    let cases = [
        ("cut.flr", &bytes[..middle], Some(0), "ends within a frame, at byte "),
        ("corrupt.flr", &corrupt, Some(2), "is damaged at byte "),
        ("newer.flr", &newer, Some(2), "has version 77 of the format"),
        ("other.flr", b"apiVersion: v1", Some(2), "is no recording of a Flotilla coordinator"),
        ("empty.flr", &bytes[..10], Some(2), "ends within its first frame"),
    ];
    for (name, bytes, expected, words) in cases {
        let path = write(name, bytes)?;
        let (out, told, code) = replay(&[], &[&path])?;
        assert_eq!(code, expected, "{name}: {told}{out}");
        assert!(told.contains(words), "{name}: {told}");
        let replays = matches!(name, "cut.flr" | "corrupt.flr");
        assert_eq!(out.contains(" decisions are identical"), replays, "{name}: {out}");
    }
    let (_, told, code) = replay(&[], &[&cluster.folder().join("nowhere.flr")])?;
    assert!(code == Some(2) && told.starts_with("cannot read "), "{told}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_that_rotated_is_judged_from_where_it_begins() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default()).await?;
    cluster.add_nodes((0..4).map(|index| NodeBuilder::new(format!("node-{index}")).capacity("cpu", "64"))).await?;
    let folder = cluster.folder().join("recordings");
    let flags = [format!("--record={}", folder.display()), "--record-max-bytes=16777216".to_owned()];
    let _fleet = Fleet::new(&cluster).with_args(flags).up("flotilla", 1).await?;
    let api: Api<Pod> = Api::namespaced(cluster.client(), "default");
    // Long labels in each event of a pod fill file parts with a few hundred events.
    let padding = "x".repeat(63);
    let mut round = 0;
    wait_until("the first part to be gone", PATIENCE * 3, async || {
        let pod = |index: usize| {
            let mut pod = pod(&format!("pod-{round}-{index}"), "flotilla", &[("cpu", "10m")]);
            pod.labels_mut().extend((0..200).map(|label| (format!("padding-{label}"), padding.clone())));
            pod
        };
        cluster.create_pods((0..60).map(pod)).await.map_err(|error| format!("{error:#}"))?;
        wait_until_running(&cluster, &format!("pod-{round}-"), 60).await.map_err(|error| format!("{error:#}"))?;
        let all = DeleteParams::default().grace_period(0);
        api.delete_collection(&all, &ListParams::default()).await.map_err(|error| error.to_string())?;
        round += 1;
        let files = recordings(&folder).map_err(|error| format!("{error:#}"))?;
        let bytes: u64 = files.iter().filter_map(|file| fs::metadata(file).ok()).map(|file| file.len()).sum();
        if bytes > 16 << 20 {
            return Err(format!("{bytes} bytes are more than there may be"));
        }
        let has_first = files.iter().any(|file| file.to_string_lossy().ends_with("-00000.flr"));
        if has_first { Err(format!("{} files, {bytes} bytes after {round} rounds", files.len())) } else { Ok(()) }
    })
    .await?;
    assert!(cluster.processes().stop("coordinator", PATIENCE).await?, "it ends when it is asked to");
    let answer = replayed(&[], &[&folder])?;
    let compared = &answer["compared"];
    assert!(answer.get("exact").is_none(), "{answer:#}");
    assert!(compared["compared"].as_u64().is_some_and(|count| count > 60), "{answer:#}");
    assert_eq!(compared["outcomes"]["sameNode"], compared["compared"], "{answer:#}");
    Ok(())
}
