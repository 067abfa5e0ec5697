//! Requests of lists and watches, and their answers in protobuf or JSON.

use bytes::Bytes;
use flotilla_encoding::{Encoding, Frames, Page, Status};
use http::{
    HeaderValue, Request,
    header::{ACCEPT, CONTENT_TYPE},
};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use kube::client::Body;
use tracing::debug;

use super::trouble::Trouble;

/// Limit of a page. A page of 1,000 pods of 5 KB has 5 MB. etcd stores objects up to 1.5 MiB, and JSON takes up to twice as much, so that
/// the smallest page, of 16, fits. 15 kinds are listed at once: 15 * 48 MiB = 720 MiB at worst, of 2 GiB.
const PAGE_BYTES: usize = 48 << 20;
/// The metadata of a list's objects, or whole objects from a server without such lists.
const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, \
                        application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json";
/// Limit of a refusal's body. A Status has a few hundred bytes.
const REFUSAL_BYTES: usize = 1 << 20;

/// A successful answer after its head.
pub(super) struct Answer {
    encoding: Encoding,
    body: Body,
}

/// Sends a request and waits for the head of its answer. If a server rejects protobuf for the kind, requests JSON; the API server needs no
/// second request, as JSON is the second choice of the first one.
pub(super) async fn ask(client: &kube::Client, request: Request<Vec<u8>>) -> Result<Answer, Trouble> {
    ask_for(Encoding::ACCEPT, client, request).await
}

async fn ask_for(accepted: &'static str, client: &kube::Client, request: Request<Vec<u8>>) -> Result<Answer, Trouble> {
    match ask_in(accepted, client, request.clone()).await {
        Err(Trouble::Api(status)) if matches!(status.code, 406 | 415) => {
            debug!(reason = %status, path = request.uri().path(), "no protobuf for this kind; requesting JSON");
            ask_in(Encoding::JSON, client, request).await
        }
        answered => answered,
    }
}

async fn ask_in(accepted: &'static str, client: &kube::Client, request: Request<Vec<u8>>) -> Result<Answer, Trouble> {
    let mut request = request.map(Body::from);
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accepted));
    let (head, body) = client.send(request).await?.into_parts();
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let encoding = Encoding::of(content_type);
    if head.status.is_success() {
        return Ok(Answer { encoding, body });
    }
    let body = Limited::new(body, REFUSAL_BYTES).collect().await.map_err(|error| Trouble::Broken(error.to_string()))?;
    Err(Status::decode(encoding, head.status.as_u16(), body.to_bytes()).into())
}

pub(super) async fn page(client: &kube::Client, request: Request<Vec<u8>>) -> Result<Page, Trouble> {
    ask(client, request).await?.page().await
}

pub(super) async fn metadata(client: &kube::Client, request: Request<Vec<u8>>) -> Result<Page, Trouble> {
    ask_for(METADATA, client, request).await?.page().await
}

impl Answer {
    async fn page(self) -> Result<Page, Trouble> {
        let Self { encoding, body } = self;
        let body = match Limited::new(body, PAGE_BYTES).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => return Err(Trouble::TooLarge(PAGE_BYTES)),
            Err(error) => return Err(Trouble::Broken(error.to_string())),
        };
        Ok(Page::decode(encoding, body)?)
    }

    pub(super) fn stream(self) -> Stream {
        Stream { frames: Frames::new(self.encoding), body: self.body }
    }
}

pub(super) struct Stream {
    frames: Frames,
    body: Body,
}

impl Stream {
    pub(super) fn encoding(&self) -> Encoding {
        self.frames.encoding()
    }

    pub(super) fn received(&mut self) -> Result<Option<Bytes>, Trouble> {
        Ok(self.frames.cut()?)
    }

    /// Waits for more data; false: the answer has ended. Cancellation loses nothing.
    pub(super) async fn receive(&mut self) -> Result<bool, Trouble> {
        loop {
            match self.body.frame().await {
                Some(frame) => {
                    // Ignore trailers.
                    if let Ok(data) = frame?.into_data() {
                        self.frames.receive(&data);
                        return Ok(true);
                    }
                }
                None => {
                    return self.frames.finish().map(|()| false).map_err(|error| Trouble::Broken(error.to_string()));
                }
            }
        }
    }
}
