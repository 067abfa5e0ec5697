//! The API server returns equal objects in protobuf and JSON, for all fields that scheduling reads, recorded clusters, and upstream's
//! samples. `FLOTILLA_RECORD=1` writes one object of each kind to `coordinator/encoding/tests/recorded` in both encodings.

use std::{collections::BTreeMap, env, fs, path::PathBuf, process::Command};

use anyhow::{Context as _, bail, ensure};
use flotilla_control_plane::{Component, ControlPlane, Options};
use flotilla_encoding::{
    Encoding, Frames, Page,
    testing::{KINDS, facts, facts_of_frame, facts_of_item},
};
use flotilla_placements::Case;
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde_json::{Value, json};

mod objects;

use objects::{busy, objects};

const JSON: &str = "application/json";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// An API server with pod groups.
async fn cluster() -> anyhow::Result<ControlPlane> {
    let options = Options { controller_manager: false, kwok: false, ..Options::default() };
    let options = options
        .with_arg(
            Component::ApiServer,
            "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true,PodGroupPreemptionPolicy=true,\
             CompositePodGroup=true,DRAWorkloadResourceClaims=true",
        )
        .with_arg(
            Component::ApiServer,
            "--runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true",
        );
    ControlPlane::start(options).await
}

async fn send(client: &Client, method: &str, path: &str, accept: &str, body: Option<&Value>) -> anyhow::Result<Body> {
    let content_type = if method == "PATCH" { "application/merge-patch+json" } else { JSON };
    let request = http::Request::builder().method(method).uri(path).header("accept", accept);
    let request = request.header("content-type", content_type);
    let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    let (head, body) = client.send(request.body(Body::from(body))?).await?.into_parts();
    if !head.status.is_success() {
        let body = body.collect().await?.to_bytes();
        bail!("{method} {path}: {}: {}", head.status, String::from_utf8_lossy(&body));
    }
    let answered = head.headers.get("content-type").and_then(|value| value.to_str().ok());
    ensure!(Encoding::of(answered) == Encoding::of(Some(accept)), "{path}: {answered:?} for {accept}");
    Ok(body)
}

async fn get(client: &Client, path: &str, accept: &str) -> anyhow::Result<bytes::Bytes> {
    Ok(send(client, "GET", path, accept, None).await?.collect().await?.to_bytes())
}

fn collection(object: &Value) -> anyhow::Result<(&'static str, String)> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let (kind, path) = KINDS.into_iter().find(|(known, _)| *known == kind).context("a kind that is watched")?;
    let (group, plural) = path.rsplit_once('/').context("a path")?;
    Ok(match object["metadata"]["namespace"].as_str() {
        Some(namespace) => (kind, format!("{group}/namespaces/{namespace}/{plural}")),
        None => (kind, path.to_owned()),
    })
}

async fn create(client: &Client, object: &Value) -> anyhow::Result<()> {
    let (_, path) = collection(object)?;
    let made = send(client, "POST", &path, JSON, Some(object)).await?.collect().await?.to_bytes();
    let made: Value = serde_json::from_slice(&made)?;
    if object["status"].is_object() && object["kind"] != "Node" {
        let path = format!("{path}/{}/status", made["metadata"]["name"].as_str().context("a name")?);
        send(client, "PATCH", &path, JSON, Some(&json!({ "status": object["status"] }))).await?;
    }
    Ok(())
}

/// Reads one page in both encodings. Reads both again if their versions differ: the API server wrote something between
/// the two reads, for example a lease.
async fn pages_of_one_version(client: &Client, path: &str) -> anyhow::Result<(Page, Page)> {
    for _ in 0..20 {
        let json = Page::decode(Encoding::Json, get(client, path, JSON).await?)?;
        let protobuf = Page::decode(Encoding::Protobuf, get(client, path, Encoding::PROTOBUF).await?)?;
        if json.version == protobuf.version {
            return Ok((json, protobuf));
        }
    }
    anyhow::bail!("{path}: the two encodings had different versions 20 times")
}

