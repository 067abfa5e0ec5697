//! A client for Jaeger's HTTP API. It reuses the API server's client, which provides HTTP and TLS for any URL.
//!
//! Source: Jaeger's `cmd/query/app/http_handler.go`. `/api/traces` with `traceID` needs no service and returns the existing traces.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use kube::{Client, Config, client::Body};
use serde::Deserialize;
use serde_json::Value;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The read timeout, because a user waits.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// The limit of characters from an invalid answer.
const MOST_WORDS: usize = 300;
/// Traces are kept for weeks at most, and Jaeger's default is two days. In microseconds.
const LOOK_BACK_US: i64 = 90 * 24 * 3600 * 1_000_000;

pub(super) struct Jaeger {
    client: Client,
    url: String,
}

#[derive(Deserialize)]
struct Answer {
    data: Option<Vec<Value>>,
}

impl Jaeger {
    /// Sends nothing yet.
    ///
    /// # Errors
    /// The URL is invalid.
    pub(super) fn new(url: &str) -> anyhow::Result<Self> {
        let parsed = url.parse().with_context(|| format!("--jaeger {url} is no URL; write http://HOST:16686"))?;
        let mut config = Config::new(parsed);
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(READ_TIMEOUT);
        let client = Client::try_from(config).with_context(|| format!("cannot use --jaeger {url}"))?;
        Ok(Self { client, url: url.to_owned() })
    }

    /// The existing traces of these IDs.
    ///
    /// # Errors
    /// Jaeger does not answer, or the answer is invalid.
    pub(super) async fn traces(&self, ids: &[u128]) -> anyhow::Result<Vec<(u128, Value)>> {
        let start = (jiff::Timestamp::now().as_microsecond() - LOOK_BACK_US).max(0);
        let wanted: String = ids.iter().map(|id| format!("&traceID={id:032x}")).collect();
        let path = format!("/api/traces?start={start}{wanted}");
        let request = http::Request::get(&path).body(Body::empty()).context("this makes no request")?;
        let answer = self.client.send(request).await.map_err(|error| self.silent(error))?;
        let status = answer.status();
        let body = answer.into_body().collect_bytes().await.map_err(|error| self.silent(error))?;
        if !status.is_success() {
            let words: String = String::from_utf8_lossy(&body).chars().take(MOST_WORDS).collect();
            return Err(self.strange(&anyhow!("HTTP {status}: {}", words.trim())));
        }
        let answer: Answer = serde_json::from_slice(&body).map_err(|error| self.strange(&error.into()))?;
        let known = |trace: Value| {
            let id = trace.get("traceID").and_then(Value::as_str).and_then(|id| u128::from_str_radix(id, 16).ok());
            id.map(|id| (id, trace))
        };
        Ok(answer.data.into_iter().flatten().filter_map(known).collect())
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    fn silent(&self, error: kube::Error) -> anyhow::Error {
        anyhow!(error).context(format!(
            "Jaeger does not answer at {}; is it up? --jaeger names the URL of its pages, port 16686 unless it was changed",
            self.url
        ))
    }

    fn strange(&self, error: &anyhow::Error) -> anyhow::Error {
        anyhow!(
            "{} does not answer as Jaeger's API does: {error:#}; --jaeger names the URL of its pages, with their path",
            self.url
        )
    }
}
