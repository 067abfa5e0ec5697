//! Tables, JSON and YAML of a simulation.

use std::sync::Arc;

use flotilla_framework::ingest;
use k8s_openapi::api::core::v1 as api;
use serde_json::{Value, json};

use super::*;

fn pod(name: &str, cpu: &str) -> Arc<flotilla_framework::class::PodInfo> {
    let pod: api::Pod = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]},
    }))
    .expect("a pod");
    Arc::new(ingest::pod(&pod, ingest::Features::default()).expect("a good pod"))
}

fn cluster() -> Cluster {
    let node: api::Node = serde_json::from_value(json!({
        "metadata": {"name": "n1"},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10", "example.com/gpu": "2"}},
    }))
    .expect("a node");
    let node = Arc::new(ingest::node(&node).expect("a good node"));
    Cluster { nodes: vec![node], bound: vec![pod("before", "500m")], ..Cluster::default() }
}

fn outcome(pods: usize) -> SimulationResult {
    let placed = |index: usize| Placement {
        pod: pod(&format!("p{index}"), "250m"),
        node: Some("n1".into()),
        message: String::new(),
        first_message: None,
        nominated_node: None,
    };
    let mut placements: Vec<Placement> = (1..pods).map(placed).collect();
    let message = "0/1 nodes are available: 1 Insufficient cpu.".to_owned();
    let first_message = Some("0/1 nodes are available: 1 Too many pods.".to_owned());
    placements.push(Placement { pod: pod("large", "100"), node: None, message, first_message, nominated_node: None });
    let took = Duration::from_millis(10);
    let latencies = (1..=pods as u64).map(Duration::from_micros).collect();
    let worker_messages = WorkerMessages { sent: 4, sent_bytes: 2_048, received: 3, received_bytes: 600 };
    SimulationResult {
        decisions: placements.len(),
        placements,
        took,
        latencies,
        worker_messages,
        ..SimulationResult::default()
    }
}

fn printed(pods: usize, format: Format) -> String {
    let (cluster, outcome) = (cluster(), outcome(pods));
    let mut out = Vec::new();
    Answer::new((&cluster, &Groups::default()), &outcome, 2).print(format, &mut out).expect("memory takes everything");
    String::from_utf8(out).expect("text")
}

fn expected() -> Value {
    json!({
        "placements": [
            {"pod": "ns/p1", "node": "n1"},
            {"pod": "ns/p2", "node": "n1"},
            {
                "pod": "ns/large", "node": "", "message": "0/1 nodes are available: 1 Insufficient cpu.",
                "firstMessage": "0/1 nodes are available: 1 Too many pods.",
            },
        ],
        "summary": {
            "nodes": 1,
            "boundPods": 1,
            "pods": 3,
            "placed": 2,
            "pending": 1,
            "workers": 2,
            "seconds": 0.01,
            "decisionsPerSecond": 300.0,
            "latency": {"p50Micros": 2.0, "p99Micros": 3.0},
            "workerMessages": {"sent": 4, "sentBytes": 2048, "received": 3, "receivedBytes": 600},
            "resources": [
                {
                    "name": "cpu", "allocatable": "4",
                    "before": {"used": "500m", "percent": 12.5}, "after": {"used": "1", "percent": 25.0},
                },
                {
                    "name": "memory", "allocatable": "8Gi",
                    "before": {"used": "1Gi", "percent": 12.5}, "after": {"used": "3Gi", "percent": 37.5},
                },
                {
                    "name": "pods", "allocatable": "10",
                    "before": {"used": "1", "percent": 10.0}, "after": {"used": "3", "percent": 30.0},
                },
                {
                    "name": "example.com/gpu", "allocatable": "2",
                    "before": {"used": "0", "percent": 0.0}, "after": {"used": "0", "percent": 0.0},
                },
            ],
        },
    })
}

#[test]
fn json_and_yaml_say_the_same() {
    let from_json: Value = serde_json::from_str(&printed(3, Format::Json)).expect("JSON");
    let from_yaml: Value = serde_yaml::from_str(&printed(3, Format::Yaml)).expect("YAML");
    assert_eq!(from_json, expected());
    assert_eq!(from_yaml, expected());
}

#[test]
fn a_table_says_where_each_pod_goes_and_how_full_the_cluster_is() {
    let expected = "\
POD       NODE  MESSAGE
ns/p1     n1
ns/p2     n1
ns/large  -     0/1 nodes are available: 1 Insufficient cpu.

nodes      1, with 1 pods on them before
pods       3: 2 placed, 1 pending
decisions  300 per second over 0.010 s by 2 workers; each p50 2.0 us, p99 3.0 us
messages   4 to workers (2.00 KiB), 3 from workers (600 B)

RESOURCE         ALLOCATABLE  BEFORE       AFTER
cpu              4            0.5 (12.5%)  1 (25%)
memory           8Gi          1Gi (12.5%)  3Gi (37.5%)
pods             10           1 (10%)      3 (30%)
example.com/gpu  2            0 (0%)       0 (0%)
";
    assert_eq!(printed(3, Format::Table), expected);
}

#[test]
fn a_long_table_shows_its_beginning_and_its_end() {
    let rows = |pods: usize| {
        let text = printed(pods, Format::Table);
        text.lines().take_while(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(rows(200).len(), 1 + 200);
    let long = rows(201);
    assert_eq!(long.len(), 1 + 100 + 1 + 10);
    assert!(long[100].starts_with("ns/p100 "), "{}", long[100]);
    assert!(long[101].ends_with("91 pods are left out here; print them all with -o json"), "{}", long[101]);
    assert!(long[102].starts_with("ns/p192 "), "{}", long[102]);
}

#[test]
fn an_answer_without_pods_is_only_a_summary() {
    let cluster = Cluster::default();
    let outcome = SimulationResult::default();
    let mut out = Vec::new();
    Answer::new((&cluster, &Groups::default()), &outcome, 1)
        .print(Format::Table, &mut out)
        .expect("memory takes everything");
    let text = String::from_utf8(out).expect("text");
    assert!(
        text.starts_with("nodes      0, with 0 pods on them before\npods       0: 0 placed, 0 pending\n"),
        "{text}"
    );
}
