//! The coordinator's own certificate authority, kept in a Secret by the leader, and the certificates that it signs.
//!
//! The Secret of the authority holds its key and is for coordinators alone. Workers have no access to the API server: the Secret with their
//! certificate, in the layout of cert-manager, is mounted into their pods. Each leader signs its own certificate and does not store it.

use std::{collections::BTreeMap, time::Duration};

use flotilla_transport::{ExpiryLog, Identity, IdentityError, IssueError, Mutual, Pem, Role, is_due, now_s};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, ResourceExt as _, api::PostParams};
use tracing::{debug, info, warn};

#[cfg(test)]
mod any_bytes;
mod contents;

use contents::{Authorities, Due};

/// Between two checks, of two reads each. Certificates live for days, but a deleted Secret must be replaced soon.
const PERIOD: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(15);
/// Attempts of a write that conflicts with other writers. Each conflict means that another write succeeded.
const ATTEMPTS: u32 = 5;
/// Marks this program's Secrets; others of the same name are left alone.
const OWNER_LABEL: &str = "app.kubernetes.io/managed-by";
const OWNER: &str = "flotilla-coordinator";
const CERTIFICATE_STEP: &str = "see why the Secret cannot be written";

/// The location of the Secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secrets {
    /// Their namespace, that of the coordinator.
    pub namespace: String,
    /// The Secret with the authority and its key.
    pub authority: String,
    /// The Secret that workers mount.
    pub worker: String,
}

/// Issues certificates while this process leads.
#[derive(Clone)]
pub struct Issuer {
    api: Api<Secret>,
    secrets: Secrets,
    mutual: Mutual,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("cannot {verb} Secret {namespace}/{name}: {source}{}", hint(source))]
    Api { verb: &'static str, namespace: String, name: String, source: Box<kube::Error> },
    #[error(
        "Secret {namespace}/{name} is not labelled {OWNER_LABEL}={OWNER}: it has another owner and is not changed; \
             delete it to have one made, choose another name, or name files with --worker-tls-dir"
    )]
    Foreign { namespace: String, name: String },
    #[error("Secret {namespace}/{name} holds no usable authority: {source}; delete it to have another made")]
    Authority { namespace: String, name: String, source: IssueError },
    #[error("other clients keep writing Secret {namespace}/{name}")]
    Raced { namespace: String, name: String },
    #[error(transparent)]
    Issue(#[from] IssueError),
    #[error("the new certificate cannot be read: {0}")]
    Identity(#[from] IdentityError),
    #[error("the API server has not answered within {TIMEOUT:?}")]
    Timeout,
}

fn hint(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            "; grant create on secrets and get and update on this one, as deploy/base/rbac.yaml does, name files with \
             --worker-tls-dir, or pass --insecure-worker-transport"
        }
        _ => "",
    }
}

#[derive(Default)]
struct Memory {
    /// The trusted authorities when the own certificate was issued.
    bundle: String,
    authority: ExpiryLog,
    own: ExpiryLog,
    worker: ExpiryLog,
}

impl Issuer {
    /// Creates an issuer that passes the coordinator's certificate to `mutual`.
    #[must_use]
    pub fn new(client: kube::Client, secrets: Secrets, mutual: Mutual) -> Self {
        Self { api: Api::namespaced(client, &secrets.namespace), secrets, mutual }
    }

