//! The configuration of an extender. Source: `Extender` in `k8s.io/kube-scheduler/config/v1`.

use k8s_openapi::ByteString;
use serde::{Deserialize, Serialize};

use crate::profile::duration::GoDuration;

/// One extender, serialised as `kubescheduler.config.k8s.io/v1` does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Extender {
    /// The prefix of every URL.
    pub url_prefix: String,
    /// The URL suffix for filtering; empty if it does not filter.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub filter_verb: String,
    /// The URL suffix for preemption; empty if it takes no part.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preempt_verb: String,
    /// The URL suffix for scoring; empty if it does not score.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prioritize_verb: String,
    /// The factor of its scores; at least 1 if it scores.
    #[serde(skip_serializing_if = "is_zero")]
    pub weight: i64,
    /// The URL suffix for binding; empty if it does not bind. At most one extender binds.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bind_verb: String,
    /// Whether calls use HTTPS.
    #[serde(rename = "enableHTTPS", skip_serializing_if = "is_false")]
    pub enable_https: bool,
    /// TLS settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_config: Option<ExtenderTlsConfig>,
    /// The timeout of a call; 5 seconds by default.
    pub http_timeout: GoDuration,
    /// Whether it caches nodes, so that calls contain only node names.
    #[serde(skip_serializing_if = "is_false")]
    pub node_cache_capable: bool,
    /// The extended resources that it manages; empty if it is called for every pod.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub managed_resources: Vec<ExtenderManagedResource>,
    /// Whether scheduling continues if it fails.
    #[serde(skip_serializing_if = "is_false")]
    pub ignorable: bool,
}

/// TLS settings of an extender. Data takes precedence over files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtenderTlsConfig {
    /// Whether its certificate is not verified.
    #[serde(skip_serializing_if = "is_false")]
    pub insecure: bool,
    /// The expected name in its certificate; empty for the URL's host.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub server_name: String,
    /// The path of the client's certificate.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cert_file: String,
    /// The path of the client's key.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key_file: String,
    /// The path of the trusted certificates.
    #[serde(rename = "caFile", skip_serializing_if = "String::is_empty")]
    pub ca_file: String,
    /// The client's certificate in PEM.
    #[serde(skip_serializing_if = "is_empty")]
    pub cert_data: ByteString,
    /// The client's key in PEM.
    #[serde(skip_serializing_if = "is_empty")]
    pub key_data: ByteString,
    /// The trusted certificates in PEM.
    #[serde(rename = "caData", skip_serializing_if = "is_empty")]
    pub ca_data: ByteString,
}

/// An extended resource that an extender manages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtenderManagedResource {
    /// Its name, such as `example.com/gpu`.
    pub name: String,
    /// Whether NodeResourcesFit ignores it.
    #[serde(skip_serializing_if = "is_false")]
    pub ignored_by_scheduler: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(value: &i64) -> bool {
    *value == 0
}

const fn is_empty(bytes: &ByteString) -> bool {
    bytes.0.is_empty()
}
