//! Mutually authenticated connections between coordinator and workers: TLS 1.3 with a certificate on either side.
//!
//! A certificate identifies a role, not an address, because the addresses of pods change. A peer's [`Role`] is a URI in a certificate of an
//! authority that both sides trust.
//!
//! Contains: certificates, their files, issue and validity; handshakes and their limits. Does not depend on: messages on a connection,
//! Kubernetes, or discovery of peers.
//!
//! Without the feature `tls` there is plaintext only.

#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
mod without_tls;

#[cfg(feature = "tls")]
pub use tls::*;
#[cfg(not(feature = "tls"))]
pub use without_tls::{Ended, HandshakeError, Mutual, Peer};

/// Transport between coordinator and workers.
#[derive(Debug, Clone)]
pub enum Transport {
    /// HTTP/2 over TCP: any host on the path can read and change messages, and identities are not verified.
    InsecurePlaintext,
    /// HTTP/2 over TLS 1.3 with certificates on both sides.
    Mutual(Mutual),
}
