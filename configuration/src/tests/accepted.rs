//! Defaults and accepted settings. Warnings are in `cases/warnings.txt`.

use flotilla_framework::profile::duration;
use flotilla_framework::profile::duration::GoDuration;
use flotilla_framework::profile::{
    Args, DefaultPreemptionArgs, DynamicResourcesArgs, InterPodAffinityArgs, PodTopologySpreadDefaulting,
    ResourceWeight, ScoringStrategyKind, ShapePoint, VolumeBindingArgs,
};
use flotilla_framework::registry::Registry;

use super::super::{ClientConnection, Configuration, ElectionFlags, LeaderElection, labels, load_beside};
use super::load;
use super::{accept, with_header};
use crate::features::FeatureGates;

#[test]
fn nothing_but_the_header_is_the_default_configuration() {
    assert_eq!(accept(""), Configuration::default());
    assert_eq!(
        accept("profiles: []\nextenders: []\nleaderElection: {}\nclientConnection: ~\n"),
        Configuration::default()
    );
}

#[test]
fn the_default_configuration_is_that_of_kube_scheduler_with_a_lease_of_its_own() {
    let configuration = Configuration::default();
    assert_eq!(configuration.profiles.len(), 1);
    assert_eq!(&*configuration.profiles[0].scheduler_name, "default-scheduler");
    assert_eq!(configuration.profiles[0].args, Args::default());
    assert_eq!(
        configuration.leader_election,
        LeaderElection {
            leader_elect: true,
            lease_duration_ms: 15_000,
            renew_deadline_ms: 10_000,
            retry_period_ms: 2_000,
            resource_lock: "leases".to_owned(),
            resource_name: "flotilla".to_owned(),
            resource_namespace: "kube-system".to_owned(),
        }
    );
    assert_eq!(
        configuration.client_connection,
        ClientConnection {
            kubeconfig: String::new(),
            accept_content_types: String::new(),
            content_type: "application/vnd.kubernetes.protobuf".to_owned(),
            qps: 50.0,
            burst: 100,
        }
    );
    assert_eq!((configuration.parallelism, configuration.percentage_of_nodes_to_score), (16, None));
    assert_eq!((configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds), (1, 10));
    assert!(configuration.enable_profiling && configuration.enable_contention_profiling);
    assert!(!configuration.delay_cache_until_active && configuration.warnings.is_empty());
}

#[test]
fn everything_that_is_written_is_taken_over() {
    let configuration = accept(
        r#"
parallelism: 0x20
leaderElection:
  leaderElect: true
  leaseDuration: 1m30s
  renewDeadline: 1.5s
  retryPeriod: 250ms
  resourceLock: leases
  resourceName: kube-scheduler
  resourceNamespace: scheduling
clientConnection:
  kubeconfig: /etc/kubeconfig
  acceptContentTypes: application/json
  contentType: application/json
  qps: -1.5
  burst: 7
enableProfiling: false
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 2
delayCacheUntilActive: true
percentageOfNodesToScore: 100
profiles:
- schedulerName: "one"
- schedulerName: two
"#,
    );
    let leader = &configuration.leader_election;
    assert_eq!((leader.lease_duration_ms, leader.renew_deadline_ms, leader.retry_period_ms), (90_000, 1_500, 250));
    assert_eq!((leader.resource_name.as_str(), leader.resource_namespace.as_str()), ("kube-scheduler", "scheduling"));
    let client = &configuration.client_connection;
    assert_eq!((client.kubeconfig.as_str(), client.qps, client.burst), ("/etc/kubeconfig", -1.5, 7));
    assert_eq!(
        (client.accept_content_types.as_str(), client.content_type.as_str()),
        ("application/json", "application/json")
    );
    assert_eq!((configuration.parallelism, configuration.percentage_of_nodes_to_score), (32, Some(100)));
    assert_eq!((configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds), (2, 2));
    assert!(!configuration.enable_profiling && !configuration.enable_contention_profiling);
    assert!(configuration.delay_cache_until_active && configuration.warnings.is_empty());
    assert!(configuration.profile("two").is_some_and(|profile| &*profile.scheduler_name == "two"));
    assert!(configuration.profile("default-scheduler").is_none());
}

#[test]
fn zero_and_empty_are_the_same_as_unset() {
    let configuration = accept(
        "leaderElection: {leaseDuration: 0h, renewDeadline: '0', retryPeriod: 0s, resourceLock: '', resourceName: ''}\n\
         clientConnection: {qps: 0, burst: 0, contentType: ''}\n",
    );
    assert_eq!(configuration, Configuration::default());
}

#[test]
fn without_an_election_its_rules_do_not_hold() {
    let configuration = accept(
        "leaderElection: {leaderElect: false, leaseDuration: -1s, renewDeadline: 1h, resourceLock: endpoints}\n",
    );
    assert_eq!(configuration.leader_election.lease_duration_ms, 0);
}

