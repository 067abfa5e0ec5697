//! The certificates of connections to workers.

use flotilla_transport::{Folder, Mutual, Role, Transport};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::Reach;
use crate::{
    args::Args,
    certificates::{Issuer, Secrets},
};

/// Access to the workers, and the issuer of certificates. Without workers the coordinator needs no permission for Secrets.
pub(super) fn reach(args: &Args, client: &kube::Client, stop: &CancellationToken) -> (Reach, Option<Issuer>) {
    if !args.expects_workers() {
        return (Reach::Unused, None);
    }
    let (transport, issuer) = transport(args, client, stop);
    (Reach::Network(transport), issuer)
}

/// The transport to workers, and the issuer of certificates, unless they come from files. Files are reloaded until `stop`.
fn transport(args: &Args, client: &kube::Client, stop: &CancellationToken) -> (Transport, Option<Issuer>) {
    let flags = &args.transport;
    if flags.insecure_worker_transport {
        warn!(
            "--insecure-worker-transport: servers at workers' addresses are not authenticated, and nothing is encrypted"
        );
        return (Transport::InsecurePlaintext, None);
    }
    let mutual = Mutual::new(Role::Coordinator);
    if let Some(path) = &flags.worker_tls_dir {
        let following = Folder::new(path, Role::Coordinator).follow(mutual.credentials.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(following));
        return (Transport::Mutual(mutual), None);
    }
    let secrets = Secrets {
        namespace: args.worker_namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned()),
        authority: flags.worker_ca_secret.clone(),
        worker: flags.worker_tls_secret.clone(),
    };
    let Secrets { namespace, authority, worker } = &secrets;
    info!(namespace, authority, worker, "issuing the certificates of workers, in Secrets");
    let issuer = Issuer::new(client.clone(), secrets, mutual.clone());
    (Transport::Mutual(mutual), Some(issuer))
}
