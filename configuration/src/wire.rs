//! The fields of a KubeSchedulerConfiguration, all of them optional.
//!
//! Source: `k8s.io/kube-scheduler/config/v1`. Every field is an `Option`: Go reads null as unset, and the decoder reports an unreadable
//! field once and drops it.

use std::fmt;
use std::marker::PhantomData;

use flotilla_framework::profile::duration;
use k8s_openapi::ByteString;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A struct that deserializes only from a mapping: serde alone would also accept a list of its fields.
#[derive(Debug, Default)]
pub(super) struct Block<T>(pub(super) T);

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for Block<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OnlyMapping<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de> + Default> Visitor<'de> for OnlyMapping<T> {
            type Value = Block<T>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a mapping")
            }

            fn visit_map<M: MapAccess<'de>>(self, fields: M) -> Result<Self::Value, M::Error> {
                T::deserialize(MapAccessDeserializer::new(fields)).map(Block)
            }

            /// A null element of a list is an element without fields.
            fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
                Ok(Block(T::default()))
            }
        }
        deserializer.deserialize_any(OnlyMapping(PhantomData))
    }
}

/// Nanoseconds, in Go's duration syntax.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Duration(pub(super) i64);

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct GoSyntax;
        impl Visitor<'_> for GoSyntax {
            type Value = Duration;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a duration with its unit, such as 15s, 1m30s or 1.5h")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
                let parsed = duration::parse(text).ok().map(Duration);
                parsed.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(GoSyntax)
    }
}

impl Duration {
    /// Go rejects null for a duration that is not a pointer.
    fn never_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
        Self::deserialize(deserializer).map(Some)
    }
}

/// Null in a list becomes an empty text.
fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    let texts: Option<Vec<Option<String>>> = Deserialize::deserialize(deserializer)?;
    Ok(texts.map(|texts| texts.into_iter().map(Option::unwrap_or_default).collect()))
}

