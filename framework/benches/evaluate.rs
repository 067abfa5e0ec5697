//! Benchmark: evaluations, answers, views under 10,000 decisions, merges of four shards, and new classes of a known family.

use std::{hint::black_box, sync::Arc, time::Duration};

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use flotilla_framework::{
    class::{Class, ClassId},
    evaluate::{Columns, Scratch},
    evaluation::Evaluation,
    extension::Facts,
    matches::Matches,
    node::{NodeId, NodeInfo},
    prepared::Prepared,
    registry::Registry,
    select::{Best, Ground, SortedNodes, View, select},
    snapshot::Snapshot,
    testing::{PodBuilder, node, pod, profile},
};

const NODES: u32 = 5_000;

const ZONE: &str = "topology.kubernetes.io/zone";

const HOST: &str = "kubernetes.io/hostname";

const PLACED: ClassId = ClassId(100);

type Layout = (&'static str, fn(u32) -> NodeInfo, Arc<Class>);

struct Cluster {
    nodes: Snapshot,
    prepared: Prepared,
}

fn basic_node(number: u32) -> NodeInfo {
    node(&format!("node-{number}")).capacity("cpu", "32").capacity("memory", "256Gi").build()
}

/// Every fifth node has devices, every seventh a hard taint, every third a soft one, half of them the image.
fn mixed_node(number: u32) -> NodeInfo {
    let mut built = node(&format!("node-{number}")).capacity("cpu", "32").capacity("memory", "256Gi");
    built = built.label("topology.kubernetes.io/zone", &format!("zone-{}", number % 3));
    built = built.label("size", &(number % 10).to_string());
    built = if number.is_multiple_of(5) { built.capacity("example.com/gpu", "8") } else { built };
    built = if number.is_multiple_of(7) { built.taint("dedicated", "infra", "NoSchedule") } else { built };
    built = if number.is_multiple_of(3) { built.taint("spot", "", "PreferNoSchedule") } else { built };
    built = if number.is_multiple_of(2) { built.image("app:v1", 700 << 20) } else { built };
    built.build()
}

/// In one of three zones; the builder sets `kubernetes.io/hostname` to the node's name.
fn zoned_node(number: u32) -> NodeInfo {
    let built = node(&format!("node-{number}")).capacity("cpu", "32").capacity("memory", "256Gi");
    built.label(ZONE, &format!("zone-{}", number % 3)).build()
}

const WEB: (&str, &str) = ("app", "web");

fn web_pod() -> PodBuilder {
    pod("p").request("cpu", "100m").request("memory", "256Mi").label(WEB.0, WEB.1)
}

fn spread_pod() -> Arc<Class> {
    web_pod().prefer_spread(5, ZONE, WEB).prefer_spread(3, HOST, WEB).build().class
}

fn near_pod() -> Arc<Class> {
    web_pod().near(ZONE, WEB).prefer_far(1, HOST, WEB).build().class
}

fn basic_pod() -> Arc<Class> {
    pod("p").request("cpu", "100m").request("memory", "256Mi").build().class
}

fn mixed_pod() -> Arc<Class> {
    let pod = pod("p").request("cpu", "100m").request("memory", "256Mi").image("app:v1").host_port(8080);
    let pod = pod.tolerate("dedicated", "Exists", "", "").prefer(5, "size", "In", &["1", "2", "3"]);
    let pod = pod.prefer(3, "topology.kubernetes.io/zone", "In", &["zone-1"]);
    pod.require("topology.kubernetes.io/zone", "NotIn", &["zone-9"]).build().class
}

fn gpu_pod() -> Arc<Class> {
    pod("p").request("cpu", "100m").request("memory", "256Mi").request("example.com/gpu", "1").build().class
}

fn cluster(numbers: impl Iterator<Item = u32>, node: fn(u32) -> NodeInfo, class: &Arc<Class>) -> Cluster {
    let mut nodes = Snapshot::new(1);
    nodes.register_class(PLACED, Arc::clone(class));
    for standing in 0..5 {
        let cpu = format!("{}m", 100 + standing * 130);
        nodes.register_class(ClassId(standing), pod("s").request("cpu", &cpu).request("memory", "1Gi").build().class);
    }
    for number in numbers {
        nodes.upsert_node(NodeId(number), &node(number));
        for standing in 0..u64::from(8 + number % 5) {
            nodes.add_pod(NodeId(number), ClassId((standing + u64::from(number)) % 5));
        }
    }
    let facts = Facts { image_contributions: vec![350 << 20], ..Facts::default() };
    let prepared = Prepared::new(Registry::built_in(), &profile(), class, &facts, &nodes);
    Cluster { nodes, prepared }
}

fn evaluate(cluster: &Cluster, k: usize) -> Evaluation {
    let (mut columns, mut scratch) = (Columns::default(), Scratch::default());
    columns.refresh(&cluster.prepared, &cluster.nodes, &mut scratch);
    columns.answer_all(&cluster.prepared, &cluster.nodes, k, &mut scratch)
}

fn evaluations(bench: &mut Criterion) {
    let layouts: [Layout; 5] = [
        ("evaluate/basic/5000", basic_node, basic_pod()),
        ("evaluate/mixed/5000", mixed_node, mixed_pod()),
        ("evaluate/devices/5000", mixed_node, gpu_pod()),
        ("evaluate/spread/5000", zoned_node, spread_pod()),
        ("evaluate/near/5000", zoned_node, near_pod()),
    ];
    for (name, node, class) in layouts {
        let cluster = cluster(0..NODES, node, &class);
        let (mut columns, mut scratch) = (Columns::default(), Scratch::default());
        bench.bench_function(name, |bencher| {
            bencher.iter(|| {
                columns.forget();
                black_box(columns.refresh(&cluster.prepared, &cluster.nodes, &mut scratch))
            });
        });
    }
}

fn refreshes(bench: &mut Criterion) {
    let mut cluster = cluster(0..NODES, mixed_node, &mixed_pod());
    let (mut columns, mut scratch) = (Columns::default(), Scratch::default());
    columns.refresh(&cluster.prepared, &cluster.nodes, &mut scratch);
    let mut add = true;
    bench.bench_function("refresh after one change", |bencher| {
        bencher.iter(|| {
            let changed = if add { Snapshot::add_pod } else { Snapshot::remove_pod };
            changed(&mut cluster.nodes, NodeId(17), ClassId(1));
            add = !add;
            black_box(columns.refresh(&cluster.prepared, &cluster.nodes, &mut scratch))
        });
    });
    bench.bench_function("answer k=1000", |bencher| {
        bencher.iter(|| black_box(columns.answer(&cluster.prepared, &cluster.nodes, 1_000, &mut scratch)));
    });
}

/// Places pods of one class until `decisions` are made; requests a new view whenever a list runs dry.
fn decide(cluster: &mut Cluster, mut view: View, decisions: usize) -> usize {
    for decision in 0..decisions {
        let Best::Node { offer, .. } = view.best(&cluster.prepared, None) else { return decision };
        cluster.nodes.add_pod(offer.node, PLACED);
        let slot = cluster.nodes.slot(offer.node);
        let result = slot.map(|slot| cluster.prepared.judge(&cluster.nodes, slot));
        view.repair(&cluster.prepared, &cluster.nodes, &Matches::default(), offer.node, result);
    }
    decisions
}

fn views(bench: &mut Criterion) {
    let mut group = bench.benchmark_group("view: 10,000 decisions on 5,000 nodes");
    let layouts: [Layout; 2] = [("basic", basic_node, basic_pod()), ("mixed", mixed_node, mixed_pod())];
    for (name, node, class) in layouts {
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || {
                    let cluster = cluster(0..NODES, node, &class);
                    let view = View::new(&cluster.prepared, vec![evaluate(&cluster, usize::MAX)]);
                    (cluster, view)
                },
                |(mut cluster, view)| {
                    let decided = decide(&mut cluster, view, 10_000);
                    (decided, cluster)
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

fn sorted(cluster: &mut Cluster, class: &Class) -> (Prepared, SortedNodes) {
    let facts = Facts { image_contributions: vec![350 << 20], ..Facts::default() };
    let head = Prepared::new(Registry::built_in(), &profile(), &class.head(), &facts, &cluster.nodes);
    let of_head = Cluster { nodes: cluster.nodes.clone(), prepared: head };
    let answer = evaluate(&of_head, usize::MAX);
    let ground = Ground::new(&cluster.prepared, &cluster.nodes);
    let sorted =
        SortedNodes::new(ground, &cluster.nodes, &[answer]).unwrap_or_else(|| unreachable!("all nodes are offered"));
    (of_head.prepared, sorted)
}

fn families(bench: &mut Criterion) {
    for (name, class) in [("spread", spread_pod()), ("near", near_pod())] {
        let mut cluster = cluster(0..NODES, zoned_node, &class);
        let (head, sorted) = sorted(&mut cluster, &class);
        bench.bench_function(&format!("a new class of a known family/{name}/5000"), |bencher| {
            bencher.iter(|| {
                let mut matches = Matches::default();
                matches.refresh(&cluster.prepared, &cluster.nodes);
                let mut view = View::over(&cluster.prepared, &cluster.nodes, &matches, &sorted);
                black_box(view.best(&cluster.prepared, Some(&sorted)))
            });
        });
        let ground = sorted.ground();
        let mut matches = Matches::default();
        matches.refresh(&cluster.prepared, &cluster.nodes);
        bench.bench_function(&format!("sorted: 10,000 decisions on 5,000 nodes/{name}"), |bencher| {
            bencher.iter_batched(
                || {
                    let sorted = sorted.regrouped(ground.clone(), &cluster.nodes);
                    let view = View::over(&cluster.prepared, &cluster.nodes, &matches, &sorted);
                    (cluster.nodes.clone(), sorted, view)
                },
                |(mut nodes, mut sorted, mut view)| {
                    for _ in 0..10_000 {
                        let Best::Node { offer, .. } = view.best(&cluster.prepared, Some(&sorted)) else { break };
                        nodes.add_pod(offer.node, PLACED);
                        let result = nodes.slot(offer.node).map(|slot| head.judge(&nodes, slot));
                        sorted.repair(&nodes, offer.node, result.as_ref());
                        let moved = std::iter::once((offer.node, matches.of(PLACED), 1));
                        view.follow(&cluster.prepared, &nodes, &matches, &sorted, moved);
                    }
                    (nodes, sorted, view)
                },
                BatchSize::LargeInput,
            );
        });
    }
}

fn merges(bench: &mut Criterion) {
    let class = mixed_pod();
    let whole = cluster(0..NODES, mixed_node, &class);
    let shard = |shard| cluster((0..NODES).filter(move |number| number % 4 == shard), mixed_node, &class);
    let answers: Vec<Evaluation> = (0..4).map(|number| evaluate(&shard(number), 256)).collect();
    bench.bench_function("select 4 shards", |bencher| {
        bencher.iter_batched(|| answers.clone(), |answers| select(&whole.prepared, answers), BatchSize::SmallInput);
    });
}

fn short() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
}

criterion_group! {
    name = benches;
    config = short();
    targets = evaluations, refreshes, views, families, merges
}
criterion_main!(benches);
