//! TLS identity and trusted authorities of this process, loaded from three PEM texts and replaced on renewal.

use std::{
    fmt,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    client::ResolvesClientCert,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::NoServerSessionStorage,
    sign::{CertifiedKey, SingleCertAndKey},
};
use tokio::sync::watch;
use x509_parser::{certificate::X509Certificate, prelude::FromDer as _};

use crate::tls::{Role, RoleError, verify};

/// The only application protocol of a connection.
const PROTOCOL: &[u8] = b"h2";

/// Now, in seconds since 1970.
#[must_use]
pub fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Explicit: a process that links two providers has no default.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Validity of a certificate in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub not_before_s: i64,
    /// The last second.
    pub not_after_s: i64,
}

impl Validity {
    /// The validity of a DER certificate.
    ///
    /// # Errors
    /// The bytes are not a certificate.
    pub fn of(certificate: &[u8]) -> Result<Self, RoleError> {
        let (_, certificate) = X509Certificate::from_der(certificate).map_err(|_| RoleError::Unreadable)?;
        let validity = certificate.validity();
        Ok(Self { not_before_s: validity.not_before.timestamp(), not_after_s: validity.not_after.timestamp() })
    }
}

/// The three PEM texts of an identity, named as in a `kubernetes.io/tls` Secret from cert-manager.
#[derive(Clone, PartialEq, Eq)]
pub struct Pem {
    /// `tls.crt`: the certificate and its chain.
    pub certificate: Vec<u8>,
    /// `tls.key`: its private key.
    pub key: Vec<u8>,
    /// `ca.crt`: the trusted authorities.
    pub authorities: Vec<u8>,
}

impl fmt::Debug for Pem {
    /// The key is never printed.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Pem")
    }
}

/// Reason that the texts are not an identity.
#[derive(Debug, Clone, thiserror::Error)]
pub enum IdentityError {
    /// Invalid PEM, or PEM of another type.
    #[error("{file} holds no usable PEM: {reason}")]
    Pem {
        /// The file.
        file: &'static str,
        /// The reason.
        reason: String,
    },
    /// The key does not match the certificate, or its type is unsupported.
    #[error("tls.key does not belong to tls.crt, or cannot be used: {0}")]
    Key(rustls::Error),
    /// The certificate is not valid for the role of this process.
    #[error("tls.crt cannot be used here: {0}")]
    Role(#[from] RoleError),
    /// The authorities cannot be trusted.
    #[error("ca.crt cannot be used: {0}")]
    Authorities(String),
}

/// A certificate with its key for one role, and the authorities of the peer's certificate.
pub struct Identity {
    role: Role,
    certified: Arc<CertifiedKey>,
    roots: Arc<RootCertStore>,
    validity: Validity,
}

impl Identity {
    /// Checks the texts against each other and against `role`, but not their validity: an expired certificate is still loaded.
    ///
    /// # Errors
    /// The problem and its file.
    pub fn from_pem(role: Role, pem: &Pem) -> Result<Self, IdentityError> {
        let chain = certificates("tls.crt", &pem.certificate)?;
        let leaf = chain.first().map(|leaf| leaf.as_ref()).unwrap_or_default();
        role.check(leaf)?;
        let validity = Validity::of(leaf)?;
        let key = PrivateKeyDer::from_pem_slice(&pem.key)
            .map_err(|error| IdentityError::Pem { file: "tls.key", reason: error.to_string() })?;
        let certified = CertifiedKey::from_der(chain, key, &provider()).map_err(IdentityError::Key)?;
        let mut roots = RootCertStore::empty();
        for authority in certificates("ca.crt", &pem.authorities)? {
            roots.add(authority).map_err(|error| IdentityError::Authorities(error.to_string()))?;
        }
        let identity = Self { role, certified: Arc::new(certified), roots: Arc::new(roots), validity };
        // Reports now every problem that a handshake would report.
        identity.server_config().map_err(IdentityError::Authorities)?;
        identity.client_config().map_err(IdentityError::Authorities)?;
        Ok(identity)
    }

    /// The role.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Validity of the certificate.
    #[must_use]
    pub fn validity(&self) -> Validity {
        self.validity
    }

    pub(crate) fn roots(&self) -> &Arc<RootCertStore> {
        &self.roots
    }

    /// The certificate and its chain in DER.
    #[must_use]
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.certified.cert
    }

    /// Whether a peer that trusts the same authorities would accept the local certificate.
    #[must_use]
    pub fn is_of_its_authorities(&self, now_s: i64) -> bool {
        verify::check(&self.roots, self.role, self.chain(), now_s).is_ok()
    }