#[test]
fn the_same_configuration_may_be_written_in_many_ways() {
    let plain = accept("parallelism: 4\nprofiles:\n- schedulerName: a\n");
    let header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    let json = r#"{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
                   "parallelism": 4, "profiles": [{"schedulerName": "a"}]}"#;
    let crlf = format!("{header}parallelism: 4\nprofiles:\n- schedulerName: a\n").replace('\n', "\r\n");
    let marked =
        format!("\u{feff}---\n{header}parallelism: &n 4 # four\nprofiles: !!seq [{{schedulerName: !!str a}}]\n...\n");
    for text in [json.to_owned(), crlf, marked] {
        assert_eq!(load(&text, "f").as_ref(), Ok(&plain), "{text}");
    }
}

#[test]
fn arguments_are_read_and_completed() {
    let configuration = accept(
        "
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeResourcesFitArgs
      ignoredResources: [example.com/gpu]
      ignoredResourceGroups: [example.org]
      scoringStrategy:
        type: RequestedToCapacityRatio
        resources: [{name: cpu, weight: 0}, {name: example.com/gpu, weight: 100}]
        requestedToCapacityRatio:
          shape: [{utilization: 0, score: 10}, {utilization: 100}]
  - name: NodeResourcesBalancedAllocation
    args: {resources: [{name: memory}, {name: ephemeral-storage, weight: 1}]}
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]
        preferredDuringSchedulingIgnoredDuringExecution:
        - {weight: 5, preference: {matchFields: [{key: metadata.name, operator: NotIn, values: ['n']}]}}
",
    );
    let args = &configuration.profiles[0].args;
    let fit = &args.node_resources_fit;
    assert_eq!(
        (fit.ignored_resources.as_slice(), fit.ignored_resource_groups.as_slice()),
        (&["example.com/gpu".to_owned()][..], &["example.org".to_owned()][..])
    );
    assert_eq!(fit.scoring_strategy.kind, ScoringStrategyKind::RequestedToCapacityRatio);
    assert_eq!(fit.scoring_strategy.resources, [weight("cpu", 1), weight("example.com/gpu", 100)]);
    let shape = [ShapePoint { utilization: 0, score: 10 }, ShapePoint { utilization: 100, score: 0 }];
    assert_eq!(fit.scoring_strategy.shape, shape);
    let balanced = &args.node_resources_balanced_allocation.resources;
    assert_eq!(balanced, &[weight("memory", 1), weight("ephemeral-storage", 1)]);
    let affinity = serde_json::json!(args.node_affinity);
    assert_eq!(
        affinity,
        serde_json::json!({"addedAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [{
                "weight": 5,
                "preference": {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}]}
            }],
        }})
    );
}

fn weight(name: &str, weight: i64) -> ResourceWeight {
    ResourceWeight { name: name.to_owned(), weight }
}

#[test]
fn arguments_may_be_left_out_or_say_what_is_the_default() {
    let configuration = accept(
        "
profiles:
- pluginConfig:
  - name: NodeAffinity
  - {name: NodeResourcesFit, args: {scoringStrategy: {type: LeastAllocated, resources: []}}}
  - {name: NodeResourcesBalancedAllocation, args: null}
  - {name: DefaultPreemption, args: {minCandidateNodesPercentage: 0}}
  - {name: DynamicResources, args: {filterTimeout: 0s, bindingTimeout: 1s}}
  - {name: InterPodAffinity, args: {hardPodAffinityWeight: 100, ignorePreferredTermsOfExistingPods: true}}
  - {name: VolumeBinding, args: {bindTimeoutSeconds: 0, shape: []}}
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]
",
    );
    let args = &configuration.profiles[0].args;
    let seconds = |seconds: i64| Some(GoDuration { nanoseconds: seconds * 1_000_000_000 });
    let expected = Args {
        default_preemption: DefaultPreemptionArgs {
            min_candidate_nodes_percentage: 0,
            min_candidate_nodes_absolute: 100,
        },
        dynamic_resources: DynamicResourcesArgs { filter_timeout: seconds(0), binding_timeout: seconds(1) },
        inter_pod_affinity: InterPodAffinityArgs {
            hard_pod_affinity_weight: 100,
            ignore_preferred_terms_of_existing_pods: true,
        },
        volume_binding: VolumeBindingArgs { bind_timeout_seconds: 0, ..VolumeBindingArgs::default() },
        pod_topology_spread: args.pod_topology_spread.clone(),
        ..Args::default()
    };
    assert_eq!(*args, expected);
    assert_eq!(args.pod_topology_spread.defaulting_type, PodTopologySpreadDefaulting::List);
    assert_eq!(args.pod_topology_spread.default_constraints[0].topology_key, "topology.kubernetes.io/zone");
    assert!(configuration.warnings.is_empty());
}

