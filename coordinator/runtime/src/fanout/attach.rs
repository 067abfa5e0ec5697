//! Streams without a connection.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use flotilla_proto::pb;
use futures::{Stream, StreamExt as _, future::BoxFuture, stream::BoxStream};

/// Messages to a worker. A separate type, because the compiler cannot prove that a future with a `BoxStream` is `Send`.
pub struct Words(BoxStream<'static, pb::ToWorker>);

impl Words {
    pub(super) fn new(words: impl Stream<Item = pb::ToWorker> + Send + 'static) -> Self {
        Self(words.boxed())
    }
}

impl Stream for Words {
    type Item = pb::ToWorker;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<pb::ToWorker>> {
        self.0.poll_next_unpin(context)
    }
}

/// Messages from a worker.
pub type Incoming = BoxStream<'static, Result<pb::FromWorker, tonic::Status>>;

/// Implements the call `Attach` of the service `Worker` for workers in this process, with the same messages and no HTTP/2.
pub trait Attach: Send + Sync {
    /// Opens a stream to the worker at this address. Errors count as failed calls.
    fn attach(&self, address: &str, words: Words) -> BoxFuture<'static, Result<Incoming, tonic::Status>>;
}