    /// Requires a coordinator's certificate. Without resumption, so that the certificates of every connection are verified.
    pub(crate) fn server_config(&self) -> Result<ServerConfig, String> {
        let clients = verify::clients(&self.roots, self.role.peer())?;
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| error.to_string())?
            .with_client_cert_verifier(clients);
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(&self.certified))));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    /// Requires a certificate of the worker role, regardless of its address.
    pub(crate) fn client_config(&self) -> Result<ClientConfig, String> {
        let own: Arc<dyn ResolvesClientCert> = Arc::new(SingleCertAndKey::from(Arc::clone(&self.certified)));
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verify::servers(&self.roots, self.role.peer()))
            .with_client_cert_resolver(own);
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.enable_sni = false;
        config.resumption = rustls::client::Resumption::disabled();
        Ok(config)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Identity").field("role", &self.role).field("validity", &self.validity).finish()
    }
}

fn certificates(file: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let unusable = |reason: String| IdentityError::Pem { file, reason };
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error: rustls::pki_types::pem::Error| unusable(error.to_string()))?;
    if found.is_empty() { Err(unusable("there is no BEGIN CERTIFICATE in it".to_owned())) } else { Ok(found) }
}

/// The current identity of this process, used by new connections. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Credentials {
    role: Role,
    current: watch::Sender<Option<Arc<Identity>>>,
}

impl Credentials {
    /// Credentials without a certificate.
    #[must_use]
    pub fn new(role: Role) -> Self {
        Self { role, current: watch::Sender::new(None) }
    }

    /// The role.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Replaces the identity.
    pub fn set(&self, identity: Identity) {
        self.current.send_replace(Some(Arc::new(identity)));
    }

    /// The identity; `None` before the first.
    #[must_use]
    pub fn current(&self) -> Option<Arc<Identity>> {
        self.current.borrow().clone()
    }

    /// Waits for the first identity.
    pub async fn ready(&self) -> Arc<Identity> {
        let mut current = self.current.subscribe();
        match current.wait_for(Option::is_some).await.map(|identity| identity.clone()) {
            Ok(Some(identity)) => identity,
            // The sender is in `self`, so this never happens.
            _ => std::future::pending().await,
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Arc<Identity>>> {
        self.current.subscribe()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::tls::Authority;

    /// A certificate of the role that trusts only this authority.
    pub(crate) fn pem(authority: &Authority, role: Role) -> Pem {
        authority.issue(role, now_s()).expect("a certificate")
    }

    #[test]
    fn three_texts_of_one_authority_are_an_identity() {
        let authority = Authority::make(now_s()).expect("an authority");
        let identity = Identity::from_pem(Role::Worker, &pem(&authority, Role::Worker)).expect("sound");
        assert_eq!(identity.role(), Role::Worker);
        assert!(identity.is_of_its_authorities(now_s()));
        assert!(!identity.is_of_its_authorities(identity.validity().not_after_s + 1), "it has ended by then");
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_file_that_is_wrong() {
        let authority = Authority::make(now_s()).expect("an authority");
        let (sound, other) = (pem(&authority, Role::Worker), pem(&authority, Role::Worker));
        let refused = |pem: Pem| Identity::from_pem(Role::Worker, &pem).expect_err("it does not fit").to_string();
        let mixed = refused(Pem { key: other.key, ..sound.clone() });
        assert!(mixed.starts_with("tls.key does not belong to tls.crt"), "{mixed}");
        let swapped = refused(pem_of_coordinator(&authority));
        assert!(swapped.starts_with("tls.crt cannot be used here: it is a coordinator's"), "{swapped}");
        let empty = refused(Pem { authorities: Vec::new(), ..sound.clone() });
        assert_eq!(empty, "ca.crt holds no usable PEM: there is no BEGIN CERTIFICATE in it");
        let cut = refused(Pem { certificate: sound.certificate[..100].to_vec(), ..sound.clone() });
        assert!(cut.starts_with("tls.crt holds no usable PEM"), "{cut}");
        let keyless = refused(Pem { key: sound.certificate.clone(), ..sound });
        assert!(keyless.starts_with("tls.key holds no usable PEM"), "{keyless}");
    }

    fn pem_of_coordinator(authority: &Authority) -> Pem {
        pem(authority, Role::Coordinator)
    }

    #[test]
    fn nothing_of_a_key_is_in_what_is_written_for_people() {
        let authority = Authority::make(now_s()).expect("an authority");
        let pem = pem(&authority, Role::Worker);
        let identity = Identity::from_pem(Role::Worker, &pem).expect("sound");
        let written = format!("{pem:?} {identity:?} {authority:?}");
        assert!(!written.contains("PRIVATE") && written.len() < 400, "{written}");
    }
}