#[test]
fn durations_are_those_of_go() {
    let nanoseconds = [
        ("0", Some(0)),
        ("-0", Some(0)),
        ("15s", Some(15_000_000_000)),
        ("1m30s", Some(90_000_000_000)),
        ("1.5h", Some(5_400_000_000_000)),
        (".5s", Some(500_000_000)),
        ("1.s", Some(1_000_000_000)),
        ("+1us", Some(1_000)),
        ("2\u{b5}s", Some(2_000)),
        ("2\u{3bc}s", Some(2_000)),
        ("-1ms", Some(-1_000_000)),
        ("0.0000000019s", Some(1)),
        ("2562047h47m16.854775807s", Some(i64::MAX)),
        ("2562047h47m16.854775808s", None),
        ("99999999999999999999s", None),
        ("", None),
        ("-", None),
        ("15", None),
        ("s", None),
        (".s", None),
        ("1d", None),
        ("1 s", None),
        ("1s ", None),
        ("1e3s", None),
        ("--1s", None),
    ];
    for (text, expected) in nanoseconds {
        assert_eq!(duration::parse(text).ok(), expected, "{text:?}");
    }
}

#[test]
fn names_and_values_of_labels_are_those_of_kubernetes() {
    let long = "a".repeat(63);
    let prefixed = format!("{}.io/{long}", vec!["a".repeat(49); 5].join("."));
    for name in ["cpu", "example.com/gpu", "A_b.c-d", long.as_str(), prefixed.as_str()] {
        assert!(labels::is_name(name), "{name}");
    }
    let longer = "a".repeat(64);
    for name in ["", "/a", "a/", "a/b/c", "-a", "a-", "a b", "A.com/a", "a..b/c", longer.as_str()] {
        assert!(!labels::is_name(name), "{name}");
    }
    assert!(labels::is_value("") && labels::is_value("a.b") && !labels::is_value("a/b") && !labels::is_value("-1"));
}

#[test]
fn aliases_and_merge_keys_are_put_in_place() {
    let aliased = accept(
        "
clientConnection: {qps: &many 7, burst: *many}
profiles:
- &profile
  schedulerName: &first one
  plugins: &plugins
    score: &score
      enabled: [&locality {name: ImageLocality, weight: 3}]
- <<: [{percentageOfNodesToScore: 100}, {plugins: *plugins}]
  schedulerName: two
- schedulerName: three
  plugins: {score: {<<: *score, disabled: [{<<: *locality}]}}
leaderElection:
  <<: {leaderElect: no, <<: {retryPeriod: 3s}}
",
    );
    let written = accept(
        "
clientConnection: {qps: 7, burst: 7}
profiles:
- {schedulerName: one, plugins: {score: {enabled: [{name: ImageLocality, weight: 3}]}}}
- {schedulerName: two, percentageOfNodesToScore: 100, plugins: {score: {enabled: [{name: ImageLocality, weight: 3}]}}}
- schedulerName: three
  plugins: {score: {enabled: [{name: ImageLocality, weight: 3}], disabled: [{name: ImageLocality}]}}
leaderElection: {leaderElect: false, retryPeriod: 3s}
",
    );
    assert_eq!(aliased, written);
}

#[test]
fn what_comes_after_the_first_document_is_not_read() {
    let configuration = accept("parallelism: 4\n---\nnobody: [reads\n");
    assert_eq!(configuration.parallelism, 4);
}

#[test]
fn a_renewal_deadline_just_above_the_stretched_retry_period_will_do() {
    assert_eq!(accept("leaderElection: {renewDeadline: 2.401s}\n").leader_election.renew_deadline_ms, 2_401);
}

#[test]
fn the_rules_of_an_election_hold_for_the_file_with_the_flags_in_it() {
    let text = with_header("leaderElection: {leaseDuration: 5s, resourceLock: endpoints, resourceName: a}\n");
    let beside = |flags: &ElectionFlags| load_beside(&text, "f", &FeatureGates::default(), Registry::built_in(), flags);
    let errors = beside(&ElectionFlags::default()).map_err(|errors| errors.errors.len());
    assert_eq!(errors.err(), Some(2));
    let flags = ElectionFlags {
        renew_deadline_ms: Some(4_000),
        resource_lock: Some("leases".to_owned()),
        resource_name: Some("b".to_owned()),
        ..ElectionFlags::default()
    };
    let election = beside(&flags).map(|configuration| configuration.leader_election);
    let expected = LeaderElection {
        lease_duration_ms: 5_000,
        renew_deadline_ms: 4_000,
        resource_name: "b".to_owned(),
        ..LeaderElection::default()
    };
    assert_eq!(election, Ok(expected));
    assert!(beside(&ElectionFlags { leader_elect: Some(false), ..ElectionFlags::default() }).is_ok());
}

#[test]
fn what_only_repeats_the_default_set_asks_for_nothing_that_is_missing() {
    let stock = Configuration::default();
    let repeated = accept("profiles: [{plugins: {multiPoint: {enabled: [{name: DynamicResources, weight: 2}]}}}]\n");
    assert_eq!(repeated.profiles[0].plugins, stock.profiles[0].plugins);
    let written = serde_yaml::to_string(&stock.to_v1()).unwrap_or_default();
    let again = load(&written, "written.yaml").map_err(|errors| errors.to_string());
    assert_eq!(again.map(|again| again.profiles), Ok(stock.profiles));
}
