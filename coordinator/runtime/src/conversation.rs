//! A conversation with one worker outside of scheduling: commands and replies in turn.
//!
//! The futures are boxed, so that the gRPC client is compiled once, in this crate.

use std::time::Duration;

use anyhow::Context as _;
use flotilla_framework::shard::{Command, Epoch, FromWorker, Reply, Revision, ToWorker};
use flotilla_proto::{
    Wire as _,
    bounds::MAX_MESSAGE_BYTES,
    pb::{self, worker_client::WorkerClient},
};
use futures::future::{BoxFuture, FutureExt as _};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Streaming,
    transport::{Channel, Endpoint},
};

const WORDS: usize = 16;

/// A connection to a worker. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Connection(Channel);

/// A stream to a worker.
#[derive(Debug)]
pub struct Conversation {
    words: mpsc::Sender<pb::ToWorker>,
    answers: Streaming<pb::FromWorker>,
    limit: Duration,
}

impl Connection {
    /// Connects to the worker at `address`, `host:port`, in plaintext.
    ///
    /// # Errors
    /// If no server listens at the address.
    pub fn open(address: &str) -> BoxFuture<'static, anyhow::Result<Self>> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"));
        let address = address.to_owned();
        async move {
            let connected = endpoint?.tcp_nodelay(true).connect().await;
            connected.map(Self).with_context(|| format!("cannot connect to the worker at {address}"))
        }
        .boxed()
    }
}

impl Conversation {
    /// Opens a stream. The worker ends the stream of the previous leader.
    ///
    /// # Errors
    /// If the worker rejects the stream.
    pub fn begin(connection: &Connection, limit: Duration) -> BoxFuture<'static, anyhow::Result<Self>> {
        let mut client = WorkerClient::new(connection.0.clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        async move {
            let (words, outgoing) = mpsc::channel(WORDS);
            let answers = client.attach(ReceiverStream::new(outgoing)).await?.into_inner();
            Ok(Self { words, answers, limit })
        }
        .boxed()
    }

    /// Sends a command.
    ///
    /// # Errors
    /// If the worker has ended the stream.
    pub fn send(&self, epoch: Epoch, revision: Revision, command: Command) -> BoxFuture<'_, anyhow::Result<()>> {
        let word = ToWorker { epoch, revision, command }.encode();
        async move { self.words.send(word).await.context("a worker has ended its stream; run with -v to see why") }
            .boxed()
    }

    /// The next reply.
    ///
    /// # Errors
    /// If the worker has ended the stream, sends an invalid message, or exceeds the limit.
    pub fn receive(&mut self) -> BoxFuture<'_, anyhow::Result<Reply>> {
        async move {
            let message = timeout(self.limit, self.answers.message()).await;
            let message =
                message.with_context(|| format!("a worker did not answer within {} s", self.limit.as_secs()))?;
            let message = message.context("a worker has ended its stream")?.context("a worker has ended its stream")?;
            let FromWorker { reply, .. } = FromWorker::decode(message).context("a worker sent an invalid message")?;
            Ok(reply)
        }
        .boxed()
    }
}
