//! Certificates, their files, issue and validity; handshakes and their limits.

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

/// Shared state of one end of all connections. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Mutual {
    /// The local identity.
    pub credentials: Credentials,
    /// Failed handshakes at this end.
    pub failures: Arc<HandshakeFailures>,
    waited: Arc<AtomicU64>,
    authority_not_after_s: Arc<AtomicI64>,
}

impl Mutual {
    /// An end without a certificate.
    #[must_use]
    pub fn new(role: Role) -> Self {
        Self {
            credentials: Credentials::new(role),
            failures: Arc::default(),
            waited: Arc::default(),
            authority_not_after_s: Arc::default(),
        }
    }

    /// Counts a failed handshake.
    pub fn count(&self, error: &HandshakeError) {
        self.failures.add(error.reason);
    }

    /// Number of connections that waited for a free handshake slot.
    #[must_use]
    pub fn handshakes_waited(&self) -> u64 {
        self.waited.load(Ordering::Relaxed)
    }

    /// Expiry of the built-in authority in seconds since 1970; `None` without one.
    #[must_use]
    pub fn authority_not_after_s(&self) -> Option<i64> {
        Some(self.authority_not_after_s.load(Ordering::Relaxed)).filter(|not_after_s| *not_after_s != 0)
    }

    /// Sets the validity of the built-in authority.
    pub fn set_authority(&self, validity: Validity) {
        self.authority_not_after_s.store(validity.not_after_s, Ordering::Relaxed);
    }
}
