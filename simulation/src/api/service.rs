//! The API server as a service for clients of `kube`.

use std::{
    future::{Future, Ready, ready},
    io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{
    Request, Response,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use hyper::body::Frame;
use kube::client::Body;
use tokio::sync::{mpsc, oneshot};

use super::{
    Api,
    call::Call,
    server::{Answer, ClientId, StreamId, Ticket},
};

pub(super) type Answered = Result<Response<AnswerBody>, io::Error>;
pub(super) type Part = Result<Bytes, io::Error>;

/// Connection of one client.
#[derive(Clone)]
pub struct Service {
    pub(super) api: Api,
    pub(super) client: ClientId,
}

impl tower::Service<Request<Body>> for Service {
    type Response = Response<AnswerBody>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Answered> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { api, client } = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.map_err(io::Error::other)?;
            let call = Call::parse(&Request::from_parts(head, body), api.shared.keeps_events);
            let (ticket, answer) = api.submit(client, call);
            Waiting { api, ticket, answer }.await
        })
    }
}

/// Connection that accepts everything and discards it.
#[derive(Clone)]
pub struct Taken;

impl tower::Service<Request<Body>> for Taken {
    type Response = Response<AnswerBody>;
    type Error = io::Error;
    type Future = Ready<Answered>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _request: Request<Body>) -> Self::Future {
        ready(Ok(response(Answer::noted())))
    }
}

/// Pending response; dropping it abandons the request.
struct Waiting {
    api: Api,
    ticket: Ticket,
    answer: oneshot::Receiver<Answered>,
}

impl Future for Waiting {
    type Output = Answered;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answered> {
        let gone = |_| Err(io::Error::other("the API server is gone"));
        Pin::new(&mut self.answer).poll(context).map(|answered| answered.unwrap_or_else(gone))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.api.abandon(self.ticket);
    }
}

/// Response body.
pub struct AnswerBody(Kind);

enum Kind {
    Whole(Option<Bytes>),
    Stream(Stream),
}

/// Stream; dropping it closes the stream.
struct Stream {
    api: Api,
    stream: StreamId,
    parts: mpsc::UnboundedReceiver<Part>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.api.close(self.stream);
    }
}

impl hyper::body::Body for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut self.0 {
            Kind::Whole(body) => Poll::Ready(body.take().map(|body| Ok(Frame::data(body)))),
            Kind::Stream(stream) => stream.parts.poll_recv(context).map(|part| part.map(|part| part.map(Frame::data))),
        }
    }
}

pub(super) fn response(answer: Answer) -> Response<AnswerBody> {
    let Answer { code, retry_after_s, body } = answer;
    let mut response = Response::new(AnswerBody(Kind::Whole(Some(body))));
    // All codes of the model are valid.
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    if let Some(seconds) = retry_after_s {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// Response headers of a stream.
pub(super) fn stream(api: Api, stream: StreamId, parts: mpsc::UnboundedReceiver<Part>) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody(Kind::Stream(Stream { api, stream, parts })));
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}
