//! Modules over HTTPS.

use std::{thread, time::Duration};

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use flotilla_framework::modules::MAX_BYTES;
use http::{Request, StatusCode, Uri, header::USER_AGENT};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};

const FETCH_TIMEOUT: Duration = Duration::from_secs(60);

/// On a separate thread with its own runtime, because callers may or may not be inside a runtime.
pub(super) fn fetch(url: &str) -> anyhow::Result<Vec<u8>> {
    let url = url.to_owned();
    let fetch = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            tokio::time::timeout(FETCH_TIMEOUT, fetched(&url))
                .await
                .unwrap_or_else(|_| bail!("no answer within {FETCH_TIMEOUT:?}"))
        })
    };
    let thread = thread::Builder::new().name("fetch".to_owned()).spawn(fetch).context("no thread to fetch it on")?;
    thread.join().unwrap_or_else(|_| bail!("fetching it panicked"))
}

async fn fetched(url: &str) -> anyhow::Result<Vec<u8>> {
    let uri: Uri = url.parse().context("it is no URL")?;
    let connector = HttpsConnectorBuilder::new()
        .with_native_roots()
        .context("cannot read the certificates that the system trusts")?
        .https_only()
        .enable_all_versions()
        .build();
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
    let request = Request::get(uri).header(USER_AGENT, concat!("flotilla/", env!("CARGO_PKG_VERSION")));
    let answer = client.request(request.body(Empty::new())?).await.context("the request failed")?;
    let status = answer.status();
    ensure!(status == StatusCode::OK, "the server answers {status}; redirects are not followed");
    let body = Limited::new(answer.into_body(), MAX_BYTES).collect().await;
    let body =
        body.map_err(|error| anyhow::anyhow!("reading the answer: {error}; at most {MAX_BYTES} bytes are read"))?;
    Ok(body.to_bytes().to_vec())
}
