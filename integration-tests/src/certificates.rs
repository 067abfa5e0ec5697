//! Certificates for the processes under test, in folders that look like mounted Secrets.
//!
//! Knows: how an authority signs, and how the kubelet changes a mounted Secret. Must not know: who is started with them.

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

/// The Secret that coordinators keep their authority in.
pub const AUTHORITY_SECRET: &str = "flotilla-worker-ca";
/// The Secret that they write for workers.
pub const WORKER_SECRET: &str = "flotilla-worker-tls";

/// Makes an authority, and mounts a certificate of it for each role.
///
/// # Errors
/// Where a folder cannot be written to.
pub fn issue(places: &[(Role, PathBuf)]) -> anyhow::Result<Authority> {
    let authority = Authority::make(now_s())?;
    for (role, folder) in places {
        mount(folder, &authority.issue(*role, now_s())?)?;
    }
    Ok(authority)
}

/// Puts a certificate into a folder as the kubelet does with a Secret: a new folder beside the others, and one rename of the
/// link that all readers follow.
///
/// # Errors
/// Where the folder cannot be written to.
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

/// Accepts connections over TLS with a certificate and its key, both files in PEM.
///
/// # Errors
/// Where the files cannot be used.
pub fn acceptor(certificate: &Path, key: &Path) -> anyhow::Result<TlsAcceptor> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(certificate)?.collect();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain?, PrivateKeyDer::from_pem_file(key)?)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The same certificate with other authorities to trust.
#[must_use]
pub fn trusting(pem: Pem, authorities: &[&Authority]) -> Pem {
    let bundle: String = authorities.iter().map(|authority| authority.certificate()).collect();
    Pem { authorities: bundle.into_bytes(), ..pem }
}

/// Waits for a Secret that `holds` of it, and gives it.
///
/// # Errors
/// Where there is none in time.
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

/// Mounts a Secret, in place of the kubelet.
///
/// # Errors
/// Where it lacks one of the files, or the folder cannot be written to.
pub fn mount_secret(secret: &Secret, folder: &Path) -> anyhow::Result<()> {
    let data = secret.data.clone().unwrap_or_default();
    let text = |name: &str| {
        data.get(name).map(|ByteString(text)| text.clone()).with_context(|| format!("the Secret has no {name}"))
    };
    let [certificate, key, authorities] = FILES.map(text);
    mount(folder, &Pem { certificate: certificate?, key: key?, authorities: authorities? })
}
