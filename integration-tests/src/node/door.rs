//! Forwards the Service `kubernetes` to the API server, instead of kube-proxy.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context as _;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

const PORT: u16 = 443;

/// Forwards connections to `address`, until the calling runtime ends.
pub(super) async fn open(address: Ipv4Addr, url: &str) -> anyhow::Result<()> {
    let server: SocketAddr = url
        .trim_start_matches("https://")
        .parse()
        .with_context(|| format!("the API server's URL {url} has no address"))?;
    let listener = TcpListener::bind((address, PORT))
        .await
        .with_context(|| format!("cannot listen on {address}:{PORT}, which the room should have"))?;
    tokio::spawn(async move {
        while let Ok((mut caller, _)) = listener.accept().await {
            tokio::spawn(async move {
                // On failure the caller only observes a closed connection.
                if let Ok(mut server) = TcpStream::connect(server).await {
                    _ = copy_bidirectional(&mut caller, &mut server).await;
                }
            });
        }
    });
    Ok(())
}
