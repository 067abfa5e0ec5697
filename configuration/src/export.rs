//! Serializes a configuration as `kubescheduler.config.k8s.io/v1`, for `/configz`.
//!
//! Source: `options.LogOrWriteConfig` in `cmd/kube-scheduler`, with the profiles that `NewFramework` in `pkg/scheduler/framework/runtime`
//! captures.

use flotilla_framework::profile::duration;
use flotilla_framework::profile::{Args, NodeResourcesFitArgs, Profile};
use serde_json::{Map, Value, json};

use super::arguments::CONFIGURABLE;
use super::catalogue::{self, Point};
use super::header::{API_VERSION, KIND};
use super::{Configuration, PluginSet, PluginSets, WrittenProfile};

pub(super) fn to_v1(configuration: &Configuration) -> Value {
    let leader = &configuration.leader_election;
    let client = &configuration.client_connection;
    let default = WrittenProfile::default();
    let written = configuration.written.iter().chain(std::iter::repeat(&default));
    let mut shown = json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "parallelism": configuration.parallelism,
        "leaderElection": {
            "leaderElect": leader.leader_elect,
            "leaseDuration": milliseconds(leader.lease_duration_ms),
            "renewDeadline": milliseconds(leader.renew_deadline_ms),
            "retryPeriod": milliseconds(leader.retry_period_ms),
            "resourceLock": leader.resource_lock,
            "resourceName": leader.resource_name,
            "resourceNamespace": leader.resource_namespace,
        },
        "clientConnection": {
            "kubeconfig": client.kubeconfig,
            "acceptContentTypes": client.accept_content_types,
            "contentType": client.content_type,
            "qps": number(client.qps),
            "burst": client.burst,
        },
        "enableProfiling": configuration.enable_profiling,
        "enableContentionProfiling": configuration.enable_contention_profiling,
        "percentageOfNodesToScore": configuration.percentage_of_nodes_to_score.unwrap_or(0),
        "podInitialBackoffSeconds": configuration.pod_initial_backoff_seconds,
        "podMaxBackoffSeconds": configuration.pod_max_backoff_seconds,
        "profiles": configuration.profiles.iter().zip(written).map(profile).collect::<Vec<_>>(),
    });
    if let Value::Object(fields) = &mut shown {
        if !configuration.extenders.is_empty() {
            fields.insert("extenders".to_owned(), json!(configuration.extenders));
        }
        if configuration.delay_cache_until_active {
            fields.insert("delayCacheUntilActive".to_owned(), json!(true));
        }
    }
    shown
}

fn milliseconds(milliseconds: u64) -> String {
    duration::format(i64::try_from(milliseconds).unwrap_or(i64::MAX).saturating_mul(1_000_000))
}

fn number(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_else(|_| f64::from(value))
}

fn profile((profile, written): (&Profile, &WrittenProfile)) -> Value {
    let mut fields = Map::new();
    fields.insert("schedulerName".to_owned(), json!(profile.scheduler_name));
    if let Some(percentage) = profile.percentage_of_nodes_to_score {
        fields.insert("percentageOfNodesToScore".to_owned(), json!(percentage));
    }
    fields.insert("plugins".to_owned(), plugins(&written.plugins));
    let configs = plugin_config(&profile.args, written);
    if !configs.is_empty() {
        fields.insert("pluginConfig".to_owned(), Value::Array(configs));
    }
    Value::Object(fields)
}

fn plugins(sets: &PluginSets) -> Value {
    let empty = PluginSet::default();
    let points = Point::ALL.map(|point| (point.key(), sets.points.get(point.key()).unwrap_or(&empty)));
    let all = points.into_iter().chain([("multiPoint", &sets.multi_point)]);
    Value::Object(all.map(|(key, shown)| (key.to_owned(), set(shown))).collect())
}

/// Go omits an empty list but not a weight of 0.
fn set(set: &PluginSet) -> Value {
    let mut lists = Map::new();
    if !set.enabled.is_empty() {
        let enabled = set.enabled.iter().map(|(name, weight)| json!({ "name": name, "weight": weight }));
        lists.insert("enabled".to_owned(), enabled.collect());
    }
    if !set.disabled.is_empty() {
        let disabled = set.disabled.iter().map(|name| json!({ "name": name, "weight": 0 }));
        lists.insert("disabled".to_owned(), disabled.collect());
    }
    Value::Object(lists)
}

/// The arguments of the built plugins, sorted by name.
fn plugin_config(args: &Args, written: &WrittenProfile) -> Vec<Value> {
    let typed = CONFIGURABLE.into_iter().map(|name| (name, typed(name, args)));
    // kube-scheduler drops arguments of plugins that it does not have.
    let others = written.other_args.iter().filter(|(name, _)| catalogue::find(name).is_some());
    let own = args.own.iter();
    let all = typed.chain(others.chain(own).map(|(name, args)| (name.as_str(), args.clone())));
    let mut built: Vec<(&str, Value)> = all.filter(|(name, _)| written.plugins.builds(name)).collect();
    built.sort_by_key(|(name, _)| *name);
    built.into_iter().map(|(name, args)| json!({ "name": name, "args": args })).collect()
}

fn typed(name: &str, args: &Args) -> Value {
    let own = match name {
        "DefaultPreemption" => json!(args.default_preemption),
        "DynamicResources" => json!(args.dynamic_resources),
        "InterPodAffinity" => json!(args.inter_pod_affinity),
        "NodeAffinity" => json!(args.node_affinity),
        "NodeResourcesBalancedAllocation" => json!(args.node_resources_balanced_allocation),
        "NodeResourcesFit" => fit(&args.node_resources_fit),
        "PodTopologySpread" => json!(args.pod_topology_spread),
        "VolumeBinding" => json!(args.volume_binding),
        _ => Value::Null,
    };
    let mut complete = Map::new();
    complete.insert("apiVersion".to_owned(), json!(API_VERSION));
    complete.insert("kind".to_owned(), json!(format!("{name}Args")));
    if let Value::Object(fields) = own {
        complete.extend(fields);
    }
    Value::Object(complete)
}

/// In v1 the shape is nested one level deeper than in a profile.
fn fit(args: &NodeResourcesFitArgs) -> Value {
    let mut value = json!(args);
    if let Some(Value::Object(strategy)) = value.get_mut("scoringStrategy")
        && let Some(shape) = strategy.remove("shape")
    {
        strategy.insert("requestedToCapacityRatio".to_owned(), json!({ "shape": shape }));
    }
    value
}
