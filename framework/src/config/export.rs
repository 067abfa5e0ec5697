//! A configuration back in the form that it is written in, for `/configz`.
//!
//! Knows: the shape of `kubescheduler.config.k8s.io/v1`. Must not know: how it is read or checked.

use serde_json::{Map, Value, json};

use super::{API_VERSION, Configuration, KIND, duration};
use crate::profile::{NodeResourcesFitArgs, Plugins, Profile};

/// The whole configuration. Profiles list what runs, with `multiPoint` switched off, so that nothing is added to it.
pub(super) fn to_v1(configuration: &Configuration) -> Value {
    let leader = &configuration.leader_election;
    let client = &configuration.client_connection;
    json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "parallelism": configuration.parallelism,
        "leaderElection": {
            "leaderElect": leader.leader_elect,
            "leaseDuration": duration::format(leader.lease_duration_ms),
            "renewDeadline": duration::format(leader.renew_deadline_ms),
            "retryPeriod": duration::format(leader.retry_period_ms),
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
        "profiles": configuration.profiles.iter().map(profile).collect::<Vec<_>>(),
        "delayCacheUntilActive": configuration.delay_cache_until_active,
    })
}

/// The shortest decimal that reads back as the same 32 bits: 0.1, not 0.10000000149011612.
fn number(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_else(|_| f64::from(value))
}

fn profile(profile: &Profile) -> Value {
    json!({
        "schedulerName": profile.scheduler_name,
        "plugins": plugins(&profile.plugins),
        "pluginConfig": plugin_config(profile),
    })
}

fn plugins(plugins: &Plugins) -> Value {
    let mut points = Map::new();
    points.insert("multiPoint".to_owned(), json!({ "disabled": [{ "name": "*" }] }));
    let lists = [
        ("preEnqueue", &plugins.pre_enqueue),
        ("queueSort", &plugins.queue_sort),
        ("preFilter", &plugins.pre_filter),
        ("filter", &plugins.filter),
        ("postFilter", &plugins.post_filter),
        ("preScore", &plugins.pre_score),
        ("reserve", &plugins.reserve),
        ("permit", &plugins.permit),
        ("preBind", &plugins.pre_bind),
        ("bind", &plugins.bind),
        ("postBind", &plugins.post_bind),
    ];
    for (point, names) in lists {
        let enabled: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
        points.insert(point.to_owned(), set(enabled));
    }
    let weighted = plugins.score.iter().map(|plugin| json!({ "name": plugin.name, "weight": plugin.weight }));
    points.insert("score".to_owned(), set(weighted.collect()));
    Value::Object(points)
}

/// An empty set is `{}`, as Go writes it.
fn set(enabled: Vec<Value>) -> Value {
    if enabled.is_empty() { json!({}) } else { json!({ "enabled": enabled }) }
}

/// The arguments of the plugins that run, in the order of their names.
fn plugin_config(profile: &Profile) -> Vec<Value> {
    let args = &profile.args;
    let balanced = &args.node_resources_balanced_allocation;
    let configs = [
        ("NodeAffinity", json!(args.node_affinity)),
        ("NodeResourcesBalancedAllocation", json!(balanced)),
        ("NodeResourcesFit", fit(&args.node_resources_fit)),
    ];
    let runs = |name: &str| {
        let plugins = &profile.plugins;
        plugins.score.iter().any(|plugin| plugin.name == name)
            || [&plugins.pre_filter, &plugins.filter, &plugins.pre_score]
                .iter()
                .any(|list| list.iter().any(|n| n == name))
    };
    let complete = |(name, args): (&str, Value)| {
        let mut complete = Map::new();
        complete.insert("apiVersion".to_owned(), json!(API_VERSION));
        complete.insert("kind".to_owned(), json!(format!("{name}Args")));
        if let Value::Object(fields) = args {
            complete.extend(fields);
        }
        json!({ "name": name, "args": complete })
    };
    configs.into_iter().filter(|(name, _)| runs(name)).map(complete).collect()
}

/// The shape stands one level deeper in v1 than in a profile.
fn fit(args: &NodeResourcesFitArgs) -> Value {
    let mut value = json!(args);
    if let Some(Value::Object(strategy)) = value.get_mut("scoringStrategy")
        && let Some(shape) = strategy.remove("shape")
    {
        strategy.insert("requestedToCapacityRatio".to_owned(), json!({ "shape": shape }));
    }
    value
}
