//! The peer of an established connection, and the end of the connection with its certificates.

use std::{sync::Arc, time::Duration};

use rustls::pki_types::CertificateDer;

use crate::tls::{Credentials, Identity, Mutual, Role, RoleError, Validity, now_s, verify};

/// Interval of comparing with the time of day: clocks are set, and machines sleep.
const LOOK: Duration = Duration::from_secs(60);
/// With less time left than this, a connection is used until its certificates expire.
const SHORT_S: i64 = 600;

/// The peer of a connection, according to its certificate.
#[derive(Debug, Clone)]
pub struct Peer {
    role: Role,
    chain: Arc<[CertificateDer<'static>]>,
    validity: Validity,
    own: Validity,
}

/// Reason for ending a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// A certificate expires now or soon.
    #[error("one of its certificates expires; the next connection uses the current certificates")]
    Expiring,
    /// The authority of the peer's certificate is no longer trusted.
    #[error("the authority of the peer's certificate is not trusted any more")]
    Untrusted,
}

impl Peer {
    /// The peer with this verified chain; `own` is the local identity.
    pub(crate) fn new(own: &Identity, chain: &[CertificateDer<'_>]) -> Result<Self, RoleError> {
        let leaf = chain.first().ok_or(RoleError::Unreadable)?;
        Ok(Self {
            role: Role::of(leaf)?,
            validity: Validity::of(leaf)?,
            chain: chain.iter().map(|certificate| certificate.clone().into_owned()).collect(),
            own: own.validity(),
        })
    }

    /// The peer's role.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Validity of the peer's certificate.
    #[must_use]
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// The end of the peer's certificate, in seconds since 1970.
    #[must_use]
    pub fn not_after_s(&self) -> i64 {
        self.validity.not_after_s
    }

    /// Waits until this connection has to be replaced, some time before the end of its certificates.
    pub async fn renewal(self, mutual: &Mutual) -> Ended {
        self.ended(mutual.credentials.clone(), true).await
    }

    /// Waits until a certificate expires or its authority is no longer trusted. With `early`, returns a random share of the remaining time
    /// earlier. Both sides then have newer certificates, and connections are not all renewed at once.
    pub async fn ended(self, credentials: Credentials, early: bool) -> Ended {
        let mut changes = credentials.subscribe();
        let not_after_s = self.validity.not_after_s.min(self.own.not_after_s);
        let share = if early { 0.05 + 0.1 * fastrand::f64() } else { 0.0 };
        let until_s = renewal_s(now_s(), not_after_s, share);
        loop {
            let left_s = until_s.saturating_sub(now_s());
            if left_s <= 0 {
                return Ended::Expiring;
            }
            let now = changes.borrow_and_update().clone();
            if now.is_some_and(|now| verify::check(now.roots(), self.role, &self.chain, now_s()).is_err()) {
                return Ended::Untrusted;
            }
            let left = Duration::from_secs(left_s.try_into().unwrap_or_default());
            tokio::select! {
                () = tokio::time::sleep(left.min(LOOK)) => {}
                // `credentials` holds the sender, so this cannot fail.
                _ = changes.changed() => {}
            }
        }
    }
}

/// The time of renewing a connection, in seconds since 1970: `share` of the remaining validity, or its end if little remains. Otherwise a
/// certificate that is not renewed would cause ever more connections.
fn renewal_s(now_s: i64, not_after_s: i64, share: f64) -> i64 {
    let left_s = not_after_s.saturating_sub(now_s);
    if left_s <= SHORT_S { not_after_s } else { not_after_s.saturating_sub((left_s as f64 * share) as i64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_replaced_a_share_of_its_time_before_the_end_or_at_the_end() {
        assert_eq!(renewal_s(0, 100_000, 0.1), 90_000);
        assert_eq!(renewal_s(0, 100_000, 0.0), 100_000);
        assert_eq!(renewal_s(99_400, 100_000, 0.1), 100_000);
        assert_eq!(renewal_s(200_000, 100_000, 0.1), 100_000);
    }

    #[test]
    fn a_certificate_that_is_not_renewed_costs_few_connections() {
        let (mut now_s, mut connections) = (0, 0);
        while now_s < 604_800 {
            now_s = renewal_s(now_s, 604_800, 0.15);
            connections += 1;
        }
        assert!(connections <= 6, "{connections}");
    }
}
