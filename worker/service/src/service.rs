//! The service `flotilla.v1.Worker`: admits streams and runs their sessions.

use std::sync::Arc;

use flotilla_framework::shard::{FromWorker, Reply};
use flotilla_proto::{Wire as _, pb};
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status, Streaming};

use crate::session::{self, Answers, Shared};

/// Maximum number of streams. One is obeyed; the others begin or end. Each may hold a message of 4 MiB before its rejection: 64 MiB.
const STREAMS: usize = 16;

#[derive(Debug)]
pub(crate) struct Service {
    shared: Arc<Shared>,
    nonce: u64,
    streams: Arc<Semaphore>,
}

impl Service {
    /// A new worker with a random nonce.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, nonce: fastrand::u64(..), streams: Arc::new(Semaphore::new(STREAMS)) }
    }

    fn hello(&self) -> pb::FromWorker {
        let reply = Reply::Hello {
            version: env!("CARGO_PKG_VERSION").into(),
            nonce: self.nonce,
            plugins: self.shared.registry.names(),
        };
        FromWorker { epoch: self.shared.leader.obeyed(), revision: 0, reply }.encode()
    }
}

#[tonic::async_trait]
impl pb::worker_server::Worker for Service {
    type AttachStream = Answers;

    async fn attach(&self, request: Request<Streaming<pb::ToWorker>>) -> Result<Response<Answers>, Status> {
        let Ok(permit) = Arc::clone(&self.streams).try_acquire_owned() else {
            self.shared.counters.refused.add();
            return Err(Status::resource_exhausted(format!("{STREAMS} streams are open already")));
        };
        tracing::debug!(peer = ?request.remote_addr(), "stream opened");
        let (session, answers) = session::open(Arc::clone(&self.shared), request.into_inner(), self.hello());
        tokio::spawn(async move {
            session.run().await;
            drop(permit);
        });
        Ok(Response::new(answers))
    }
}
