//! The output of `/configz`.

use serde_json::json;

use super::super::Configuration;
use super::accept;
use super::load;

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
    assert_eq!(profile["plugins"]["permit"], json!({}));
    let plugins = profile["plugins"]["multiPoint"]["enabled"].as_array().cloned().unwrap_or_default();
    assert_eq!((plugins.len(), &plugins[0]), (20, &json!({ "name": "SchedulingGates", "weight": 0 })));
    assert_eq!(plugins[4], json!({ "name": "TaintToleration", "weight": 3 }));
    let args = |name: &str| {
        let configs = profile["pluginConfig"].as_array().into_iter().flatten();
        let mut args = configs.filter(|config| config["name"] == name).map(|config| config["args"].clone());
        args.next().unwrap_or_default()
    };
    let kind = |name: &str| format!("{name}Args");
    for (name, own) in [
        ("DefaultPreemption", json!({ "minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100 })),
        ("DynamicResources", json!({ "filterTimeout": "10s", "bindingTimeout": "10m0s" })),
        ("InterPodAffinity", json!({ "hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": false })),
        ("NodeAffinity", json!({})),
        (
            "NodeResourcesBalancedAllocation",
            json!({ "resources": [{ "name": "cpu", "weight": 1 }, { "name": "memory", "weight": 1 }] }),
        ),
        (
            "NodeResourcesFit",
            json!({
                "scoringStrategy": {
                    "type": "LeastAllocated",
                    "resources": [{ "name": "cpu", "weight": 1 }, { "name": "memory", "weight": 1 }],
                },
            }),
        ),
        ("PodTopologySpread", json!({ "defaultingType": "System" })),
        (
            "VolumeBinding",
            json!({
                "bindTimeoutSeconds": 600,
                "shape": [{ "utilization": 0, "score": 10 }, { "utilization": 100, "score": 0 }],
            }),
        ),
    ] {
        let mut expected = own;
        expected["apiVersion"] = json!("kubescheduler.config.k8s.io/v1");
        expected["kind"] = json!(kind(name));
        assert_eq!(args(name), expected);
    }
}

#[test]
fn what_is_shown_reads_back_as_the_same_configuration() {
    let configuration = accept(
        "
parallelism: 3
percentageOfNodesToScore: 100
delayCacheUntilActive: true
clientConnection: {qps: 0.1}
leaderElection: {leaseDuration: 1m0.5s}
enableContentionProfiling: false
profiles:
- schedulerName: built
  percentageOfNodesToScore: 100
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

#[test]
fn sets_are_shown_as_kube_scheduler_shows_them() {
    let configuration = accept(
        "
profiles:
- plugins:
    multiPoint: {enabled: [{name: NodeAffinity, weight: 9}], disabled: [{name: ImageLocality, weight: 4}, {name: x}]}
    filter: {enabled: [{name: NodePorts}]}
  pluginConfig: [{name: NodePorts, args: {b: 2, a: [y]}}, {name: NodeName}, {name: x, args: {}}]
",
    );
    let shown = configuration.to_v1();
    let profile = &shown["profiles"][0];
    let multi_point = &profile["plugins"]["multiPoint"];
    assert_eq!(
        multi_point["disabled"],
        json!([{ "name": "ImageLocality", "weight": 0 }, { "name": "x", "weight": 0 }])
    );
    assert_eq!(multi_point["enabled"][5], json!({ "name": "NodeAffinity", "weight": 9 }));
    assert_eq!(profile["plugins"]["filter"], json!({ "enabled": [{ "name": "NodePorts", "weight": 0 }] }));
    let configs = profile["pluginConfig"].as_array().cloned().unwrap_or_default();
    assert_eq!((configs.len(), &configs[4]), (9, &json!({ "name": "NodePorts", "args": { "a": [true], "b": 2 } })));
}
