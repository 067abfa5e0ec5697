//! TLS to one extender, by `tlsConfig` and `enableHTTPS`. The URL decides whether TLS is used.
//!
//! Source: `makeTransport` in upstream's extender.go, and `rest.TLSConfigFor`. Files are read when a configuration is applied.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use flotilla_framework::extender::{Extender, ExtenderTlsConfig};
use hyper_rustls::{ConfigBuilderExt as _, FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
};

/// Connects over TCP, and over TLS if the URL is `https`.
pub(super) type Connector = HttpsConnector<HttpConnector>;

/// Connects to the extender.
///
/// # Errors
/// Those of [`client_config`], or an invalid `serverName`.
pub(super) fn connector(extender: &Extender, tcp: HttpConnector) -> anyhow::Result<Connector> {
    let builder = HttpsConnectorBuilder::new().with_tls_config(client_config(extender)?).https_or_http();
    let server_name = extender.tls_config.as_ref().map_or("", |tls| &tls.server_name);
    let builder = match server_name {
        "" => builder,
        name => {
            let name = ServerName::try_from(name.to_owned()).context("serverName is no name of a host")?;
            builder.with_server_name_resolver(FixedServerNameResolver::new(name))
        }
    };
    Ok(builder.enable_all_versions().wrap_connector(tcp))
}

/// The TLS configuration of connections to the extender.
///
/// # Errors
/// A file that cannot be read, an invalid certificate or key, or a certificate without its key.
pub(super) fn client_config(extender: &Extender) -> anyhow::Result<ClientConfig> {
    let default = ExtenderTlsConfig::default();
    let tls = extender.tls_config.as_ref().unwrap_or(&default);
    let authorities = pem(&tls.ca_data.0, &tls.ca_file, "caFile")?;
    let is_insecure = tls.insecure || (extender.enable_https && authorities.is_none());
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let builder = match authorities {
        _ if is_insecure => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate { provider })),
        Some(text) => builder.with_root_certificates(roots(&text)?),
        None => builder.with_native_roots().context("cannot read the certificates that the system trusts")?,
    };
    let certificate = pem(&tls.cert_data.0, &tls.cert_file, "certFile")?;
    let key = pem(&tls.key_data.0, &tls.key_file, "keyFile")?;
    match (certificate, key) {
        (Some(certificate), Some(key)) => {
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&certificate).collect();
            let chain = chain.context("certData or certFile is no PEM")?;
            let key = PrivateKeyDer::from_pem_slice(&key).context("keyData or keyFile is no private key in PEM")?;
            builder.with_client_auth_cert(chain, key).context("certData or certFile and keyData or keyFile")
        }
        _ => Ok(builder.with_no_client_auth()),
    }
}

fn pem(data: &[u8], file: &str, field: &str) -> anyhow::Result<Option<Vec<u8>>> {
    if !data.is_empty() {
        return Ok(Some(data.to_owned()));
    }
    if file.is_empty() {
        return Ok(None);
    }
    std::fs::read(file).map(Some).with_context(|| format!("cannot read {field} {file}; check the path and its mode"))
}

fn roots(text: &[u8]) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(text) {
        roots.add(certificate.context("caData or caFile is no PEM")?).context("caData or caFile")?;
    }
    ensure!(!roots.is_empty(), "caData or caFile holds no certificate");
    Ok(roots)
}

/// Trusts any certificate of the extender, if its configuration asks for that.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
