//! A built-in certificate authority.

use std::{fmt, fs, io, io::Write as _, os::unix::fs::OpenOptionsExt as _, path::Path};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use time::OffsetDateTime;

use crate::tls::{AUTHORITY_LIFE_S, FILES, LEAF_LIFE_S, Pem, Role, Validity, schedule::BACKDATE_S};

/// Reason for a failed issue.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The certificate cannot be created.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// The certificate is not a signing authority.
    #[error("it is no authority that can sign: {0}")]
    Authority(String),
}

/// An authority with its key. Its `Debug` output contains no key.
pub struct Authority {
    certificate: String,
    key: String,
    validity: Validity,
}

impl fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Authority").field("validity", &self.validity).finish_non_exhaustive()
    }
}

impl Authority {
    /// Creates an authority that is valid from now, in seconds since 1970.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn make(now_s: i64) -> Result<Self, IssueError> {
        let validity = Validity { not_before_s: now_s - BACKDATE_S, not_after_s: now_s + AUTHORITY_LIFE_S };
        let key = KeyPair::generate()?;
        // A unique name: a peer that trusts two authorities identifies the signer by name.
        let name: String =
            params("", validity)?.key_identifier(&key).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let mut params = params(&format!("flotilla-worker-ca-{name}"), validity)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { certificate, key: key.serialize_pem(), validity })
    }

    /// Loads an authority from its certificate and key in PEM.
    ///
    /// # Errors
    /// The certificate is not an authority, or the key does not match.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, IssueError> {
        let unusable = |reason: &str| IssueError::Authority(reason.to_owned());
        let text = |bytes: &[u8], what: &str| {
            String::from_utf8(bytes.to_owned()).map_err(|_| IssueError::Authority(format!("{what} is no PEM")))
        };
        let (certificate, key) = (text(certificate, "tls.crt")?, text(key, "tls.key")?);
        let der = CertificateDer::from_pem_slice(certificate.as_bytes());
        let der = der.map_err(|error| IssueError::Authority(format!("tls.crt holds no usable PEM: {error}")))?;
        let (_, parsed) =
            x509_parser::parse_x509_certificate(&der).map_err(|_| unusable("tls.crt is no certificate"))?;
        if !parsed.is_ca() {
            return Err(unusable("tls.crt is the certificate of no authority"));
        }
        let pair = KeyPair::from_pem(&key).map_err(|error| IssueError::Authority(format!("tls.key: {error}")))?;
        if parsed.public_key().raw != rcgen::PublicKeyData::subject_public_key_info(&pair) {
            return Err(unusable("tls.key does not belong to tls.crt"));
        }
        let validity = Validity::of(&der).map_err(|error| IssueError::Authority(error.to_string()))?;
        // The signer also reads parts that are not checked above, such as key usages.
        Issuer::from_ca_cert_pem(&certificate, pair)
            .map_err(|error| IssueError::Authority(format!("tls.crt cannot sign: {error}")))?;
        Ok(Self { certificate, key, validity })
    }

    /// The certificate in PEM.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The private key in PEM.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The validity.
    #[must_use]
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// Issues a certificate for a role, valid from now for a week or until the authority expires. It trusts only this authority.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn issue(&self, role: Role, now_s: i64) -> Result<Pem, IssueError> {
        self.issue_for(role, now_s, LEAF_LIFE_S)
    }

    /// As [`issue`](Self::issue), with a validity in seconds.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn issue_for(&self, role: Role, now_s: i64, life_s: i64) -> Result<Pem, IssueError> {
        let issuer = Issuer::from_ca_cert_pem(&self.certificate, KeyPair::from_pem(&self.key)?)?;
        let not_after_s = self.validity.not_after_s.min(now_s + life_s);
        let validity = Validity { not_before_s: now_s - BACKDATE_S, not_after_s };
        let mut params = params(&format!("flotilla-{role}"), validity)?;
        params.subject_alt_names = vec![SanType::URI(role.uri().try_into()?)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        // Prevents use in the other role, regardless of names.
        params.extended_key_usages = vec![match role {
            Role::Coordinator => ExtendedKeyUsagePurpose::ClientAuth,
            Role::Worker => ExtendedKeyUsagePurpose::ServerAuth,
        }];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?.pem();
        Ok(Pem {
            certificate: certificate.into_bytes(),
            key: key.serialize_pem().into_bytes(),
            authorities: self.certificate.clone().into_bytes(),
        })
    }
}

