//! The types of connections with certificates, which have no values in a build without the feature `tls`.

use std::fmt;

/// Shared state of one end of all connections.
#[derive(Debug, Clone)]
pub enum Mutual {}

/// The peer of a connection.
#[derive(Debug, Clone)]
pub enum Peer {}

/// Reason for ending a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {}

/// A failed handshake.
#[derive(Debug, Clone)]
pub enum HandshakeError {}

impl Mutual {
    /// Counts a failed handshake.
    pub fn count(&self, _: &HandshakeError) {
        match *self {}
    }
}

impl Peer {
    /// The end of the peer's certificate, in seconds since 1970.
    #[must_use]
    pub fn not_after_s(&self) -> i64 {
        match *self {}
    }

    /// Waits until this connection has to be replaced.
    pub async fn renewal(self, _: &Mutual) -> Ended {
        match self {}
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl std::error::Error for Ended {}

impl fmt::Display for HandshakeError {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl std::error::Error for HandshakeError {}