/// Declares structs with optional camel-case fields that deny unknown fields.
macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident { $($(#[$attribute:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Default, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
        pub(super) struct $name {
            $($(#[$attribute])* pub(super) $field: Option<$type>,)*
        }
    )*};
}

fields! {
    /// The whole file.
    Document {
        api_version: String,
        kind: String,
        parallelism: i32,
        leader_election: Block<LeaderElection>,
        client_connection: Block<ClientConnection>,
        enable_profiling: bool,
        enable_contention_profiling: bool,
        percentage_of_nodes_to_score: i32,
        pod_initial_backoff_seconds: i64,
        pod_max_backoff_seconds: i64,
        profiles: Vec<Block<Profile>>,
        extenders: Vec<Block<Extender>>,
        delay_cache_until_active: bool,
    }

    /// `leaderElection`.
    LeaderElection {
        leader_elect: bool,
        #[serde(deserialize_with = "Duration::never_null")]
        lease_duration: Duration,
        #[serde(deserialize_with = "Duration::never_null")]
        renew_deadline: Duration,
        #[serde(deserialize_with = "Duration::never_null")]
        retry_period: Duration,
        resource_lock: String,
        resource_name: String,
        resource_namespace: String,
    }

    /// `clientConnection`.
    ClientConnection {
        kubeconfig: String,
        accept_content_types: String,
        content_type: String,
        qps: f64,
        burst: i32,
    }

    /// `extenders[]`.
    Extender {
        url_prefix: String,
        filter_verb: String,
        preempt_verb: String,
        prioritize_verb: String,
        weight: i64,
        bind_verb: String,
        #[serde(rename = "enableHTTPS")]
        enable_https: bool,
        tls_config: Block<ExtenderTlsConfig>,
        #[serde(deserialize_with = "Duration::never_null")]
        http_timeout: Duration,
        node_cache_capable: bool,
        managed_resources: Vec<Block<ExtenderManagedResource>>,
        ignorable: bool,
    }

    /// `extenders[].tlsConfig`.
    ExtenderTlsConfig {
        insecure: bool,
        server_name: String,
        cert_file: String,
        key_file: String,
        #[serde(rename = "caFile")]
        ca_file: String,
        cert_data: ByteString,
        key_data: ByteString,
        #[serde(rename = "caData")]
        ca_data: ByteString,
    }

    /// `extenders[].managedResources[]`.
    ExtenderManagedResource {
        name: String,
        ignored_by_scheduler: bool,
    }

    /// `profiles[]`.
    Profile {
        scheduler_name: String,
        percentage_of_nodes_to_score: i32,
        plugins: Block<Plugins>,
        plugin_config: Vec<Block<PluginConfig>>,
    }

    /// `profiles[].plugins`.
    Plugins {
        pre_enqueue: Block<PluginSet>,
        queue_sort: Block<PluginSet>,
        pre_filter: Block<PluginSet>,
        filter: Block<PluginSet>,
        post_filter: Block<PluginSet>,
        pre_score: Block<PluginSet>,
        score: Block<PluginSet>,
        reserve: Block<PluginSet>,
        permit: Block<PluginSet>,
        pre_bind: Block<PluginSet>,
        bind: Block<PluginSet>,
        post_bind: Block<PluginSet>,
        multi_point: Block<PluginSet>,
        placement_generate: Block<PluginSet>,
        placement_score: Block<PluginSet>,
        pod_group_post_filter: Block<PluginSet>,
    }

    /// `profiles[].plugins.<extension point>`.
    PluginSet {
        enabled: Vec<Block<Plugin>>,
        disabled: Vec<Block<Plugin>>,
    }

    /// One entry of a plugin set.
    Plugin {
        name: String,
        weight: i32,
    }

    /// `profiles[].pluginConfig[]`.
    PluginConfig {
        name: String,
        args: Value,
    }

    /// `DefaultPreemptionArgs`.
    DefaultPreemptionArgs {
        api_version: String,
        kind: String,
        min_candidate_nodes_percentage: i32,
        min_candidate_nodes_absolute: i32,
    }

    /// `DynamicResourcesArgs`.
    DynamicResourcesArgs {
        api_version: String,
        kind: String,
        filter_timeout: Duration,
        binding_timeout: Duration,
    }

    /// `GangSchedulingArgs`, which kube-scheduler does not have.
    GangSchedulingArgs {
        api_version: String,
        kind: String,
        pod_group_search: Block<PodGroupSearch>,
    }

    /// `podGroupSearch` of `GangSchedulingArgs`.
    PodGroupSearch {
        max_steps: i32,
    }

    /// `InterPodAffinityArgs`.
    InterPodAffinityArgs {
        api_version: String,
        kind: String,
        hard_pod_affinity_weight: i32,
        ignore_preferred_terms_of_existing_pods: bool,
    }

    /// `NodeAffinityArgs`.
    NodeAffinityArgs {
        api_version: String,
        kind: String,
        added_affinity: Block<NodeAffinity>,
    }

    /// `NodeResourcesBalancedAllocationArgs`.
    NodeResourcesBalancedAllocationArgs {
        api_version: String,
        kind: String,
        resources: Vec<Block<Resource>>,
    }

    /// `NodeResourcesFitArgs`.
    NodeResourcesFitArgs {
        api_version: String,
        kind: String,
        #[serde(deserialize_with = "texts")]
        ignored_resources: Vec<String>,
        #[serde(deserialize_with = "texts")]
        ignored_resource_groups: Vec<String>,
        scoring_strategy: Block<ScoringStrategy>,
    }

    /// `PodTopologySpreadArgs`.
    PodTopologySpreadArgs {
        api_version: String,
        kind: String,
        default_constraints: Vec<Block<SpreadConstraint>>,
        defaulting_type: String,
    }

    /// `VolumeBindingArgs`.
    VolumeBindingArgs {
        api_version: String,
        kind: String,
        bind_timeout_seconds: i64,
        shape: Vec<Block<ShapePoint>>,
    }

    /// A resource and its weight.
    Resource {
        name: String,
        weight: i64,
    }

    /// `NodeResourcesFitArgs.scoringStrategy`.
    ScoringStrategy {
        #[serde(rename = "type")]
        kind: String,
        resources: Vec<Block<Resource>>,
        requested_to_capacity_ratio: Block<RequestedToCapacityRatio>,
    }

    /// `NodeResourcesFitArgs.scoringStrategy.requestedToCapacityRatio`.
    RequestedToCapacityRatio {
        shape: Vec<Block<ShapePoint>>,
    }

    /// One point of a shape.
    ShapePoint {
        utilization: i32,
        score: i32,
    }

    /// A `TopologySpreadConstraint` of core/v1.
    SpreadConstraint {
        max_skew: i32,
        topology_key: String,
        when_unsatisfiable: String,
        label_selector: Value,
        min_domains: i32,
        node_affinity_policy: String,
        node_taints_policy: String,
        #[serde(deserialize_with = "texts")]
        match_label_keys: Vec<String>,
    }

    /// A `NodeAffinity` of core/v1.
    NodeAffinity {
        #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
        required: Block<NodeSelector>,
        #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
        preferred: Vec<Block<PreferredSchedulingTerm>>,
    }

    /// A `NodeSelector` of core/v1.
    NodeSelector {
        node_selector_terms: Vec<Block<NodeSelectorTerm>>,
    }

    /// A `PreferredSchedulingTerm` of core/v1.
    PreferredSchedulingTerm {
        weight: i32,
        preference: Block<NodeSelectorTerm>,
    }

    /// A `NodeSelectorTerm` of core/v1.
    NodeSelectorTerm {
        match_expressions: Vec<Block<NodeSelectorRequirement>>,
        match_fields: Vec<Block<NodeSelectorRequirement>>,
    }

    /// A `NodeSelectorRequirement` of core/v1.
    NodeSelectorRequirement {
        key: String,
        operator: String,
        #[serde(deserialize_with = "texts")]
        values: Vec<String>,
    }
}
