//! The cluster's certificate authority, and its certificates, keys and kubeconfigs.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use serde_json::json;

/// The servers' names and addresses. The last is the first address of the service range, which belongs to the service `kubernetes`.
const SERVER_NAMES: [&str; 5] = ["127.0.0.1", "localhost", "kubernetes.default", "kubernetes.default.svc", "10.96.0.1"];

pub(super) struct Credentials {
    folder: PathBuf,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Credentials {
    /// Writes the authority's certificate, a serving certificate for 127.0.0.1, and the key that signs service account tokens.
    pub(super) fn create(folder: PathBuf) -> anyhow::Result<Self> {
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let mut params = named("flotilla-ca", None)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let credentials = Self { folder, authority };
        write(&credentials.authority_certificate(), &credentials.authority.pem())?;
        let accounts = KeyPair::generate()?;
        write(&credentials.service_account_key(), &accounts.serialize_pem())?;
        write(&credentials.service_account_public_key(), &accounts.public_key_pem())?;

        let mut serving = CertificateParams::new(SERVER_NAMES.map(str::to_owned).to_vec())?;
        serving.distinguished_name.push(DnType::CommonName, "flotilla-server");
        serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        credentials.sign(&serving, &credentials.serving_certificate(), &credentials.serving_key())?;
        Ok(credentials)
    }

    pub(super) fn authority_certificate(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    pub(super) fn serving_certificate(&self) -> PathBuf {
        self.folder.join("serving.crt")
    }

    pub(super) fn serving_key(&self) -> PathBuf {
        self.folder.join("serving.key")
    }

    pub(super) fn service_account_key(&self) -> PathBuf {
        self.folder.join("service-account.key")
    }

    pub(super) fn service_account_public_key(&self) -> PathBuf {
        self.folder.join("service-account.pub")
    }

    /// Writes a kubeconfig for `user` in `group` at `url`, with a new client certificate.
    pub(super) fn kubeconfig(&self, user: &str, group: Option<&str>, url: &str) -> anyhow::Result<PathBuf> {
        // User names contain colons and slashes.
        let file: String = user.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let certificate = self.folder.join(format!("{file}.crt"));
        let key = self.folder.join(format!("{file}.key"));
        let mut params = named(user, group)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params, &certificate, &key)?;

        let path = self.folder.join(format!("{file}.kubeconfig"));
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{
                "name": "flotilla",
                "cluster": { "server": url, "certificate-authority": self.authority_certificate() },
            }],
            "users": [{
                "name": user,
                "user": { "client-certificate": certificate, "client-key": key },
            }],
            "contexts": [{ "name": "flotilla", "context": { "cluster": "flotilla", "user": user } }],
            "current-context": "flotilla",
        });
        write(&path, &serde_json::to_string_pretty(&kubeconfig)?)?;
        Ok(path)
    }

    fn sign(&self, params: &CertificateParams, certificate: &Path, key: &Path) -> anyhow::Result<()> {
        let pair = KeyPair::generate()?;
        let signed = params
            .signed_by(&pair, &self.authority)
            .with_context(|| format!("cannot sign {}", certificate.display()))?;
        write(certificate, &signed.pem())?;
        write(key, &pair.serialize_pem())
    }
}

/// The API server reads the common name as the user, and the organisation as the group.
fn named(user: &str, group: Option<&str>) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, user);
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    Ok(params)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
