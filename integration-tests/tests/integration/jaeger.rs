//! Traces of attempts by real processes in a real Jaeger, read by its API and by `flotilla trace`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use anyhow::{Context as _, ensure};
use flotilla_control_plane::{ControlPlane, Jaeger, Lines, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::fleet::{Fleet, PATIENCE, binary, wait_until_refused, wait_until_running};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

/// Jaeger rounds each start and duration separately to whole microseconds.
const ROUNDING_US: u64 = 1;
const API_SERVER: &str = "apiserver";

#[derive(Debug, Clone, PartialEq)]
struct Span {
    service: String,
    instance: String,
    id: String,
    parent: Option<String>,
    name: String,
    from_us: u64,
    until_us: u64,
    attributes: BTreeMap<String, Value>,
}

#[derive(Debug, Clone, PartialEq)]
struct Trace {
    id: String,
    spans: Vec<Span>,
}

impl Trace {
    fn read(told: &Value) -> anyhow::Result<Self> {
        let id = text(&told["traceID"])?;
        let attributes = |tags: &Value| -> BTreeMap<String, Value> {
            let tags = tags.as_array().into_iter().flatten();
            tags.filter_map(|tag| Some((tag["key"].as_str()?.to_owned(), tag["value"].clone()))).collect()
        };
        let span = |span: &Value| -> anyhow::Result<Span> {
            let process = &told["processes"][&text(&span["processID"])?];
            let of_process = attributes(&process["tags"]);
            let instance = of_process.get("service.instance.id").and_then(Value::as_str).unwrap_or_default();
            let references = span["references"].as_array().into_iter().flatten();
            let parent =
                references.filter(|reference| reference["refType"] == "CHILD_OF").find(|of| of["traceID"] == id);
            let from_us = span["startTime"].as_u64().context("a beginning")?;
            Ok(Span {
                service: text(&process["serviceName"])?,
                instance: instance.to_owned(),
                id: text(&span["spanID"])?,
                parent: parent.map(|parent| text(&parent["spanID"])).transpose()?,
                name: text(&span["operationName"])?,
                from_us,
                until_us: from_us + span["duration"].as_u64().context("a duration")?,
                attributes: attributes(&span["tags"]),
            })
        };
        let spans = told["spans"].as_array().into_iter().flatten().map(span).collect::<anyhow::Result<_>>()?;
        Ok(Self { id, spans })
    }

    fn named(&self, name: &str) -> Vec<&Span> {
        self.spans.iter().filter(|span| span.name == name).collect()
    }

    fn one(&self, name: &str) -> &Span {
        match self.named(name)[..] {
            [span] => span,
            ref others => panic!("{} spans {name:?} in {self:#?}", others.len()),
        }
    }

    /// Whether all parts have arrived, which four processes send independently.
    fn is_whole(&self) -> bool {
        let has_served = self.spans.iter().any(|span| span.service == API_SERVER);
        self.named("evaluate shard").len() == 2 && self.named("schedule pod").len() == 1 && has_served
    }

    /// Checks that each span is within its parent, and that there is one root.
    fn assert_nested(&self) {
        let by_id: BTreeMap<&str, &Span> = self.spans.iter().map(|span| (&*span.id, span)).collect();
        let parent = |span: &Span| by_id.get(span.parent.as_deref()?).copied();
        let outermost: Vec<&Span> = self.spans.iter().filter(|span| parent(span).is_none()).collect();
        assert_eq!(outermost, [self.one("schedule pod")], "{self:#?}");
        for span in &self.spans {
            let Some(parent) = parent(span) else { continue };
            let is_within = parent.from_us <= span.from_us && span.until_us <= parent.until_us + ROUNDING_US;
            assert!(is_within, "{span:#?} is not within {parent:#?}");
        }
    }
}

fn text(value: &Value) -> anyhow::Result<String> {
    Ok(value.as_str().with_context(|| format!("{value} is no text"))?.to_owned())
}

/// Query for a trace by ID; a missing trace yields an empty result.
fn named(trace: &str) -> String {
    format!("api/traces?traceID={trace}")
}

async fn traces(jaeger: &Jaeger, path: &str) -> anyhow::Result<Vec<Trace>> {
    let answer: Value = serde_json::from_str(&jaeger.get(path).await?)?;
    answer["data"].as_array().into_iter().flatten().map(Trace::read).collect()
}

async fn of_pod(jaeger: &Jaeger, pod: &Pod) -> anyhow::Result<Vec<Trace>> {
    // A JSON map, URL-encoded.
    let tags = format!("%7B%22k8s.pod.uid%22%3A%22{}%22%7D", pod.uid().context("a UID")?);
    traces(jaeger, &format!("api/traces?service=flotilla-coordinator&limit=100&tags={tags}")).await
}

/// The only trace of a pod, once it is complete.
async fn whole(jaeger: &Jaeger, pod: &Pod) -> anyhow::Result<Trace> {
    wait_until(&format!("the whole trace of {}", pod.name_any()), PATIENCE, async || {
        let found = of_pod(jaeger, pod).await.map_err(|error| format!("{error:#}"))?;
        match &found[..] {
            [trace] if trace.is_whole() => Ok(trace.clone()),
            found => Err(format!("{found:#?}")),
        }
    })
    .await
}

/// A control plane with a tracing API server, and Jaeger.
async fn start() -> anyhow::Result<(ControlPlane, Jaeger)> {
    let jaeger = Jaeger::reserve()?;
    let options = Options::default().with_tracing(jaeger.otlp_address());
    let cache = options.cache_dir.clone();
    let cluster = ControlPlane::start(options).await?;
    jaeger.start(cluster.processes(), &cache, &Lines).await?;
    cluster.add_nodes((0..6).map(|index| NodeBuilder::new(format!("node-{index}")))).await?;
    Ok((cluster, jaeger))
}

async fn traced<'a>(cluster: &'a ControlPlane, jaeger: &Jaeger) -> anyhow::Result<Fleet<'a>> {
    let endpoint = format!("--tracing-endpoint={}", jaeger.otlp_endpoint());
    Fleet::new(cluster).with_args([endpoint.clone()]).with_worker_args([endpoint]).up("flotilla", 2).await
}

