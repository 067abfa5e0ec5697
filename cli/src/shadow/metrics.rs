//! Prometheus metrics of `flotilla shadow`.

use anyhow::Context as _;
use axum::{Router, http::StatusCode, routing::get};
use prometheus::{IntCounter, IntCounterVec, Opts, Registry, TextEncoder};
use tokio::net::TcpListener;

use crate::comparison::{Found, Report};

#[derive(Clone)]
pub(super) struct Metrics {
    registry: Registry,
    decisions: IntCounterVec,
    differences: IntCounterVec,
    missed: IntCounter,
}

impl Metrics {
    /// Each outcome starts at 0.
    pub(super) fn new() -> anyhow::Result<Self> {
        let registry = Registry::new();
        let compared = "Decisions of the other scheduler by outcome of the comparison";
        let by_plugin = "Differing decisions by the plugins that cause the difference";
        let decisions = IntCounterVec::new(Opts::new("flotilla_shadow_decisions_total", compared), &["outcome"])?;
        let differences = IntCounterVec::new(Opts::new("flotilla_shadow_differences_total", by_plugin), &["plugin"])?;
        let missed = "Decisions not compared because too many were waiting";
        let missed = IntCounter::new("flotilla_shadow_decisions_missed_total", missed)?;
        registry.register(Box::new(decisions.clone()))?;
        registry.register(Box::new(differences.clone()))?;
        registry.register(Box::new(missed.clone()))?;
        for outcome in Report::outcomes() {
            decisions.with_label_values(&[outcome]);
        }
        Ok(Self { registry, decisions, differences, missed })
    }

    /// Counts a decision, and sets the number of decisions not compared.
    pub(super) fn add(&self, found: &Found, missed: u64) {
        self.decisions.with_label_values(&[found.outcome]).inc();
        found.plugins.iter().for_each(|plugin| self.differences.with_label_values(&[plugin.as_str()]).inc());
        self.missed.inc_by(missed.saturating_sub(self.missed.get()));
    }

    /// Serves `/metrics`, and `/readyz` while the process follows the cluster.
    pub(super) async fn serve(self, address: &str) -> anyhow::Result<()> {
        let listener = TcpListener::bind(address);
        let listener = listener.await.with_context(|| format!("cannot listen on --metrics-listen {address}"))?;
        let page = move || {
            let written = TextEncoder::new().encode_to_string(&self.registry.gather());
            let answer = written.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()));
            std::future::ready(answer)
        };
        let pages = Router::new().route("/metrics", get(page)).route("/readyz", get(|| std::future::ready("ok\n")));
        tokio::spawn(async move { axum::serve(listener, pages).await });
        Ok(())
    }
}
