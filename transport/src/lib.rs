//! Connections between coordinator and workers that both ends can rely on: TLS 1.3, with a certificate on either side.
//!
//! A certificate says what its holder is, not where: pods change their addresses, so a peer is known by its [`Role`],
//! written as a URI, under an authority that both sides trust.
//!
//! Knows: certificates, their files, their issue and their time; handshakes and their bounds. Must not know: what is
//! said over a connection, Kubernetes, or who wants to be connected to whom.

mod connection;
mod credentials;
mod dial;
mod expiry;
mod failure;
mod folder;
mod incoming;
mod issue;
mod role;
mod schedule;
mod throttle;
mod verify;

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

pub use connection::{Ended, Peer};
pub use credentials::{Credentials, Identity, IdentityError, Pem, Validity, now_s};
pub use dial::{DialError, Dialled, dial};
pub use expiry::ExpiryLog;
pub use failure::{HandshakeError, HandshakeFailures, Reason};
pub use folder::{FILES, Folder, FolderError};
pub use incoming::{Accepted, Incoming};
pub use issue::{Authority, IssueError};
pub use role::{Role, RoleError};
pub use schedule::{AUTHORITY_LIFE_S, Authorities, LEAF_LIFE_S, PUBLISH_S, authorities, is_due, is_of_the_future};

/// How the words between coordinator and workers travel.
#[derive(Debug, Clone)]
pub enum Transport {
    /// HTTP/2 over TCP: anyone on the path can read and change every message, and no identity is checked.
    InsecurePlaintext,
    /// HTTP/2 over TLS 1.3 with certificates on both sides.
    Mutual(Mutual),
}

/// What one end of all connections shares. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Mutual {
    /// Who this end is.
    pub credentials: Credentials,
    /// The handshakes that failed here.
    pub failures: Arc<HandshakeFailures>,
    waited: Arc<AtomicU64>,
    authority_not_after_s: Arc<AtomicI64>,
}

impl Mutual {
    /// An end that has no certificate yet.
    #[must_use]
    pub fn new(role: Role) -> Self {
        Self {
            credentials: Credentials::new(role),
            failures: Arc::default(),
            waited: Arc::default(),
            authority_not_after_s: Arc::default(),
        }
    }

    /// How many connections found as many handshakes under way as there may be, and waited.
    #[must_use]
    pub fn handshakes_waited(&self) -> u64 {
        self.waited.load(Ordering::Relaxed)
    }

    /// Until when the own authority is valid, in seconds since 1970; `None` where there is none of our own.
    #[must_use]
    pub fn authority_not_after_s(&self) -> Option<i64> {
        Some(self.authority_not_after_s.load(Ordering::Relaxed)).filter(|not_after_s| *not_after_s != 0)
    }

    /// Tells until when the own authority is valid.
    pub fn set_authority(&self, validity: Validity) {
        self.authority_not_after_s.store(validity.not_after_s, Ordering::Relaxed);
    }
}
