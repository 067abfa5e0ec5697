//! kube-scheduler's deprecated flags: fields of the configuration, for use without a file.

use flotilla_configuration::Configuration;

use super::parse_bool;

/// Deprecated flags: `None` if not given.
///
/// Source: `DeprecatedOptions` in `cmd/kube-scheduler/app/options/deprecated.go`. A configuration file overrides all of them.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Deprecated, ignored with --config")]
pub struct Deprecated {
    /// enableProfiling. This version has no profiling endpoint either way
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_parser = parse_bool)]
    pub profiling: Option<bool>,

    /// enableContentionProfiling. This version has no profiling endpoint either way
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_parser = parse_bool)]
    pub contention_profiling: Option<bool>,

    /// clientConnection.contentType. It has no effect: the coordinator uses Protobuf, and JSON where the API server offers only JSON
    #[arg(long, value_name = "TYPE")]
    pub kube_api_content_type: Option<String>,

    /// clientConnection.qps: requests per second to the API server; negative for no limit
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub kube_api_qps: Option<f32>,

    /// clientConnection.burst: requests that may be sent at once
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i32).range(0..))]
    pub kube_api_burst: Option<i32>,
}

impl Deprecated {
    /// Sets the fields of the given flags.
    pub fn apply(&self, configuration: &mut Configuration) {
        fn set<T: Clone>(to: &mut T, given: Option<&T>) {
            if let Some(given) = given {
                to.clone_from(given);
            }
        }
        let Self { profiling, contention_profiling, kube_api_content_type, kube_api_qps, kube_api_burst } = self;
        set(&mut configuration.enable_profiling, profiling.as_ref());
        set(&mut configuration.enable_contention_profiling, contention_profiling.as_ref());
        set(&mut configuration.client_connection.content_type, kube_api_content_type.as_ref());
        set(&mut configuration.client_connection.qps, kube_api_qps.as_ref());
        set(&mut configuration.client_connection.burst, kube_api_burst.as_ref());
    }

    /// The given flags, each with the field to set in a file instead.
    #[must_use]
    pub fn given(&self) -> Vec<(&'static str, &'static str)> {
        let Self { profiling, contention_profiling, kube_api_content_type, kube_api_qps, kube_api_burst } = self;
        let flags = [
            (profiling.is_some(), ("--profiling", "enableProfiling")),
            (contention_profiling.is_some(), ("--contention-profiling", "enableContentionProfiling")),
            (kube_api_content_type.is_some(), ("--kube-api-content-type", "clientConnection.contentType")),
            (kube_api_qps.is_some(), ("--kube-api-qps", "clientConnection.qps")),
            (kube_api_burst.is_some(), ("--kube-api-burst", "clientConnection.burst")),
        ];
        flags.into_iter().filter_map(|(given, flag)| given.then_some(flag)).collect()
    }
}