/// Compares all paginated lists in both encodings. Returns the number of objects by kind.
async fn compare_lists(client: &Client) -> anyhow::Result<BTreeMap<&'static str, usize>> {
    let mut counts = BTreeMap::new();
    for (kind, path) in KINDS {
        let mut more = String::new();
        loop {
            let (json, protobuf) = pages_of_one_version(client, &format!("{path}?limit=500&continue={more}")).await?;
            assert_eq!(json.items.len(), protobuf.items.len(), "{kind}");
            for (json, protobuf) in json.items.iter().zip(&protobuf.items) {
                let (json, protobuf) = (facts_of_item(kind, json), facts_of_item(kind, protobuf));
                assert_eq!(json, protobuf, "{kind}");
                assert!(json.is_ok(), "{json:?}");
            }
            *counts.entry(kind).or_default() += json.items.len();
            assert_eq!(json.more.is_some(), protobuf.more.is_some(), "{kind}");
            match protobuf.more {
                Some(next) => more = next,
                None => break,
            }
        }
    }
    Ok(counts)
}

async fn watched(client: &Client, kind: &str, path: &str, accept: &str, count: usize) -> anyhow::Result<Vec<String>> {
    let mut body = send(client, "GET", path, accept, None).await?;
    let encoding = Encoding::of(Some(accept));
    let (mut frames, mut told) = (Frames::new(encoding), Vec::new());
    loop {
        while let Some(frame) = frames.cut()? {
            told.push(facts_of_frame(kind, encoding, frame).map_err(anyhow::Error::msg)?);
        }
        if told.len() >= count {
            break;
        }
        let data = body.frame().await.with_context(|| format!("{path} ended after {told:?}"))??.into_data();
        frames.receive(&data.unwrap_or_default());
    }
    told.truncate(count);
    Ok(told)
}

