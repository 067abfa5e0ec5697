//! The flags for TLS and sockets of the HTTPS endpoints, named as in kube-scheduler.

use std::path::PathBuf;

use super::{SERVING, parse_bool};

/// TLS and sockets of the HTTPS endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = SERVING)]
pub struct TlsFlags {
    /// The folder with kube-scheduler.crt and kube-scheduler.key, without --tls-cert-file. If neither exists, a self-signed certificate is
    /// written there
    #[arg(long, value_name = "FOLDER")]
    pub cert_dir: Option<PathBuf>,

    /// Cipher suites of TLS 1.2 by their IANA names, separated by commas. Those of TLS 1.3 are always offered. Without it, all that are
    /// implemented
    #[arg(long, value_name = "SUITES", value_delimiter = ',', value_parser = parse_suite)]
    pub tls_cipher_suites: Vec<String>,

    /// Key exchange groups by their TLS numbers, separated by commas: 23 (P-256), 24 (P-384), 29 (X25519). Without it, all three
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    pub tls_curve_preferences: Vec<u16>,

    /// The minimum version of TLS, VersionTLS12 or VersionTLS13. Versions before 1.2 are accepted here and never offered
    #[arg(long, value_name = "VERSION", default_value = "VersionTLS12", value_parser = VERSIONS)]
    pub tls_min_version: String,

    /// Serve only HTTP/1.1
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true", value_parser = parse_bool)]
    #[arg(action = clap::ArgAction::Set)]
    pub disable_http2_serving: bool,

    /// Set SO_REUSEPORT, so that another process can listen on the same address and port
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true", value_parser = parse_bool)]
    #[arg(action = clap::ArgAction::Set)]
    pub permit_port_sharing: bool,
}

const VERSIONS: [&str; 4] = ["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"];

/// The suites of TLS 1.2 and 1.3 that kube-scheduler accepts, except those with a second name.
const SUITES: [&str; 25] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

/// The IANA name of a suite. kube-scheduler also accepts two names without their hash.
fn parse_suite(text: &str) -> Result<String, String> {
    let name = if text.ends_with("CHACHA20_POLY1305") { format!("{text}_SHA256") } else { text.to_owned() };
    if SUITES.contains(&name.as_str()) {
        return Ok(name);
    }
    Err("no such cipher suite; write IANA names, such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256".to_owned())
}
