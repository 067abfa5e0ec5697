//! Certificates for processes under test, in folders like mounted Secrets.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use flotilla_control_plane::{ControlPlane, wait_until};
use flotilla_transport::{Authority, FILES, Pem, Role, now_s};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::Api;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use tokio_rustls::TlsAcceptor;

use crate::fleet::PATIENCE;

/// Secret with the coordinators' authority.
pub const AUTHORITY_SECRET: &str = "flotilla-worker-ca";
/// Secret that coordinators write for workers.
pub const WORKER_SECRET: &str = "flotilla-worker-tls";

/// Creates an authority, and mounts a certificate for each role.
///
/// # Errors
/// A folder is not writable.
pub fn issue(places: &[(Role, PathBuf)]) -> anyhow::Result<Authority> {
    let authority = Authority::make(now_s())?;
    for (role, folder) in places {
        mount(folder, &authority.issue(*role, now_s())?)?;
    }
    Ok(authority)
}

/// Writes a certificate as the kubelet updates a mounted Secret: a new folder, and a rename of the link that readers follow.
///
/// # Errors
/// The folder is not writable.
pub fn mount(folder: &Path, pem: &Pem) -> anyhow::Result<()> {
    let mounted = || -> std::io::Result<()> {
        fs::create_dir_all(folder)?;
        let version = format!("..{}", fs::read_dir(folder)?.count());
        fs::create_dir(folder.join(&version))?;
        pem.write_to(&folder.join(&version))?;
        symlink(&version, folder.join("..data_tmp"))?;
        fs::rename(folder.join("..data_tmp"), folder.join("..data"))?;
        for name in FILES.iter().filter(|name| !folder.join(name).is_symlink()) {
            symlink(format!("..data/{name}"), folder.join(name))?;
        }
        Ok(())
    };
    mounted().with_context(|| format!("cannot mount a certificate at {}", folder.display()))
}

/// TLS acceptor with a certificate and its key, both PEM files.
///
/// # Errors
/// The files are invalid.
pub fn acceptor(certificate: &Path, key: &Path) -> anyhow::Result<TlsAcceptor> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(certificate)?.collect();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain?, PrivateKeyDer::from_pem_file(key)?)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The same certificate with other trusted authorities.
#[must_use]
pub fn trusting(pem: Pem, authorities: &[&Authority]) -> Pem {
    let bundle: String = authorities.iter().map(|authority| authority.certificate()).collect();
    Pem { authorities: bundle.into_bytes(), ..pem }
}

/// Waits until a Secret satisfies `holds`, and returns it.
///
/// # Errors
/// Timeout.
pub async fn wait_for_secret(
    cluster: &ControlPlane,
    namespace: &str,
    name: &str,
    holds: impl Fn(&Secret) -> bool,
) -> anyhow::Result<Secret> {
    let api: Api<Secret> = Api::namespaced(cluster.client(), namespace);
    wait_until(&format!("Secret {namespace}/{name}"), PATIENCE, async || {
        let found = api.get_opt(name).await.map_err(|error| error.to_string())?;
        found.filter(&holds).ok_or_else(|| "it is not there, or as it was".to_owned())
    })
    .await
}

/// Mounts a Secret, instead of the kubelet.
///
/// # Errors
/// A file is missing in it, or the folder is not writable.
pub fn mount_secret(secret: &Secret, folder: &Path) -> anyhow::Result<()> {
    let data = secret.data.clone().unwrap_or_default();
    let text = |name: &str| {
        data.get(name).map(|ByteString(text)| text.clone()).with_context(|| format!("the Secret has no {name}"))
    };
    let [certificate, key, authorities] = FILES.map(text);
    mount(folder, &Pem { certificate: certificate?, key: key?, authorities: authorities? })
}