async fn compare_watches(client: &Client, path: &str, kind: &str, count: usize) -> anyhow::Result<Vec<String>> {
    let json = watched(client, kind, path, JSON, count).await?;
    let protobuf = watched(client, kind, path, Encoding::PROTOBUF, count).await?;
    assert_eq!(json, protobuf, "{path}");
    Ok(json)
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_with_all_that_is_read_are_listed_and_watched_alike() -> anyhow::Result<()> {
    let cluster = cluster().await?;
    let client = cluster.client();
    for object in objects() {
        create(&client, &object).await.with_context(|| object.to_string())?;
    }
    compare_lists(&client).await?;
    for object in objects() {
        let (kind, path) = collection(&object)?;
        let named = format!("{path}/{}", object["metadata"]["name"].as_str().context("a name")?);
        let list = Page::decode(Encoding::Protobuf, get(&client, &path, Encoding::PROTOBUF).await?)?;
        let count = list.items.len();
        // Initial objects, their bookmark, a change and a deletion.
        let begin = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let begun = compare_watches(&client, &format!("{path}?{begin}&timeoutSeconds=60"), kind, count + 1).await?;
        assert!(begun.last().is_some_and(|mark| mark.contains("ends_list: true")), "{begun:?}");
        let record = env::var("FLOTILLA_RECORD").is_ok_and(|value| value == "1");
        for (ending, accept) in [("json", JSON), ("pb", Encoding::PROTOBUF)] {
            let answer = get(&client, &named, accept).await?;
            if record {
                fs::write(root().join(format!("coordinator/encoding/tests/recorded/{kind}.{ending}")), &answer)?;
            }
        }
        let change = json!({ "metadata": { "labels": { "changed": "yes" } } });
        send(&client, "PATCH", &named, JSON, Some(&change)).await?;
        send(&client, "DELETE", &format!("{named}?gracePeriodSeconds=0"), JSON, Some(&json!({}))).await?;
        let version = list.version.context("a version")?;
        let path = format!("{path}?watch=true&resourceVersion={version}&timeoutSeconds=60");
        let changes = compare_watches(&client, &path, kind, 2).await?;
        assert!(changes[0].contains(object["metadata"]["name"].as_str().context("a name")?), "{changes:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_measured_is_recorded_as_an_api_server_writes_it() -> anyhow::Result<()> {
    let cluster = cluster().await?;
    let client = cluster.client();
    for object in busy() {
        create(&client, &object).await.with_context(|| object.to_string())?;
        let (kind, path) = collection(&object)?;
        let named = format!("{path}/{}", object["metadata"]["name"].as_str().context("a name")?);
        let mut told = Vec::new();
        for (ending, accept) in [("json", JSON), ("pb", Encoding::PROTOBUF)] {
            let answer = get(&client, &named, accept).await?;
            told.push(facts(kind, Encoding::of(Some(accept)), &answer));
            if env::var("FLOTILLA_RECORD").is_ok_and(|value| value == "1") {
                let file = format!("coordinator/encoding/benches/recorded/{}.{ending}", kind.to_lowercase());
                fs::write(root().join(file), &answer)?;
            }
        }
        assert!(told[0].is_ok() && told[0] == told[1], "{told:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_objects_of_all_recorded_clusters_are_the_same() -> anyhow::Result<()> {
    let cluster = cluster().await?;
    let client = cluster.client();
    let folder = root().join("cli/tests/placements/cases");
    let (mut made, mut refused) = (0, Vec::new());
    for (number, name) in Case::names(&folder)?.iter().enumerate() {
        let mut objects = Case::read(&folder, name)?.objects;
        objects.sort_by_key(|object| object["kind"] != "Namespace");
        for mut object in objects {
            let Ok((kind, _)) = collection(&object) else { continue };
            let is_namespaced = matches!(
                kind,
                "Pod" | "Service" | "PodDisruptionBudget" | "PersistentVolumeClaim" | "CSIStorageCapacity" | "PodGroup"
            );
            let metadata = object["metadata"].as_object_mut().context("metadata")?;
            if kind != "Namespace" {
                // Cases share node names, so each case gets different ones.
                let own = metadata["name"].as_str().map(|name| format!("{name}-{number}")).context("a name")?;
                metadata.insert("name".to_owned(), json!(own));
            }
            metadata.remove("uid");
            metadata.remove("resourceVersion");
            if is_namespaced {
                metadata.entry("namespace").or_insert_with(|| json!("default"));
            }
            match create(&client, &object).await {
                Ok(()) => made += 1,
                Err(_) if kind == "Namespace" => {}
                Err(error) => refused.push(format!("{name}: {error:#}")),
            }
        }
    }
    let counts = compare_lists(&client).await?;
    println!("{made} objects, {} refused, {counts:?}", refused.len());
    // Most refused objects are pods with unknown priority classes, and volumes that are only valid in files.
    assert!(refused.len() * 5 < made, "{made} made, {} refused:\n{}", refused.len(), refused.join("\n"));
    Ok(())
}

fn module(name: &str) -> anyhow::Result<PathBuf> {
    let output = Command::new("go").args(["mod", "download", "-json", name]).output().context("cannot start go")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout)?;
    Ok(PathBuf::from(told["Dir"].as_str().context("the module has no folder")?))
}

#[test]
fn upstreams_samples_with_every_field_of_the_api_are_the_same() -> anyhow::Result<()> {
    let samples = module("k8s.io/api@v0.37.2")?.join("testdata");
    for release in ["HEAD", "v1.36.0", "v1.35.0", "v1.34.0"] {
        let mut compared = 0;
        for (kind, path) in KINDS {
            let group = match path.split('/').collect::<Vec<_>>()[..] {
                [_, "api", version, _] => format!("core.{version}"),
                [_, "apis", group, version, _] => format!("{group}.{version}"),
                _ => bail!("{path} is no path"),
            };
            let read = |ending: &str| fs::read(samples.join(release).join(format!("{group}.{kind}.{ending}")));
            let (Ok(json), Ok(protobuf)) = (read("json"), read("pb")) else { continue };
            assert_eq!(
                facts(kind, Encoding::Json, &json),
                facts(kind, Encoding::Protobuf, &protobuf),
                "{release}: {kind}"
            );
            compared += 1;
        }
        assert!(compared >= 15, "{release} has {compared} of {} kinds", KINDS.len());
    }
    Ok(())
}
