//! Classifies, explains and counts failed handshakes.

use std::{
    error::Error as _,
    fmt, io,
    sync::atomic::{AtomicU64, Ordering},
};

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

use crate::tls::{Role, RoleError};

/// Reason for a failed handshake, as a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The peer did not answer in time.
    Timeout,
    /// The peer does not speak TLS.
    Plaintext,
    /// The peer has no certificate.
    NoCertificate,
    /// The authority of the peer's certificate is not trusted.
    Untrusted,
    /// The peer's certificate is expired or not yet valid.
    Expired,
    /// The peer's certificate is for another role.
    Role,
    /// The peer rejected our certificate.
    Refused,
    /// Any other error, such as a broken connection.
    Broken,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 8] = [
        Self::Timeout,
        Self::Plaintext,
        Self::NoCertificate,
        Self::Untrusted,
        Self::Expired,
        Self::Role,
        Self::Refused,
        Self::Broken,
    ];

    /// The label value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Plaintext => "plaintext",
            Self::NoCertificate => "no_certificate",
            Self::Untrusted => "untrusted",
            Self::Expired => "expired",
            Self::Role => "role",
            Self::Refused => "refused",
            Self::Broken => "broken",
        }
    }
}

/// A failed handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandshakeError {
    /// The reason, as a label.
    pub reason: Reason,
    words: String,
}

impl HandshakeError {
    /// An error of a handshake with a peer of the expected role.
    #[must_use]
    pub fn new(peer: Role, error: &io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            Some(tls) => Self::of_tls(peer, tls),
            None => Self { reason: Reason::Broken, words: format!("the connection broke: {error}") },
        }
    }

    /// The peer exceeded this limit.
    #[must_use]
    pub fn timeout(limit: std::time::Duration) -> Self {
        Self { reason: Reason::Timeout, words: format!("it was not done within {limit:?}") }
    }

    /// The peer's rejection of our certificate, if that is the cause of `error`.
    #[must_use]
    pub fn refusal(peer: Role, error: &io::Error) -> Option<Self> {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        tls.filter(|tls| matches!(tls, Error::AlertReceived(_))).map(|tls| Self::of_tls(peer, tls))
    }

    fn of_tls(peer: Role, error: &Error) -> Self {
        let (reason, words) = match error {
            Error::InvalidMessage(InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion) => {
                let words = "it does not speak TLS; start both sides with certificates, or both with \
                             --insecure-worker-transport";
                (Reason::Plaintext, words.to_owned())
            }
            Error::NoCertificatesPresented => {
                (Reason::NoCertificate, format!("it shows no certificate; only a {peer} may connect"))
            }
            Error::InvalidCertificate(why) => of_certificate(peer, why),
            Error::AlertReceived(alert) => (Reason::Refused, of_alert(*alert)),
            other => (Reason::Broken, other.to_string()),
        };
        Self { reason, words }
    }
}

fn of_certificate(peer: Role, why: &CertificateError) -> (Reason, String) {
    match why {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => (
            Reason::Untrusted,
            "no authority in our ca.crt signed its certificate; give both sides certificates of one authority"
                .to_owned(),
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            (Reason::Expired, "its certificate has ended; see why it was not renewed".to_owned())
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            (Reason::Expired, "its certificate is not valid yet; compare the clocks of both nodes".to_owned())
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            let usage = if peer == Role::Worker { "server auth" } else { "client auth" };
            (Reason::Role, format!("its certificate is not for a {peer}, which needs the usage {usage:?}"))
        }
        CertificateError::Other(other) => match other.source().and_then(|source| source.downcast_ref::<RoleError>()) {
            Some(role) => (Reason::Role, format!("its certificate cannot be used: {role}")),
            None => (Reason::Broken, why.to_string()),
        },
        other => (Reason::Broken, format!("its certificate cannot be used: {other}")),
    }
}

fn of_alert(alert: AlertDescription) -> String {
    match alert {
        // The latter if both authorities have the same name.
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            "it does not trust the authority of our certificate; give both sides certificates of one authority"
                .to_owned()
        }
        AlertDescription::CertificateExpired => {
            "the peer reports that our certificate is not valid now; check its renewal, and compare the clocks"
                .to_owned()
        }
        AlertDescription::CertificateRequired => "it demands a certificate, and none was shown".to_owned(),
        AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::AccessDenied => {
            format!("it refuses our certificate ({alert:?}); its log says why")
        }
        other => format!("it refuses to go on: {other:?}"),
    }
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.words)
    }
}

impl std::error::Error for HandshakeError {}

/// Counts of failed handshakes by reason.
#[derive(Debug, Default)]
pub struct HandshakeFailures([AtomicU64; Reason::ALL.len()]);

impl HandshakeFailures {
    /// Counts one failure.
    pub fn add(&self, reason: Reason) {
        if let Some((_, count)) = Reason::ALL.iter().zip(&self.0).find(|(known, _)| **known == reason) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts by label.
    #[must_use]
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        Reason::ALL
            .iter()
            .zip(&self.0)
            .map(|(reason, count)| (reason.as_str(), count.load(Ordering::Relaxed)))
            .collect()
    }

    /// The total.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_counted_for_itself() {
        let failures = HandshakeFailures::default();
        failures.add(Reason::Role);
        failures.add(Reason::Role);
        failures.add(Reason::Timeout);
        let counted: Vec<_> = failures.counts().into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!((counted, failures.total()), (vec![("timeout", 1), ("role", 2)], 3));
    }

    #[test]
    fn what_is_no_tls_error_is_a_broken_connection() {
        let error = HandshakeError::new(Role::Worker, &io::Error::from(io::ErrorKind::ConnectionReset));
        assert_eq!((error.reason, &*error.to_string()), (Reason::Broken, "the connection broke: connection reset"));
    }

    #[test]
    fn only_an_alert_is_a_refusal() {
        let error = |tls: Error| io::Error::other(tls);
        let refused = HandshakeError::refusal(Role::Worker, &error(Error::AlertReceived(AlertDescription::UnknownCA)));
        let refused = refused.expect("a refusal");
        assert_eq!(refused.reason, Reason::Refused);
        assert!(refused.to_string().starts_with("it does not trust the authority of our certificate"), "{refused}");
        assert_eq!(HandshakeError::refusal(Role::Worker, &error(Error::DecryptError)), None);
    }
}
