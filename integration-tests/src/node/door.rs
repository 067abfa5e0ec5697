//! The address of the Service `kubernetes`, which leads to the API server. On other nodes kube-proxy does this.
//!
//! Knows: TCP. Must not know: what is said.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context as _;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

/// What kube-apiserver gives that Service.
const PORT: u16 = 443;

/// Passes on what comes to `address`, as long as the runtime lives in which this is called.
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
                // The caller sees the connection end, which is all that can be told.
                if let Ok(mut server) = TcpStream::connect(server).await {
                    _ = copy_bidirectional(&mut caller, &mut server).await;
                }
            });
        }
    });
    Ok(())
}
