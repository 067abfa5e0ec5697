//! Attempts are traced: by real coordinators and workers, to a collector that speaks OTLP.

use std::collections::BTreeMap;

use flotilla_control_plane::{ControlPlane, NodeBuilder, Options, pod};
use flotilla_integration_tests::{
    collector::{Collector, Span},
    fleet::{Fleet, wait_until_running},
};
use kube::ResourceExt as _;

fn nodes(count: usize) -> Vec<NodeBuilder> {
    (0..count).map(|index| NodeBuilder::new(format!("node-{index}"))).collect()
}

fn traced<'a>(cluster: &'a ControlPlane, collector: &Collector) -> Fleet<'a> {
    let endpoint = format!("--tracing-endpoint={}", collector.endpoint);
    Fleet::new(cluster).with_args([endpoint.clone()]).with_worker_args([endpoint])
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

/// Every span but the outermost lies within the one that it is part of.
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
    named(trace, "evaluate shard").len() == 2 && named(trace, "evaluate").len() == 1
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_is_one_trace_over_the_coordinator_and_two_workers() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default()).await?;
    cluster.add_nodes(nodes(4)).await?;
    let collector = Collector::start().await?;
    let _fleet = traced(&cluster, &collector).up("flotilla", 2).await?;
    let web = cluster.create_pods([pod("web", "flotilla", &[("cpu", "500m")])]).await?.remove(0);
    wait_until_running(&cluster, "web", 1).await?;
    let trace = collector.trace_of("web", is_whole).await?;
    assert_nested(&trace);
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
