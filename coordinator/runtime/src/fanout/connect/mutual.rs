//! Connections with certificates on both sides.

use std::io;

use flotilla_transport::{DialError, Dialled, Mutual, dial};
use hyper_util::rt::TokioIo;
use tonic::transport::Endpoint;
use tower::service_fn;

use super::{Connected, End, broken};

pub(super) async fn connect(endpoint: Endpoint, address: &str, mutual: &Mutual) -> Result<Connected, End> {
    let dialled = dial(address, mutual).await.map_err(|error| match error {
        DialError::Connect(error) => End::Connect(error.to_string()),
        DialError::Handshake(error) => End::Handshake(error),
    })?;
    let (peer, refusal) = (dialled.peer().clone(), dialled.refusal());
    let channel = endpoint.connect_with_connector(once(dialled)).await.map_err(broken)?;
    Ok(Connected { channel, peer: Some(peer), refusal: Some(refusal) })
}

/// Returns the connection once: a channel that has lost it must not make another, because its peer would not be verified.
fn once(
    dialled: Dialled,
) -> impl tower::Service<http::Uri, Response = TokioIo<Dialled>, Error = io::Error, Future: Send> + Send + 'static {
    let mut dialled = Some(dialled);
    service_fn(move |_| {
        let taken = dialled.take().map(TokioIo::new);
        std::future::ready(taken.ok_or_else(|| io::ErrorKind::ConnectionAborted.into()))
    })
}
