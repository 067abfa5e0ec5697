//! What a configuration says of an extender.
//!
//! Knows: the fields, and how they are written. Must not know: how they are read, what is refused, or what any is for.
//!
//! Source: `Extender` in `k8s.io/kube-scheduler/config/v1`.

use k8s_openapi::ByteString;
use serde::{Deserialize, Serialize};

use crate::profile::duration::GoDuration;

/// One extender. Serialises as `kubescheduler.config.k8s.io/v1` has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Extender {
    /// What every URL begins with.
    pub url_prefix: String,
    /// The end of the URL that filters nodes; empty where it does not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub filter_verb: String,
    /// The end of the URL that is asked about preemption; empty where it is not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preempt_verb: String,
    /// The end of the URL that scores nodes; empty where it does not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prioritize_verb: String,
    /// What its scores are multiplied with; at least 1 where it scores.
    #[serde(skip_serializing_if = "is_zero")]
    pub weight: i64,
    /// The end of the URL that binds; empty where it does not. At most one extender binds.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bind_verb: String,
    /// Whether it is asked over HTTPS.
    #[serde(rename = "enableHTTPS", skip_serializing_if = "is_false")]
    pub enable_https: bool,
    /// How it is trusted, and how it trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_config: Option<ExtenderTlsConfig>,
    /// How long it may take to answer; 5 seconds by default.
    pub http_timeout: GoDuration,
    /// Whether it knows the nodes, so that it is told their names only.
    #[serde(skip_serializing_if = "is_false")]
    pub node_cache_capable: bool,
    /// The extended resources that it is asked about; empty where it is asked about every pod.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub managed_resources: Vec<ExtenderManagedResource>,
    /// Whether scheduling goes on where it does not answer.
    #[serde(skip_serializing_if = "is_false")]
    pub ignorable: bool,
}

/// How to talk TLS with an extender. Data goes before files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtenderTlsConfig {
    /// Whether its certificate is not looked at.
    #[serde(skip_serializing_if = "is_false")]
    pub insecure: bool,
    /// The name that its certificate is for; empty for that in the URL.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub server_name: String,
    /// The path of the client's certificate.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cert_file: String,
    /// The path of the client's key.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key_file: String,
    /// The path of the certificates that are trusted.
    #[serde(rename = "caFile", skip_serializing_if = "String::is_empty")]
    pub ca_file: String,
    /// The client's certificate in PEM.
    #[serde(skip_serializing_if = "is_empty")]
    pub cert_data: ByteString,
    /// The client's key in PEM.
    #[serde(skip_serializing_if = "is_empty")]
    pub key_data: ByteString,
    /// The certificates that are trusted, in PEM.
    #[serde(rename = "caData", skip_serializing_if = "is_empty")]
    pub ca_data: ByteString,
}

/// An extended resource that an extender manages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtenderManagedResource {
    /// Its name, such as `example.com/gpu`.
    pub name: String,
    /// Whether NodeResourcesFit does not look at it.
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
