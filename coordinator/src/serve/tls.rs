//! The certificate of the HTTPS endpoints: two files, reloaded as they change, or a self-signed one.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

use super::{ServeConfig, ServeError};

const CERT_FLAG: &str = "--tls-cert-file";
const KEY_FLAG: &str = "--tls-private-key-file";

#[derive(Debug)]
pub(super) struct Identity {
    files: Option<Files>,
    current: RwLock<Arc<CertifiedKey>>,
}

#[derive(Debug)]
struct Files {
    cert: PathBuf,
    key: PathBuf,
}

impl Identity {
    /// Reads both files, or creates a self-signed certificate if neither is given.
    pub(super) async fn load(config: &ServeConfig) -> Result<Self, ServeError> {
        let files = match (&config.tls_cert_file, &config.tls_private_key_file) {
            (Some(cert), Some(key)) => Some(Files { cert: cert.clone(), key: key.clone() }),
            (None, None) => None,
            (Some(_), None) => return Err(ServeError::Half(KEY_FLAG)),
            (None, Some(_)) => return Err(ServeError::Half(CERT_FLAG)),
        };
        let current = match &files {
            Some(files) => files.read().await?,
            None => self_signed(config)?,
        };
        Ok(Self { files, current: RwLock::new(Arc::new(current)) })
    }

    /// Reads the files again. A half-written or broken pair keeps the active one.
    pub(super) async fn reload(&self) {
        let Some(files) = &self.files else { return };
        match files.read().await {
            Ok(fresh) if fresh.cert == self.current().cert => {}
            Ok(fresh) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(fresh);
                info!(file = %files.cert.display(), "certificate reloaded");
            }
            Err(error) => warn!(%error, "keeping the previous certificate"),
        }
    }

    pub(super) fn origin(&self) -> String {
        self.files.as_ref().map_or_else(|| "self-signed".to_owned(), |files| files.cert.display().to_string())
    }

    fn current(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    #[cfg(test)]
    pub(super) fn leaf(&self) -> CertificateDer<'static> {
        self.current().cert[0].clone()
    }
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

impl Files {
    async fn read(&self) -> Result<CertifiedKey, ServeError> {
        let pem = slurp(CERT_FLAG, &self.cert).await?;
        let unusable = |flag, path: &Path, reason: String| ServeError::Pem { flag, path: path.to_owned(), reason };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem)
            .collect::<Result<_, _>>()
            .map_err(|error| unusable(CERT_FLAG, &self.cert, error.to_string()))?;
        if chain.is_empty() {
            return Err(unusable(CERT_FLAG, &self.cert, "there is no BEGIN CERTIFICATE in it".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_slice(&slurp(KEY_FLAG, &self.key).await?)
            .map_err(|error| unusable(KEY_FLAG, &self.key, error.to_string()))?;
        Ok(CertifiedKey::from_der(chain, key, &provider())?)
    }
}

async fn slurp(flag: &'static str, path: &Path) -> Result<Vec<u8>, ServeError> {
    tokio::fs::read(path).await.map_err(|source| ServeError::Read { flag, path: path.to_owned(), source })
}

/// Named explicitly: a process that links two providers has no default one.
fn provider() -> CryptoProvider {
    ring::default_provider()
}

fn self_signed(config: &ServeConfig) -> Result<CertifiedKey, ServeError> {
    let mut names = vec!["localhost".to_owned(), "flotilla-coordinator".to_owned()];
    names.extend(["127.0.0.1".to_owned(), "::1".to_owned()]);
    if !config.bind_address.is_unspecified() && !config.bind_address.is_loopback() {
        names.push(config.bind_address.to_string());
    }
    let made = rcgen::generate_simple_self_signed(names)?;
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    Ok(CertifiedKey::from_der(vec![made.cert.der().clone()], key, &provider())?)
}

/// TLS 1.2 and 1.3 as `identity`, for HTTP/2 and HTTP/1.1. A client may present a certificate of `authority`, in PEM.
pub(super) fn acceptor(identity: &Arc<Identity>, authority: Option<&str>) -> Result<TlsAcceptor, ServeError> {
    let provider = Arc::new(provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?;
    let builder = match authority {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(pem)?), provider);
            let verifier = verifier.allow_unauthenticated().build();
            builder.with_client_cert_verifier(verifier.map_err(|error| ServeError::Authority(error.to_string()))?)
        }
    };
    let mut config = builder.with_cert_resolver(Arc::clone(identity) as Arc<dyn ResolvesServerCert>);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn roots(pem: &str) -> Result<RootCertStore, ServeError> {
    let unusable = |reason: String| ServeError::Authority(reason);
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(certificate.map_err(|error| unusable(error.to_string()))?)?;
    }
    if roots.is_empty() { Err(unusable("there is no BEGIN CERTIFICATE in it".to_owned())) } else { Ok(roots) }
}
