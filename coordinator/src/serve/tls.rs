//! The certificate of the HTTPS endpoints: two files, reloaded as they change, or a self-signed one; and the versions of TLS.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion, version};
use tokio::io::AsyncWriteExt as _;
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

use super::{ServeConfig, ServeError};
use crate::args::TlsFlags;

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
    /// Reads both files, or creates a self-signed certificate if neither is given: in memory, or in the files of `--cert-dir`.
    pub(super) async fn load(config: &ServeConfig) -> Result<Self, ServeError> {
        let files = match (&config.tls_cert_file, &config.tls_private_key_file) {
            (Some(cert), Some(key)) => Some(Files { cert: cert.clone(), key: key.clone() }),
            (None, None) => config.tls.cert_dir.as_deref().map(Files::within),
            (Some(_), None) => return Err(ServeError::Half(KEY_FLAG)),
            (None, Some(_)) => return Err(ServeError::Half(CERT_FLAG)),
        };
        let is_absent = |files: &Files| !files.cert.exists() && !files.key.exists();
        if let Some(files) = files.as_ref().filter(|files| config.tls_cert_file.is_none() && is_absent(files)) {
            files.write(&generate(config)?).await?;
        }
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
    /// The names of kube-scheduler.
    fn within(folder: &Path) -> Self {
        Self { cert: folder.join("kube-scheduler.crt"), key: folder.join("kube-scheduler.key") }
    }

    async fn write(&self, made: &rcgen::CertifiedKey<rcgen::KeyPair>) -> Result<(), ServeError> {
        let error = |path: &Path, source| ServeError::Write { path: path.to_owned(), source };
        if let Some(folder) = self.cert.parent() {
            tokio::fs::create_dir_all(folder).await.map_err(|source| error(folder, source))?;
        }
        for (path, text, mode) in
            [(&self.cert, made.cert.pem(), 0o644), (&self.key, made.signing_key.serialize_pem(), 0o600)]
        {
            let file = tokio::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path).await;
            let mut file = file.map_err(|source| error(path, source))?;
            file.write_all(text.as_bytes()).await.map_err(|source| error(path, source))?;
            file.flush().await.map_err(|source| error(path, source))?;
        }
        Ok(())
    }

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

fn generate(config: &ServeConfig) -> Result<rcgen::CertifiedKey<rcgen::KeyPair>, ServeError> {
    let mut names = vec!["localhost".to_owned(), "flotilla-coordinator".to_owned()];
    names.extend(["127.0.0.1".to_owned(), "::1".to_owned()]);
    if !config.bind_address.is_unspecified() && !config.bind_address.is_loopback() {
        names.push(config.bind_address.to_string());
    }
    Ok(rcgen::generate_simple_self_signed(names)?)
}

fn self_signed(config: &ServeConfig) -> Result<CertifiedKey, ServeError> {
    let made = generate(config)?;
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    Ok(CertifiedKey::from_der(vec![made.cert.der().clone()], key, &provider())?)
}

fn is_of_1_3(suite: &SupportedCipherSuite) -> bool {
    suite.version() == &version::TLS13
}

fn name_of(suite: &SupportedCipherSuite) -> &'static str {
    suite.suite().as_str().unwrap_or_default()
}

/// The suites, groups and versions that the flags leave. As in Go, flags do not apply to the suites of TLS 1.3.
fn restricted(tls: &TlsFlags) -> Result<(CryptoProvider, Vec<&'static SupportedProtocolVersion>), ServeError> {
    let mut provider = provider();
    let suites = &tls.tls_cipher_suites;
    if !suites.is_empty() {
        provider.cipher_suites.retain(|suite| is_of_1_3(suite) || suites.iter().any(|name| name == name_of(suite)));
    }
    let groups = &tls.tls_curve_preferences;
    if !groups.is_empty() {
        provider.kx_groups.retain(|group| groups.contains(&u16::from(group.name())));
    }
    if provider.kx_groups.is_empty() {
        return Err(ServeError::Groups);
    }
    let with_1_2 = tls.tls_min_version != "VersionTLS13" && !provider.cipher_suites.iter().all(is_of_1_3);
    let versions = if with_1_2 { vec![&version::TLS13, &version::TLS12] } else { vec![&version::TLS13] };
    Ok((provider, versions))
}

/// Names of the given cipher suites that are not implemented.
pub(super) fn unimplemented(tls: &TlsFlags) -> Vec<&str> {
    let known = provider().cipher_suites;
    let is_known = |name: &str| {
        name.starts_with("TLS_AES_")
            || name.starts_with("TLS_CHACHA20_")
            || known.iter().any(|suite| name_of(suite) == name)
    };
    tls.tls_cipher_suites.iter().map(String::as_str).filter(|name| !is_known(name)).collect()
}

/// TLS as `identity`, for HTTP/2 and HTTP/1.1, within the limits of the flags. A client may present a certificate of `authority`, in PEM.
pub(super) fn acceptor(
    identity: &Arc<Identity>,
    tls: &TlsFlags,
    authority: Option<&str>,
) -> Result<TlsAcceptor, ServeError> {
    let (provider, versions) = restricted(tls)?;
    let provider = Arc::new(provider);
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(&versions)?;
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
    if tls.disable_http2_serving {
        config.alpn_protocols.remove(0);
    }
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
