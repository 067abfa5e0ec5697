//! Memory of a coordinator per cluster size: its watches and its machine, with an API server that is a function. Objects are as large as
//! those of real clusters.
//!
//! `cargo run --release --example watch_memory -- NODES PODS [unique]`; with `unique`, each pod has a label that no other pod has.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use flotilla_configuration::Configuration;
use flotilla_coordinator::{
    lease::Leadership,
    status::Reporter,
    watch::{Needs, Watches},
};
use flotilla_encoding::testing::busy;
use flotilla_framework::{ingest::Features, registry::Registry};
use flotilla_machine::{event::Event, machine::Machine};
use flotilla_runtime::driver;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::client::Body;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Time limit for the machine to apply all events.
const PATIENCE: Duration = Duration::from_secs(900);

/// How many objects there are.
#[derive(Debug, Clone, Copy)]
struct Cluster {
    nodes: usize,
    pods: usize,
    /// Whether each pod has a label that no other pod has, as in a StatefulSet.
    is_unique: bool,
}

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let mut number = |what: &str| {
        let word = words.next().with_context(|| format!("give the number of {what}"))?;
        word.parse().with_context(|| format!("{word:?} is not a number of {what}"))
    };
    let (nodes, pods) = (number("nodes")?, number("pods")?);
    let is_unique = match words.next().as_deref() {
        None => false,
        Some("unique") => true,
        Some(other) => bail!("{other:?} is unknown; expected unique or nothing"),
    };
    let cluster = Cluster { nodes, pods, is_unique };
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(measure(cluster))
}

async fn measure(cluster: Cluster) -> Result<()> {
    let client = client(cluster);
    let (lead, leading) = watch::channel(Leadership::UNKNOWN);
    let reporter = Reporter::new(&client, &client, "host", &leading);
    let registry = Registry::built_in();
    let (handle, _thread) = driver::spawn(Machine::new(0, registry), drop);
    let profiles = Configuration::default().profiles;
    let configuration = flotilla_machine::event::Configuration::new(1, profiles.clone());
    handle.send_event(Event::Configured(Arc::new(configuration))).await?;
    let begin = CancellationToken::new();
    let needs = Needs { registry, profiles: &profiles, with_groups: false, features: Features::default() };
    let (before, begun) = (memory("VmRSS")?, std::time::Instant::now());
    begin.cancel();
    let mut watches = Watches::start(client, handle.clone(), reporter, needs, begin, CancellationToken::new());
    watches.wait_synced().await;
    let known = async {
        while handle.waiting() > 0 || handle.status().nodes < cluster.nodes as u64 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, known).await.context("the machine did not get to the end of what it was told")?;
    println!("a pod is {} bytes of JSON, a node {}", made(&POD, 1, cluster).len(), made(&NODE, 1, cluster).len());
    println!("{cluster:?} in {:?}", begun.elapsed());
    println!("resident before {before} KiB, after {} KiB, at most {} KiB", memory("VmRSS")?, memory("VmHWM")?);
    drop(lead);
    Ok(())
}

/// A field of `/proc/self/status`, in KiB.
fn memory(line: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    let line = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':')).context("no such line")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// An API server that makes up each page of nodes and pods when it is asked for it, and has no other objects.
fn client(cluster: Cluster) -> kube::Client {
    let service = tower::service_fn(move |request: Request<Body>| async move {
        let query = request.uri().query().unwrap_or_default();
        let silence = futures::stream::pending::<Result<hyper::body::Frame<bytes::Bytes>, std::io::Error>>();
        if query.contains("sendInitialEvents=true") {
            let refusal = Full::from("lists are in pages here").map_err(|never| match never {}).boxed_unsync();
            return Ok(Response::builder().status(422).body(refusal).unwrap_or_default());
        }
        let body = match query.contains("watch=true") {
            true => StreamBody::new(silence).boxed_unsync(),
            false => {
                let text = page(request.uri().path(), query, cluster);
                Full::from(text).map_err(|never| match never {}).boxed_unsync()
            }
        };
        Ok::<_, std::io::Error>(Response::new(body))
    });
    kube::Client::new(service, "default")
}

fn page(path: &str, query: &str, cluster: Cluster) -> String {
    let number = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.parse::<usize>().ok());
    let (from, limit) = (number("continue=").unwrap_or(0), number("limit=").unwrap_or(1_000));
    let (count, pattern): (usize, &str) = match path {
        "/api/v1/nodes" => (cluster.nodes, &NODE),
        "/api/v1/pods" => (cluster.pods, if cluster.is_unique { &UNIQUE_POD } else { &POD }),
        _ => (0, ""),
    };
    let end = count.min(from + limit);
    let items: Vec<String> = (from..end).map(|index| made(pattern, index, cluster)).collect();
    let more = if end < count { end.to_string() } else { String::new() };
    let metadata = json!({ "resourceVersion": "1000000", "continue": more });
    format!("{{\"metadata\":{metadata},\"items\":[{}]}}", items.join(","))
}

static NODE: LazyLock<String> = LazyLock::new(|| busy::node().to_string());
static POD: LazyLock<String> = LazyLock::new(|| busy::pod().to_string());
static UNIQUE_POD: LazyLock<String> = LazyLock::new(|| {
    let mut pod = busy::pod();
    pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] = "@number@".into();
    pod.to_string()
});

/// One of 150,000: of 3,000 deployments and 200 teams, three zones and 20 pools.
fn made(pattern: &str, index: usize, cluster: Cluster) -> String {
    let words = [
        ("@app@", format!("application-{}", index % 3_000)),
        ("@team@", format!("team-{}", index % 200)),
        ("@node@", format!("node-{:05}.cluster.example", index % cluster.nodes.max(1))),
        ("@zone@", format!("zone-{}", index % 3)),
        ("@pool@", format!("pool-{}", index % 20)),
        ("@index@", format!("{index:05x}")),
        ("@number@", format!("{index:012x}")),
        ("@version@", (1_000 + index).to_string()),
    ];
    words.iter().fold(pattern.to_owned(), |text, (word, value)| text.replace(word, value))
}
