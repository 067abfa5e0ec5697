//! Verifies a peer: trusted authority, valid now, expected role.
//!
//! rustls names the module of this trait `danger`, because an implementation may omit checks. This one omits none: rustls' own functions
//! check chain, time, key usage and handshake signatures. Revocation is not checked, as in rustls without CRLs. One check differs. rustls
//! would compare the certificate with the dialled address. Pods have no stable address, and an authority's certificate for some host must
//! not make its holder a worker. The role is compared instead.

use std::{fmt, sync::Arc};

use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor,
    },
    crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::{
        ParsedCertificate, WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};

use crate::tls::{Role, credentials::provider};

struct Servers {
    roots: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
    role: Role,
}

struct Clients {
    webpki: Arc<dyn ClientCertVerifier>,
    role: Role,
}

pub(crate) fn servers(roots: &Arc<RootCertStore>, role: Role) -> Arc<dyn ServerCertVerifier> {
    Arc::new(Servers { roots: Arc::clone(roots), algorithms: provider().signature_verification_algorithms, role })
}

/// A client without a certificate is rejected.
pub(crate) fn clients(roots: &Arc<RootCertStore>, role: Role) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let webpki = WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), provider()).build();
    Ok(Arc::new(Clients { webpki: webpki.map_err(|error| error.to_string())?, role }))
}

/// Whether these verifiers would accept a chain, leaf first, at that time.
pub(crate) fn check(
    roots: &Arc<RootCertStore>,
    role: Role,
    chain: &[CertificateDer<'_>],
    now_s: i64,
) -> Result<(), Error> {
    let (leaf, intermediates) = chain.split_first().ok_or(Error::NoCertificatesPresented)?;
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now_s.try_into().unwrap_or_default()));
    match role {
        Role::Worker => {
            let nowhere = ServerName::try_from("worker").map_err(|_| Error::UnsupportedNameType)?;
            servers(roots, role).verify_server_cert(leaf, intermediates, &nowhere, &[], now).map(drop)
        }
        Role::Coordinator => {
            let clients = clients(roots, role).map_err(Error::General)?;
            clients.verify_client_cert(leaf, intermediates, now).map(drop)
        }
    }
}

fn has_role(role: Role, leaf: &CertificateDer<'_>) -> Result<(), Error> {
    let refused = |error| Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(error))));
    role.check(leaf).map_err(refused)
}

impl ServerCertVerifier for Servers {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _address: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(leaf)?;
        let algorithms = self.algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, intermediates, now, algorithms)?;
        has_role(self.role, leaf)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, leaf, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, leaf, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Clients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.webpki.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.webpki.verify_client_cert(leaf, intermediates, now)?;
        has_role(self.role, leaf)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls12_signature(message, leaf, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls13_signature(message, leaf, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Servers({})", self.role)
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Clients({})", self.role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::{Authority, Identity, Pem, credentials::tests::pem, now_s};

    fn roots(pem: &Pem, role: Role) -> (Arc<RootCertStore>, Vec<CertificateDer<'static>>) {
        let identity = Identity::from_pem(role, pem).expect("sound");
        (Arc::clone(identity.roots()), identity.chain().to_vec())
    }

    #[test]
    fn a_certificate_is_good_for_its_role_and_its_time_and_under_its_authority_only() {
        let (ours, theirs) = (Authority::make(now_s()).expect("made"), Authority::make(now_s()).expect("made"));
        for role in [Role::Coordinator, Role::Worker] {
            let (trusted, chain) = roots(&pem(&ours, role), role);
            let (strange, _) = roots(&pem(&theirs, role), role);
            assert_eq!(check(&trusted, role, &chain, now_s()), Ok(()));
            assert!(check(&trusted, role.peer(), &chain, now_s()).is_err(), "a {role} as the other");
            assert!(check(&trusted, role, &chain, now_s() + 8 * 24 * 3600).is_err(), "after its end");
            assert!(check(&trusted, role, &chain, now_s() - 3600).is_err(), "before its begin");
            let stranger = check(&strange, role, &chain, now_s());
            assert_eq!(stranger, Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)));
            assert_eq!(check(&trusted, role, &[], now_s()), Err(Error::NoCertificatesPresented));
        }
    }
}
