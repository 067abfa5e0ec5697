//! Watches a folder with `tls.crt`, `tls.key` and `ca.crt`, such as a mounted Secret.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::MissedTickBehavior;
use tracing::{info, warn};

use crate::tls::{Credentials, ExpiryLog, Identity, IdentityError, Pem, Role, now_s};

/// The certificate, its key and the authorities.
pub const FILES: [&str; 3] = ["tls.crt", "tls.key", "ca.crt"];

/// Interval of reading the three small files. The kubelet takes a minute or two to update a mounted Secret.
const PERIOD: Duration = Duration::from_secs(1);
/// The same error is logged again after this many checks.
const PATIENCE: u32 = 60;
/// Larger files are not certificates; a Secret holds 1 MiB.
const MAX_BYTES: u64 = 1 << 20;

/// A folder with a certificate for one role.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
    role: Role,
}

/// Reason that a folder has no usable identity.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}; mount a Secret with tls.crt, tls.key and ca.crt there", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The files are not a valid identity.
    #[error("{}: {source}", path.display())]
    Identity {
        /// The folder.
        path: PathBuf,
        /// The reason.
        source: IdentityError,
    },
}

impl Folder {
    /// The folder at `path`, which may not exist yet.
    #[must_use]
    pub fn new(path: &Path, role: Role) -> Self {
        Self { path: path.to_owned(), role }
    }

    /// Updates `credentials` from the folder on every change, forever. An error keeps the previous identity. It is logged only after it
    /// occurs twice in a row, because files are not replaced atomically.
    pub async fn follow(self, credentials: Credentials) {
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut taken_up, mut expiry) = (None, ExpiryLog::default());
        let (mut complaint, mut looks) = (String::new(), 0_u32);
        loop {
            ticks.tick().await;
            match self.look(&mut taken_up).await {
                Ok(fresh) => {
                    looks = 0;
                    complaint.clear();
                    if let Some(identity) = fresh {
                        self.welcome(&identity);
                        credentials.set(identity);
                    }
                    if let Some(own) = credentials.current() {
                        let what = format!("the certificate in {}", self.path.display());
                        expiry.look(now_s(), own.validity(), &what, "check the process that writes those files");
                    }
                }
                Err(error) => {
                    let error = error.to_string();
                    looks = if error == complaint { looks.saturating_add(1) } else { 0 };
                    if looks == 1 || (looks > 0 && looks.is_multiple_of(PATIENCE)) {
                        self.complain(&error, credentials.current().is_some());
                    }
                    complaint = error;
                }
            }
        }
    }

    /// The identity, if it changed.
    async fn look(&self, taken_up: &mut Option<Pem>) -> Result<Option<Identity>, FolderError> {
        let pem = self.read().await?;
        if taken_up.as_ref() == Some(&pem) {
            return Ok(None);
        }
        let identity = Identity::from_pem(self.role, &pem);
        let identity = identity.map_err(|source| FolderError::Identity { path: self.path.clone(), source })?;
        *taken_up = Some(pem);
        Ok(Some(identity))
    }

    async fn read(&self) -> Result<Pem, FolderError> {
        let [certificate, key, authorities] = FILES.map(|name| slurp(self.path.join(name)));
        Ok(Pem { certificate: certificate.await?, key: key.await?, authorities: authorities.await? })
    }

    fn welcome(&self, identity: &Identity) {
        let folder = self.path.display();
        info!(%folder, role = %self.role, not_after_s = identity.validity().not_after_s, "certificate loaded");
        if !identity.is_of_its_authorities(now_s()) {
            warn!(%folder, "tls.crt does not verify against ca.crt; peers with the same ca.crt will reject it");
        }
    }

    fn complain(&self, error: &str, has_one: bool) {
        if has_one {
            warn!(error, "keeping the previous certificate");
        } else {
            warn!(error, "waiting for a certificate; clients cannot connect without it");
        }
    }
}

async fn slurp(path: PathBuf) -> Result<Vec<u8>, FolderError> {
    let read = async {
        if tokio::fs::metadata(&path).await?.len() > MAX_BYTES {
            return Err(io::Error::other(format!("it is larger than {MAX_BYTES} bytes")));
        }
        tokio::fs::read(&path).await
    };
    read.await.map_err(|source| FolderError::Read { path: path.clone(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::{Authority, credentials::tests::pem};

    #[tokio::test]
    async fn a_folder_is_news_once_and_again_when_it_has_changed() {
        let place = tempfile::tempdir().expect("a folder");
        let authority = Authority::make(now_s()).expect("an authority");
        let folder = Folder::new(place.path(), Role::Worker);
        let mut taken_up = None;
        let absent = folder.look(&mut taken_up).await.expect_err("nothing is there").to_string();
        let first = format!("cannot read {}", place.path().join("tls.crt").display());
        assert!(absent.starts_with(&first) && absent.contains("mount a Secret"), "{absent}");
        pem(&authority, Role::Worker).write_to(place.path()).expect("writable");
        assert!(folder.look(&mut taken_up).await.expect("sound").is_some());
        assert!(folder.look(&mut taken_up).await.expect("sound").is_none());
        pem(&authority, Role::Worker).write_to(place.path()).expect("writable");
        assert!(folder.look(&mut taken_up).await.expect("sound").is_some());
        std::fs::write(place.path().join("tls.key"), "half a k").expect("writable");
        let broken = folder.look(&mut taken_up).await.expect_err("no key").to_string();
        assert!(broken.starts_with(&format!("{}: tls.key holds no usable PEM", place.path().display())), "{broken}");
    }
}
