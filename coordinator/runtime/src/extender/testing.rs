//! Small extenders on loopback, for tests.

use std::sync::{Arc, Mutex};

use axum::{Router, body::Bytes, extract::State, http::StatusCode, response::IntoResponse};
use flotilla_framework::{extender::Extender, profile::duration::GoDuration};
use serde_json::Value;
use tokio::net::TcpListener;

type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// An extender's answer to a call.
pub type Respond = fn(&str, &Value) -> (StatusCode, String);

/// A small extender, and the calls it received.
pub struct Played {
    /// Its URL.
    pub url: String,
    pub(super) asked: Asked,
}

impl Played {
    /// The verbs of the calls, in order.
    pub fn verbs(&self) -> Vec<String> {
        self.asked.lock().expect("unpoisoned").iter().map(|(verb, _)| verb.clone()).collect()
    }

    /// The request of a call.
    pub fn question(&self, number: usize) -> Value {
        self.asked.lock().expect("unpoisoned")[number].1.clone()
    }
}

type Shared = (Asked, Respond);

async fn respond(State((asked, say)): State<Shared>, request: axum::extract::Request) -> impl IntoResponse {
    let verb = request.uri().path().trim_start_matches('/').to_owned();
    let body: Bytes = axum::body::to_bytes(request.into_body(), usize::MAX).await.expect("a body");
    let question: Value = serde_json::from_slice(&body).expect("JSON");
    asked.lock().expect("unpoisoned").push((verb.clone(), question.clone()));
    if verb == "hang" {
        std::future::pending::<()>().await;
    }
    say(&verb, &question)
}

pub(super) fn router(say: Respond) -> (Router, Asked) {
    let asked = Asked::default();
    (Router::new().fallback(respond).with_state((Arc::clone(&asked), say)), asked)
}

/// Starts an extender over HTTP.
pub async fn play(say: Respond) -> Played {
    let (router, asked) = router(say);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Played { url, asked }
}

/// The configuration of a test extender.
pub fn configured(url: &str) -> Extender {
    Extender {
        url_prefix: url.to_owned(),
        filter_verb: "filter".to_owned(),
        prioritize_verb: "prioritize".to_owned(),
        weight: 2,
        http_timeout: GoDuration { nanoseconds: 20_000_000_000 },
        ..Extender::default()
    }
}