fn flotilla_trace(cluster: &ControlPlane, jaeger: &Jaeger, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(binary("flotilla")?)
        .arg("trace")
        .args(arguments)
        .env("FLOTILLA_JAEGER", jaeger.url())
        .env("KUBECONFIG", cluster.kubeconfig())
        .output()?;
    ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_runs_from_the_queue_through_two_workers_to_the_request_that_the_api_server_served()
-> anyhow::Result<()> {
    let (cluster, jaeger) = start().await?;
    let _fleet = traced(&cluster, &jaeger).await?;
    // Different requests, so that workers evaluate each pod.
    let pods = (1..=3).map(|index| pod(&format!("web-{index}"), "flotilla", &[("cpu", &format!("{index}00m"))]));
    let pods = cluster.create_pods(pods.collect::<Vec<_>>()).await?;
    let running = wait_until_running(&cluster, "web-", 3).await?;
    let mut names = BTreeSet::new();
    for pod in &pods {
        let trace = whole(&jaeger, pod).await?;
        trace.assert_nested();
        assert_attributes(&trace, pod, &running);
        let evaluations = trace.named("evaluate shard");
        let instances: BTreeSet<&str> = evaluations.iter().map(|span| &*span.instance).collect();
        assert_eq!(instances.len(), 2, "two workers, by their instances: {evaluations:#?}");
        assert!(evaluations.iter().all(|span| span.service == "flotilla-worker"), "{evaluations:#?}");
        let bind = trace.one("bind request");
        let served: Vec<&Span> = trace.spans.iter().filter(|span| span.parent.as_ref() == Some(&bind.id)).collect();
        let [served] = served[..] else { panic!("{served:#?}") };
        assert_eq!((&*served.service, &*served.name), (API_SERVER, BINDING));
        assert!(names.insert(trace.id.clone()), "{} twice", trace.id);

        let told = flotilla_trace(&cluster, &jaeger, &[&format!("pod/{}", pod.name_any()), "-ojson"])?;
        let told: Value = serde_json::from_str(&told)?;
        let told = Trace::read(&told["data"][0])?;
        assert_eq!((told.id, told.spans.len()), (trace.id, trace.spans.len()), "the same, by the name of the pod");
    }
    shown(&cluster, &jaeger, &pods[0])
}

const BINDING: &str = "POST /api/v1/namespaces/{:namespace}/pods/{:name}/binding";

fn assert_attributes(trace: &Trace, pod: &Pod, running: &[Pod]) {
    let node = running.iter().find(|other| other.uid() == pod.uid()).and_then(|pod| pod.spec.clone()?.node_name);
    let root = trace.one("schedule pod");
    for (key, expected) in [
        ("k8s.pod.name", Value::from(pod.name_any())),
        ("k8s.namespace.name", Value::from("default")),
        ("k8s.pod.uid", Value::from(pod.uid().unwrap_or_default())),
        ("k8s.node.name", Value::from(node.clone())),
        ("flotilla.profile", Value::from("flotilla")),
        ("flotilla.attempt", Value::from(1)),
        ("flotilla.result", Value::from("scheduled")),
    ] {
        assert_eq!(root.attributes.get(key), Some(&expected), "{key} of {root:#?}");
    }
    assert_eq!(trace.one("scheduling cycle").attributes.get("k8s.node.name"), Some(&Value::from(node)));
    let judged: u64 =
        trace.named("evaluate shard").iter().filter_map(|span| span.attributes.get("flotilla.nodes")?.as_u64()).sum();
    assert_eq!(judged, 6, "every node is judged by one of the two workers: {trace:#?}");
}

/// Output of `flotilla trace` as lines and as a picture.
fn shown(cluster: &ControlPlane, jaeger: &Jaeger, pod: &Pod) -> anyhow::Result<()> {
    let name = format!("pod/{}", pod.name_any());
    let lines = flotilla_trace(cluster, jaeger, &[&name, "--attempt=1", "-owide"])?;
    for expected in ["schedule pod", "evaluate shard", "flotilla-worker 127.0.0.1:", API_SERVER, BINDING] {
        assert!(lines.contains(expected), "{expected}\n{lines}");
    }
    let picture = cluster.folder().join("trace.svg");
    flotilla_trace(cluster, jaeger, &["--uid", &pod.uid().unwrap_or_default(), "--svg", &picture.to_string_lossy()])?;
    let picture = fs::read_to_string(picture)?;
    assert!(picture.starts_with("<svg ") && picture.contains("evaluate shard"), "{picture}");
    let Err(error) = flotilla_trace(cluster, jaeger, &[&name, "--attempt=7"]) else {
        panic!("there is no such attempt")
    };
    assert!(error.to_string().contains(&format!("Jaeger at {} has no trace of attempt 7", jaeger.url())), "{error}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_attempt_is_a_trace_and_the_last_one_is_shown_unless_another_is_asked_for() -> anyhow::Result<()> {
    let (cluster, jaeger) = start().await?;
    let _fleet = traced(&cluster, &jaeger).await?;
    let mut late = pod("late", "flotilla", &[]);
    late.spec.get_or_insert_default().node_selector = Some([("disk".to_owned(), "ssd".to_owned())].into());
    let late = cluster.create_pods([late]).await?.remove(0);
    wait_until_refused(&cluster, "late").await?;
    let nodes: Api<Node> = Api::all(cluster.client());
    let label = Patch::Merge(json!({ "metadata": { "labels": { "disk": "ssd" } } }));
    nodes.patch("node-3", &PatchParams::default(), &label).await?;
    wait_until_running(&cluster, "late", 1).await?;
    wait_until("both traces", PATIENCE, async || {
        let found = of_pod(&jaeger, &late).await.map_err(|error| format!("{error:#}"))?;
        if found.len() == 2 { Ok(()) } else { Err(format!("{found:#?}")) }
    })
    .await?;
    let last: Value = serde_json::from_str(&flotilla_trace(&cluster, &jaeger, &["pod/late", "-ojson"])?)?;
    let last = Trace::read(&last["data"][0])?;
    let root = last.one("schedule pod");
    assert_eq!(root.attributes.get("flotilla.attempt"), Some(&Value::from(2)), "{root:#?}");
    assert_eq!(root.attributes.get("k8s.node.name"), Some(&Value::from("node-3")), "{root:#?}");
    let first = flotilla_trace(&cluster, &jaeger, &["pod/late", "--attempt=1"])?;
    assert!(
        first.contains("! 0/6 nodes are available: 6 node(s) didn't match Pod's node affinity/selector."),
        "{first}"
    );
    Ok(())
}

const PARENT: &str = "00f067aa0ba902b7";
const RECORDED: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const UNRECORDED: &str = "aaaa2f3577b34da6a3ce929d0e0e4736";

fn made_within(name: &str, trace: &str, flags: &str) -> Pod {
    let mut pod = pod(name, "flotilla", &[("cpu", "150m")]);
    pod.annotations_mut().insert("traceparent".to_owned(), format!("00-{trace}-{PARENT}-{flags}"));
    pod
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_names_a_trace_is_part_of_it_and_of_none_where_that_is_not_recorded() -> anyhow::Result<()> {
    let (cluster, jaeger) = start().await?;
    let _fleet = traced(&cluster, &jaeger).await?;
    let unrecorded = cluster.create_pods([made_within("unrecorded", UNRECORDED, "00")]).await?.remove(0);
    wait_until_running(&cluster, "unrecorded", 1).await?;
    let recorded = cluster.create_pods([made_within("recorded", RECORDED, "01")]).await?.remove(0);
    wait_until_running(&cluster, "recorded", 1).await?;
    let last = cluster.create_pods([pod("last", "flotilla", &[("cpu", "350m")])]).await?.remove(0);
    whole(&jaeger, &last).await?;

    let joined = wait_until("the trace of the client that created the pod", PATIENCE, async || {
        let found = traces(&jaeger, &named(RECORDED)).await.map_err(|error| format!("{error:#}"))?;
        found
            .into_iter()
            .find(|trace| trace.named("schedule pod").len() == 1)
            .ok_or_else(|| "it is not there".to_owned())
    })
    .await?;
    let root = joined.one("schedule pod");
    assert_eq!(root.parent.as_deref(), Some(PARENT));
    assert_eq!(root.attributes.get("k8s.pod.uid"), Some(&Value::from(recorded.uid().unwrap_or_default())));
    let told = flotilla_trace(&cluster, &jaeger, &["pod/recorded"])?;
    assert!(told.starts_with(&format!("trace {RECORDED}: ")), "{told}");

    // Spans are exported in order, and those of the last pod have arrived.
    assert_eq!(of_pod(&jaeger, &unrecorded).await?, []);
    assert_eq!(traces(&jaeger, &named(UNRECORDED)).await?, []);
    let Err(error) = flotilla_trace(&cluster, &jaeger, &["pod/unrecorded"]) else { panic!("it was shown") };
    assert!(error.to_string().contains("disables its trace"), "{error}");
    Ok(())
}

/// Lists nodes within a trace.
async fn ask_within(cluster: &ControlPlane, trace: &str, flags: &str) -> anyhow::Result<()> {
    let request = http::Request::get("/api/v1/nodes").header("traceparent", format!("00-{trace}-{PARENT}-{flags}"));
    cluster.client().request_text(request.body(Vec::new())?).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_tells_of_requests_within_recorded_traces_and_of_no_others() -> anyhow::Result<()> {
    let (cluster, jaeger) = start().await?;
    ask_within(&cluster, UNRECORDED, "00").await?;
    ask_within(&cluster, RECORDED, "01").await?;
    let served = wait_until("the span of the API server", PATIENCE, async || {
        let found = traces(&jaeger, &named(RECORDED)).await.map_err(|error| format!("{error:#}"))?;
        let mut spans = found.iter().flat_map(|trace| &trace.spans);
        spans.find(|span| span.parent.as_deref() == Some(PARENT)).cloned().ok_or_else(|| format!("{found:#?}"))
    })
    .await?;
    assert_eq!((&*served.service, &*served.name), (API_SERVER, "GET /api/v1/nodes"));
    assert_eq!(traces(&jaeger, &named(UNRECORDED)).await?, []);
    Ok(())
}
