//! What `/configz` shows.
//!
//! Knows: the form of v1. Must not know: how it is built.

use serde_json::json;

use super::super::{Configuration, load};
use super::accept;

#[test]
fn the_default_configuration_is_shown_in_full() {
    let shown = Configuration::default().to_v1();
    assert_eq!(shown["apiVersion"], "kubescheduler.config.k8s.io/v1");
    assert_eq!(shown["kind"], "KubeSchedulerConfiguration");
    assert_eq!(
        shown["leaderElection"],
        json!({
            "leaderElect": true,
            "leaseDuration": "15s",
            "renewDeadline": "10s",
            "retryPeriod": "2s",
            "resourceLock": "leases",
            "resourceName": "flotilla",
            "resourceNamespace": "kube-system",
        })
    );
    assert_eq!(shown["clientConnection"]["qps"], json!(50.0));
    let profile = &shown["profiles"][0];
    assert_eq!(profile["schedulerName"], "default-scheduler");
    assert_eq!(profile["plugins"]["multiPoint"], json!({ "disabled": [{ "name": "*" }] }));
    assert_eq!(profile["plugins"]["score"]["enabled"][0], json!({ "name": "TaintToleration", "weight": 3 }));
    assert_eq!(profile["plugins"]["permit"], json!({}));
    let names: Vec<_> =
        profile["pluginConfig"].as_array().into_iter().flatten().map(|config| &config["name"]).collect();
    assert_eq!(names, ["NodeAffinity", "NodeResourcesBalancedAllocation", "NodeResourcesFit"]);
    assert_eq!(
        profile["pluginConfig"][2]["args"],
        json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "NodeResourcesFitArgs",
            "scoringStrategy": {
                "type": "LeastAllocated",
                "resources": [{ "name": "cpu", "weight": 1 }, { "name": "memory", "weight": 1 }],
            },
        })
    );
}

#[test]
fn what_is_shown_reads_back_as_the_same_configuration() {
    let configuration = accept(
        "
parallelism: 3
percentageOfNodesToScore: 100
clientConnection: {qps: 0.1}
leaderElection: {leaseDuration: 1m0.5s}
enableContentionProfiling: false
profiles:
- schedulerName: built
  plugins:
    multiPoint:
      disabled: [{name: '*'}]
      enabled:
      - {name: DefaultBinder}
      - {name: PrioritySort}
      - {name: ImageLocality, weight: 6}
      - {name: NodeResourcesFit}
      - {name: NodeAffinity}
    filter: {enabled: [{name: NodeAffinity}, {name: NodeName}]}
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: RequestedToCapacityRatio
        requestedToCapacityRatio: {shape: [{utilization: 10, score: 1}, {utilization: 20, score: 2}]}
  - name: NodeAffinity
    args:
      addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}
",
    );
    let shown = configuration.to_v1();
    assert_eq!(shown["clientConnection"]["qps"], json!(0.1));
    assert_eq!(load(&shown.to_string(), "json").as_ref(), Ok(&configuration));
    let yaml = serde_yaml::to_string(&shown).unwrap_or_default();
    assert_eq!(load(&yaml, "yaml"), Ok(configuration));
}

#[test]
fn arguments_of_plugins_that_do_not_run_are_not_shown() {
    let configuration = accept("profiles:\n- plugins: {multiPoint: {disabled: [{name: NodeAffinity}]}}\n");
    let shown = configuration.to_v1().to_string();
    assert!(!shown.contains("NodeAffinityArgs") && shown.contains("NodeResourcesFitArgs"));
}
