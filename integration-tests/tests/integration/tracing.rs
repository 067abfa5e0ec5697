//! Traces of attempts by real coordinators and workers in an OTLP collector.

use std::{collections::BTreeMap, fs, time::Duration};

use anyhow::Context as _;
use flotilla_control_plane::{Component, ControlPlane, NodeBuilder, Options, free_port, pod, wait_until};
use flotilla_integration_tests::{
    collector::{Collector, Span},
    fleet::{Fleet, PATIENCE, profile, wait_until_refused, wait_until_running},
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::json;

/// Maximum time from SIGTERM to exit: a flush of 5 s, and other waits.
const GRACE: Duration = Duration::from_secs(30);

fn nodes(count: usize) -> Vec<NodeBuilder> {
    (0..count).map(|index| NodeBuilder::new(format!("node-{index}"))).collect()
}

fn traced<'a>(cluster: &'a ControlPlane, collector: &Collector) -> Fleet<'a> {
    let endpoint = format!("--tracing-endpoint={}", collector.endpoint);
    Fleet::new(cluster).with_args([endpoint.clone()]).with_worker_args([endpoint])
}

/// An API server that continues traces of clients.
fn options(folder: &std::path::Path, collector: &Collector) -> anyhow::Result<Options> {
    let address = collector.endpoint.trim_start_matches("http://");
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "TracingConfiguration",
        "endpoint": address,
        "samplingRatePerMillion": 0,
    });
    let path = folder.join("tracing.json");
    fs::write(&path, configuration.to_string()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Options::default().with_arg(Component::ApiServer, format!("--tracing-config-file={}", path.display())))
}

fn made_by(trace_parent: &str, mut pod: Pod) -> Pod {
    pod.annotations_mut().insert("traceparent".to_owned(), trace_parent.to_owned());
    pod
}

fn named<'a>(trace: &'a [Span], name: &str) -> Vec<&'a Span> {
    trace.iter().filter(|span| span.name == name).collect()
}

fn one<'a>(trace: &'a [Span], name: &str) -> &'a Span {
    match named(trace, name)[..] {
        [span] => span,
        ref others => panic!("{} spans {name:?} in {trace:#?}", others.len()),
    }
}

/// Every span except the root is within its parent.
fn assert_nested(trace: &[Span]) {
    let by_id: BTreeMap<&str, &Span> = trace.iter().map(|span| (&*span.id, span)).collect();
    assert_eq!(by_id.len(), trace.len(), "each span has a name of its own: {trace:#?}");
    for span in trace.iter().filter(|span| span.name != "schedule pod") {
        let parent = by_id.get(&*span.parent).unwrap_or_else(|| panic!("{span:#?} is part of nothing in {trace:#?}"));
        let is_within = parent.from_ns <= span.from_ns && span.until_ns <= parent.until_ns;
        assert!(is_within && span.from_ns <= span.until_ns, "{span:#?} is not within {parent:#?}");
    }
}