fn params(name: &str, validity: Validity) -> Result<CertificateParams, IssueError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date(validity.not_before_s)?;
    params.not_after = date(validity.not_after_s)?;
    Ok(params)
}

fn date(time_s: i64) -> Result<OffsetDateTime, IssueError> {
    OffsetDateTime::from_unix_timestamp(time_s).map_err(|_| IssueError::Make(rcgen::Error::Time))
}

impl Pem {
    /// Writes `tls.crt`, `tls.key` and `ca.crt` into a folder, each atomically; only the owner can read the key.
    ///
    /// # Errors
    /// The folder does not exist or is not writable.
    pub fn write_to(&self, folder: &Path) -> io::Result<()> {
        for (name, bytes) in FILES.into_iter().zip([&self.certificate, &self.key, &self.authorities]) {
            let unfinished = folder.join(format!("{name}.new"));
            let mut options = fs::OpenOptions::new();
            options.create(true).truncate(true).write(true).mode(0o600);
            options.open(&unfinished)?.write_all(bytes)?;
            fs::rename(unfinished, folder.join(name))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::{Identity, now_s};

    #[test]
    fn an_authority_that_was_kept_signs_what_the_first_is_trusted_for() {
        let made = Authority::make(now_s()).expect("made");
        let kept = Authority::from_pem(made.certificate().as_bytes(), made.key().as_bytes()).expect("kept");
        assert_eq!(kept.validity(), made.validity());
        let mut pem = kept.issue(Role::Worker, now_s()).expect("issued");
        pem.authorities = made.certificate().as_bytes().to_owned();
        let identity = Identity::from_pem(Role::Worker, &pem).expect("sound");
        assert!(identity.is_of_its_authorities(now_s()));
    }

    #[test]
    fn a_certificate_never_outlives_its_authority() {
        let made = Authority::make(0).expect("made");
        let ends_s = made.validity().not_after_s;
        let of = |now_s| {
            let pem = made.issue(Role::Coordinator, now_s).expect("issued");
            Identity::from_pem(Role::Coordinator, &pem).expect("sound").validity().not_after_s
        };
        assert_eq!([of(0), of(ends_s - 60)], [LEAF_LIFE_S, ends_s]);
    }

    /// The PEM reader accepts this text but the signer's does not, so it was an authority until it had to sign.
    #[test]
    fn a_certificate_without_the_padding_of_its_base64_is_no_authority() {
        // Signatures vary in length, so some certificates need none.
        let mut made = std::iter::repeat_with(|| Authority::make(0).expect("made"));
        let made = made.find(|made| made.certificate().contains('=')).expect("one of many");
        let unpadded = made.certificate().replace('=', "");
        let error =
            Authority::from_pem(unpadded.as_bytes(), made.key().as_bytes()).expect_err("no authority").to_string();
        assert!(error.contains("tls.crt cannot sign"), "{error}");
    }

    #[test]
    fn what_cannot_sign_is_no_authority() {
        let (made, other) = (Authority::make(0).expect("made"), Authority::make(0).expect("made"));
        let refused = |certificate: &str, key: &str| {
            Authority::from_pem(certificate.as_bytes(), key.as_bytes()).expect_err("no authority").to_string()
        };
        let mixed = refused(made.certificate(), other.key());
        assert!(mixed.ends_with("tls.key does not belong to tls.crt"), "{mixed}");
        let leaf = made.issue(Role::Worker, 0).expect("issued");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("PEM");
        let leaf = refused(&text(leaf.certificate), &text(leaf.key));
        assert!(leaf.ends_with("tls.crt is the certificate of no authority"), "{leaf}");
        assert!(refused("", made.key()).contains("tls.crt holds no usable PEM"));
    }
}
