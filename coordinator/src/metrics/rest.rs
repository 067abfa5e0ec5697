//! Counts and durations of requests to the API server, as in client-go.
//!
//! One registry serves the whole process, as client-go's does, because clients exist before the endpoints.
//!
//! Source: component-base `metrics/prometheus/restclient/metrics.go`.

use std::{sync::LazyLock, time::Duration};

use http::{Method, StatusCode};
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

static REQUESTS: LazyLock<Requests> = LazyLock::new(Requests::new);

const BUCKETS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

struct Requests {
    registry: Registry,
    results: IntCounterVec,
    durations: HistogramVec,
    waits: HistogramVec,
}

impl Requests {
    fn new() -> Self {
        let registry = Registry::new();
        let histograms = |name: &str, help: &str| {
            let options = HistogramOpts::new(name, help).buckets(BUCKETS.to_vec());
            let made = HistogramVec::new(options, &["verb", "host"]).expect("the names of this file are valid");
            registry.register(Box::new(made.clone())).expect("each name is registered once");
            made
        };
        let durations = histograms(
            "rest_client_request_duration_seconds",
            "[ALPHA] Request latency in seconds. Broken down by verb, and host.",
        );
        let waits = histograms(
            "rest_client_rate_limiter_duration_seconds",
            "[ALPHA] Client side rate limiter latency in seconds. Broken down by verb, and host.",
        );
        let help = "[ALPHA] Number of HTTP requests, partitioned by status code, method, and host.";
        let results = IntCounterVec::new(Opts::new("rest_client_requests_total", help), &["code", "method", "host"]);
        let results = results.expect("the names of this file are valid");
        registry.register(Box::new(results.clone())).expect("each name is registered once");
        Self { registry, results, durations, waits }
    }
}

pub(super) fn registry() -> &'static Registry {
    &REQUESTS.registry
}

/// Counts an answered or failed request; `code` is absent after a failure.
pub(crate) fn answered(method: &Method, host: &str, code: Option<StatusCode>, took: Duration) {
    // client-go's label for a request without an answer.
    let code = code.as_ref().map_or("<error>", StatusCode::as_str);
    REQUESTS.results.with_label_values(&[code, method.as_str(), host]).inc();
    REQUESTS.durations.with_label_values(&[method.as_str(), host]).observe(took.as_secs_f64());
}

pub(crate) fn waited(method: &Method, host: &str, took: Duration) {
    REQUESTS.waits.with_label_values(&[method.as_str(), host]).observe(took.as_secs_f64());
}