fn is_whole(trace: &[Span]) -> bool {
    named(trace, "evaluate shard").len() == 2
        && named(trace, "evaluate").len() == 1
        && trace.iter().any(|span| span.service == "apiserver")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_is_one_trace_over_the_coordinator_two_workers_and_the_api_server() -> anyhow::Result<()> {
    let collector = Collector::start().await?;
    let folder = tempfile::tempdir()?;
    let cluster = ControlPlane::start(options(folder.path(), &collector)?).await?;
    cluster.add_nodes(nodes(4)).await?;
    let _fleet = traced(&cluster, &collector).up("flotilla", 2).await?;
    let web = cluster.create_pods([pod("web", "flotilla", &[("cpu", "500m")])]).await?.remove(0);
    wait_until_running(&cluster, "web", 1).await?;
    let whole = collector.trace_of("web", is_whole).await?;
    let (of_server, trace): (Vec<Span>, Vec<Span>) = whole.into_iter().partition(|span| span.service == "apiserver");
    assert_nested(&trace);
    let request = one(&trace, "bind request");
    assert!(of_server.iter().any(|span| span.parent == request.id), "{of_server:#?}");
    let (root, cycle, evaluation) =
        (one(&trace, "schedule pod"), one(&trace, "scheduling cycle"), one(&trace, "evaluate"));
    assert_eq!((&*root.parent, &*root.service), ("", "flotilla-coordinator"));
    for part in ["queue", "scheduling cycle", "binding cycle"] {
        assert_eq!(one(&trace, part).parent, root.id, "{part}");
    }
    assert_eq!(one(&trace, "select").parent, cycle.id);
    assert_eq!(one(&trace, "bind request").parent, one(&trace, "binding cycle").id);
    assert_eq!(evaluation.parent, cycle.id);
    let asked = named(&trace, "ask worker");
    assert!(asked.len() == 2 && asked.iter().all(|span| span.parent == evaluation.id), "{asked:#?}");
    for shard in named(&trace, "evaluate shard") {
        assert_eq!(shard.service, "flotilla-worker");
        assert_eq!(asked.iter().filter(|asked| asked.id == shard.parent).count(), 1, "{shard:#?}");
    }
    assert_eq!(trace.len(), 11, "no more than is listed: {trace:#?}");
    assert_eq!(root.attributes["k8s.pod.uid"], web.uid().unwrap_or_default());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_traced_can_be_joined_shared_and_refused() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default()).await?;
    cluster.add_nodes(nodes(4)).await?;
    let collector = Collector::start().await?;
    let fleet = traced(&cluster, &collector).up("flotilla", 2).await?;

    cluster.create_pods((0..8).map(|index| pod(&format!("web-{index}"), "flotilla", &[]))).await?;
    wait_until_running(&cluster, "web-", 8).await?;
    let everything = wait_until("eight attempts and their evaluations", PATIENCE, async || {
        let spans = collector.spans();
        let is_over = named(&spans, "schedule pod").len() == 8 && !named(&spans, "evaluate").is_empty();
        is_over.then_some(spans).ok_or_else(|| format!("{} spans", collector.spans().len()))
    })
    .await?;
    let evaluations: Vec<(&str, &str)> =
        named(&everything, "evaluate").iter().map(|span| (&*span.trace, &*span.id)).collect();
    let links: Vec<(&str, &str)> = named(&everything, "scheduling cycle")
        .iter()
        .flat_map(|span| span.links.iter().map(|(trace, id)| (&**trace, &**id)))
        .collect();
    assert!(links.len() >= 8 - evaluations.len(), "{links:?} {evaluations:?}");
    assert!(links.iter().all(|link| evaluations.contains(link)), "{links:?} {evaluations:?}");

    let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let joining = made_by(&format!("00-{trace}-{parent}-01"), pod("joining", "flotilla", &[]));
    let silent = made_by(&format!("00-{trace}-{parent}-00"), pod("silent", "flotilla", &[]));
    cluster.create_pods([silent, joining, pod("huge", "flotilla", &[("cpu", "1000")])]).await?;
    wait_until_running(&cluster, "joining", 1).await?;
    wait_until_running(&cluster, "silent", 1).await?;
    let (_, message) = wait_until_refused(&cluster, "huge").await?;
    let joined = collector.trace_of("joining", |_| true).await?;
    let root = one(&joined, "schedule pod");
    assert_eq!((&*root.trace, &*root.parent), (trace, parent));
    let refused = collector.trace_of("huge", |_| true).await?;
    let root = one(&refused, "schedule pod");
    assert_eq!((&*root.attributes["flotilla.result"], &root.error), ("unschedulable", &Some(message)));

    // The coordinator exports remaining spans before it exits.
    cluster.processes().stop("coordinator", GRACE).await?;
    let of = |name: &str| {
        let spans = collector.spans();
        spans.iter().filter(|span| span.attributes.get("k8s.pod.name").is_some_and(|pod| pod == name)).count()
    };
    assert_eq!((of("silent"), of("joining")), (0, 1));
    assert!(cluster.processes().log("coordinator")?.contains(&format!("trace_id={trace}")), "lines name their trace");
    drop(fleet);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_costs_spans_and_nothing_else() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default()).await?;
    cluster.add_nodes(nodes(2)).await?;
    let nobody = format!("--tracing-endpoint=http://127.0.0.1:{}", free_port()?);
    let fleet = Fleet::new(&cluster).with_args([nobody.clone()]).with_worker_args([nobody]).up("flotilla", 2).await?;
    cluster.create_pods((0..8).map(|index| pod(&format!("web-{index}"), "flotilla", &[]))).await?;
    wait_until_running(&cluster, "web-", 8).await?;
    wait_until("spans to be counted as lost", PATIENCE, async || {
        match fleet.metric("coordinator", "flotilla_spans_dropped_total").await {
            Ok(Some(lost)) if lost > 0.0 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    assert_eq!(cluster.processes().log("coordinator")?.matches("spans are lost").count(), 1);
    assert!(cluster.processes().stop("coordinator", GRACE).await?, "it ends although its last spans are not taken");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_go_over_tls_to_whom_the_variables_trust_and_nowhere_when_nothing_is_said() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default()).await?;
    cluster.add_nodes(nodes(2)).await?;
    let (certificate, key) = cluster.serving_certificate();
    let collector = Collector::start_with_tls(&fs::read_to_string(certificate)?, &fs::read_to_string(key)?).await?;
    let fleet = Fleet::new(&cluster);
    let config = fleet.config(&profile("flotilla"))?;
    let mut command = fleet.coordinator(Some(&config), free_port()?)?;
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint)
        .env("OTEL_EXPORTER_OTLP_CERTIFICATE", cluster.authority_certificate())
        .env("OTEL_SERVICE_NAME", "ours");
    cluster.processes().spawn("traced", command)?;
    cluster.create_pods([pod("secret", "flotilla", &[])]).await?;
    wait_until_running(&cluster, "secret", 1).await?;
    let trace = collector.trace_of("secret", |_| true).await?;
    assert!(trace.iter().all(|span| span.service == "ours"), "{trace:#?}");
    cluster.processes().stop("traced", GRACE).await?;

    let before = collector.spans().len();
    let silent = fleet.coordinator(Some(&config), free_port()?)?;
    cluster.processes().spawn("silent", silent)?;
    cluster.create_pods([pod("untold", "flotilla", &[])]).await?;
    wait_until_running(&cluster, "untold", 1).await?;
    cluster.processes().stop("silent", GRACE).await?;
    assert_eq!(collector.spans().len(), before);
    assert!(!cluster.processes().log("silent")?.contains("trace_id"));
    Ok(())
}
