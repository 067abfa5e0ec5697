//! Streams that are on no connection.
//!
//! Knows: what goes in at one end of the call `Attach` of the wire and comes out of it. Must not know: who is at the other end.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use flotilla_proto::pb;
use futures::{Stream, StreamExt as _, future::BoxFuture, stream::BoxStream};

/// What a worker is told. A type of its own, because the compiler cannot see that a future which holds a `BoxStream` may be sent.
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

/// What a worker says.
pub type Incoming = BoxStream<'static, Result<pb::FromWorker, tonic::Status>>;

/// Makes the call `Attach` of the service `Worker` without a network: for workers within this process. The messages are those
/// of the wire; only HTTP/2 is left out.
pub trait Attach: Send + Sync {
    /// Begins a stream to the worker at this address. An error counts as one of the call.
    fn attach(&self, address: &str, words: Words) -> BoxFuture<'static, Result<Incoming, tonic::Status>>;
}