    /// Issues, renews and publishes certificates forever. Only the leader may run it. It logs failures and retries.
    pub async fn run(self) {
        let mut memory = Memory::default();
        let mut complaint = String::new();
        loop {
            let looked = tokio::time::timeout(TIMEOUT, self.look(&mut memory)).await;
            match looked.unwrap_or(Err(Failure::Timeout)) {
                Ok(()) => complaint.clear(),
                Err(failure) => {
                    let error = failure.to_string();
                    if error == complaint {
                        debug!(error, "still no certificates for workers");
                    } else {
                        warn!(error, "cannot renew the certificates of coordinator and workers; trying again");
                    }
                    complaint = error;
                }
            }
            if let Some(own) = self.mutual.credentials.current() {
                memory.own.look(now_s(), own.validity(), "the coordinator's certificate", CERTIFICATE_STEP);
            }
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// Checks all three: the authority, the own certificate, the workers' certificate.
    async fn look(&self, memory: &mut Memory) -> Result<(), Failure> {
        let authorities = self.authorities(now_s()).await?;
        if let Some(newest) = authorities.newest() {
            self.mutual.set_authority(newest.validity());
            memory.authority.look(now_s(), newest.validity(), "the authority of the workers", CERTIFICATE_STEP);
        }
        self.see_to_own(&authorities, memory)?;
        self.see_to_workers(&authorities, memory).await
    }

    /// The stored authorities. If another coordinator has written them first, this one uses them.
    async fn authorities(&self, now_s: i64) -> Result<Authorities, Failure> {
        let name = &self.secrets.authority;
        for _ in 0..ATTEMPTS {
            let found = self.get(name).await?;
            let kept = match found.as_ref().and_then(|found| found.data.as_ref()) {
                Some(data) => Authorities::read(data).map_err(|source| Failure::Authority {
                    namespace: self.secrets.namespace.clone(),
                    name: name.clone(),
                    source,
                })?,
                None => Authorities::default(),
            };
            let (authorities, is_changed) = kept.at(now_s)?;
            if !is_changed {
                return Ok(authorities);
            }
            if self.put(name, "Opaque", found, authorities.write()).await? {
                let secret = format_args!("{}/{name}", self.secrets.namespace);
                info!(%secret, trusted = authorities.count(), "authority of workers written");
                return Ok(authorities);
            }
        }
        Err(self.raced(name))
    }

    fn see_to_own(&self, authorities: &Authorities, memory: &mut Memory) -> Result<(), Failure> {
        let (now_s, bundle) = (now_s(), authorities.bundle());
        let will_do = self.mutual.credentials.current().is_some_and(|own| !is_due(now_s, own.validity()));
        if will_do && memory.bundle == bundle {
            return Ok(());
        }
        let pem = authorities.issue(Role::Coordinator, now_s)?;
        let identity = Identity::from_pem(Role::Coordinator, &pem)?;
        info!(not_after_s = identity.validity().not_after_s, "issued the coordinator's certificate");
        self.mutual.credentials.set(identity);
        memory.bundle = bundle;
        Ok(())
    }

    async fn see_to_workers(&self, authorities: &Authorities, memory: &mut Memory) -> Result<(), Failure> {
        let name = &self.secrets.worker;
        for _ in 0..ATTEMPTS {
            let now_s = now_s();
            let found = self.get(name).await?;
            let there = found.as_ref().and_then(|found| contents::read_pem(found.data.as_ref()?));
            let due = contents::due(now_s, there.as_ref(), &authorities.bundle());
            let pem = match (due, there) {
                (Due::Nothing(validity), _) => {
                    memory.worker.look(now_s, validity, "the certificate of the workers", CERTIFICATE_STEP);
                    return Ok(());
                }
                (Due::Bundle, Some(there)) => Pem { authorities: authorities.bundle().into_bytes(), ..there },
                (Due::Bundle | Due::Certificate, _) => authorities.issue(Role::Worker, now_s)?,
            };
            if self.put(name, "kubernetes.io/tls", found, contents::write_pem(pem)).await? {
                info!(secret = %format_args!("{}/{name}", self.secrets.namespace), "certificate of workers written");
                return Ok(());
            }
        }
        Err(self.raced(name))
    }

    async fn get(&self, name: &str) -> Result<Option<Secret>, Failure> {
        let found = self.api.get_opt(name).await.map_err(|source| self.failed("get", name, source))?;
        match found {
            Some(found) if found.labels().get(OWNER_LABEL).is_none_or(|owner| owner != OWNER) => {
                Err(Failure::Foreign { namespace: self.secrets.namespace.clone(), name: name.to_owned() })
            }
            found => Ok(found),
        }
    }

    /// Updates the version that was read, or creates the Secret. False: another client wrote it first.
    async fn put(
        &self,
        name: &str,
        kind: &str,
        found: Option<Secret>,
        data: BTreeMap<String, ByteString>,
    ) -> Result<bool, Failure> {
        let params = PostParams::default();
        let (verb, written) = match found {
            Some(found) => {
                let secret = Secret { data: Some(data), ..found };
                ("update", self.api.replace(name, &params, &secret).await)
            }
            None => {
                let mut secret = Secret { type_: Some(kind.to_owned()), data: Some(data), ..Secret::default() };
                secret.metadata.name = Some(name.to_owned());
                secret.labels_mut().insert(OWNER_LABEL.to_owned(), OWNER.to_owned());
                ("create", self.api.create(&params, &secret).await)
            }
        };
        match written {
            Ok(_) => Ok(true),
            // Another client has updated, created or deleted it.
            Err(kube::Error::Api(status)) if status.code == 409 || (status.code == 404 && verb == "update") => {
                debug!(name, verb, "another client has written the Secret");
                Ok(false)
            }
            Err(source) => Err(self.failed(verb, name, source)),
        }
    }

    fn failed(&self, verb: &'static str, name: &str, source: kube::Error) -> Failure {
        Failure::Api {
            verb,
            namespace: self.secrets.namespace.clone(),
            name: name.to_owned(),
            source: Box::new(source),
        }
    }

    fn raced(&self, name: &str) -> Failure {
        Failure::Raced { namespace: self.secrets.namespace.clone(), name: name.to_owned() }
    }
}
