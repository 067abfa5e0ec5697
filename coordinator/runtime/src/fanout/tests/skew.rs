//! A worker of another release, with another protocol version.

use flotilla_proto::{
    PROTOCOL_VERSION,
    pb::{
        self,
        worker_server::{Worker, WorkerServer},
    },
};
use tokio_stream::{Stream, wrappers::TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

use super::*;

/// Sends a hello with this protocol version, and nothing else.
struct Release(u32, Vec<&'static str>);

#[tonic::async_trait]
impl Worker for Release {
    type AttachStream = std::pin::Pin<Box<dyn Stream<Item = Result<pb::FromWorker, Status>> + Send>>;

    async fn attach(&self, _: Request<Streaming<pb::ToWorker>>) -> Result<Response<Self::AttachStream>, Status> {
        let plugins = self.1.iter().map(|name| (*name).to_owned()).collect();
        let hello = pb::Hello { version: "9.9.9".to_owned(), nonce: 1, protocol: self.0, plugins };
        let reply = Some(pb::from_worker::Reply::Hello(hello));
        let hello = pb::FromWorker { epoch: 0, revision: 0, reply, laps: Vec::new(), words: Vec::new() };
        let words = futures::stream::once(async { Ok(hello) });
        Ok(Response::new(Box::pin(futures::StreamExt::chain(words, futures::stream::pending()))))
    }
}

async fn of_release(protocol: u32, plugins: Vec<&'static str>) -> String {
    let socket = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = socket.local_addr().expect("bound").to_string();
    let server = tonic::transport::Server::builder().add_service(WorkerServer::new(Release(protocol, plugins)));
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(socket)));
    address
}

fn built_in() -> Vec<&'static str> {
    Registry::built_in().iter().map(|plugin| plugin.name()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_with_other_plugins_is_left_alone_and_the_difference_is_named() {
    let (handle, mut heard) = listener();
    let fanout = Fanout::new(handle, Transport::InsecurePlaintext, Registry::built_in());
    let mut plugins = built_in();
    plugins.retain(|name| !["NodeName", "ImageLocality"].contains(name));
    plugins.push("Own");
    let address = of_release(PROTOCOL_VERSION, plugins).await;
    fanout.connect(&address);
    while fanout.traffic().attach_failures < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(fanout.traffic().attached, 0);
    assert!(heard.try_recv().is_err(), "the machine is told nothing of it");
    let trouble = fanout.roll().into_iter().find_map(|rolled| rolled.trouble);
    let expected = "its plugins differ: the worker lacks ImageLocality, NodeName and the coordinator lacks Own; run \
                    coordinator and workers of one build";
    assert_eq!(trouble.as_deref(), Some(expected));

    // The order of plugins does not matter.
    let turned = built_in().into_iter().rev().collect();
    fanout.connect(&of_release(PROTOCOL_VERSION, turned).await);
    joined(&mut heard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_of_another_protocol_is_left_alone_and_tried_again() {
    let (handle, mut heard) = listener();
    let fanout = Fanout::new(handle, Transport::InsecurePlaintext, Registry::built_in());
    fanout.connect(&of_release(PROTOCOL_VERSION + 1, built_in()).await);
    while fanout.traffic().undecodable < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(fanout.traffic().attached, 0);
    assert!(heard.try_recv().is_err(), "the machine is told nothing of it");

    // A worker of the same protocol joins, whatever its release.
    fanout.connect(&of_release(PROTOCOL_VERSION, built_in()).await);
    joined(&mut heard).await;
}
