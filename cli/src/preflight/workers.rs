//! Checks whether the workers are reachable.

use std::{fs, path::Path, time::Duration};

use flotilla_transport::{FILES, Identity, Mutual, Pem, Role, dial};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Client, api::ListParams};
use tokio::net::TcpStream;

use super::{args::PreflightArgs, check::Check};

const NAME: &str = "workers";
/// The connection timeout.
const PATIENCE: Duration = Duration::from_secs(3);

/// Connects to each worker of the flags or of the Service.
pub(super) async fn reach(client: &Client, args: &PreflightArgs) -> Vec<Check> {
    let mutual = match args.worker_tls_dir.as_deref().map(mutual).transpose() {
        Ok(mutual) => mutual,
        Err(what) => return vec![Check::failed(NAME, what).next("check --worker-tls-dir")],
    };
    let addresses = match args.workers.as_slice() {
        [] => match of_service(client, args).await {
            Ok(addresses) => addresses,
            Err(check) => return vec![check],
        },
        named => named.to_vec(),
    };
    futures::future::join_all(addresses.iter().map(|address| try_one(address, mutual.as_ref()))).await
}

/// The addresses of the Service's endpoints.
async fn of_service(client: &Client, args: &PreflightArgs) -> Result<Vec<String>, Check> {
    let (namespace, service) = (&args.namespace, &args.worker_service);
    let about = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
    let slices = Api::<EndpointSlice>::namespaced(client.clone(), namespace).list(&about).await;
    let slices = slices.map_err(|error| Check::unanswered(NAME, &error))?;
    let addresses: Vec<String> = slices.items.iter().flat_map(of_slice).collect();
    if addresses.is_empty() {
        let what = format!("Service {namespace}/{service} has no ready endpoints yet");
        return Err(Check::unknown(NAME, what).next("name workers with --workers, or run this again after the rollout"));
    }
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
        let what = format!("Service {namespace}/{service} has {} ready endpoints", addresses.len());
        return Err(Check::unknown(NAME, what + ", which can be tried only from within the cluster"));
    }
    Ok(addresses)
}

fn of_slice(slice: &EndpointSlice) -> Vec<String> {
    let port = slice.ports.iter().flatten().find_map(|port| port.port);
    let ready = slice
        .endpoints
        .iter()
        .flatten()
        .filter(|endpoint| endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true));
    let addresses = ready.filter_map(|endpoint| endpoint.addresses.first());
    let host = |address: &String| if address.contains(':') { format!("[{address}]") } else { address.clone() };
    port.map(|port| addresses.map(|address| format!("{}:{port}", host(address))).collect()).unwrap_or_default()
}

async fn try_one(address: &str, mutual: Option<&Mutual>) -> Check {
    let Some(mutual) = mutual else {
        return match tokio::time::timeout(PATIENCE, TcpStream::connect(address)).await {
            Ok(Ok(_)) => Check::passed(NAME, format!("{address} listens"))
                .next("--worker-tls-dir with a coordinator's certificate has the handshake tried too"),
            Ok(Err(error)) => unreachable(address, &error.to_string()),
            Err(_) => unreachable(address, &format!("no connection within {PATIENCE:?}")),
        };
    };
    match dial(address, mutual).await {
        Ok(dialled) => match dialled.refusal().get() {
            Some(refusal) => unreachable(address, &refusal.to_string()),
            None => Check::passed(NAME, format!("{address} has shown the certificate of a worker")),
        },
        Err(error) => unreachable(address, &error.to_string()),
    }
}

fn unreachable(address: &str, why: &str) -> Check {
    Check::failed(NAME, format!("{address}: {why}")).next(
        "check that it runs and that network policies admit coordinators; docs/concepts/transport.md lists the checks",
    )
}

fn mutual(folder: &Path) -> Result<Mutual, String> {
    let read = |file: &str| {
        let path = folder.join(file);
        fs::read(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    let [certificate, key, authorities] = FILES.map(read);
    let pem = Pem { certificate: certificate?, key: key?, authorities: authorities? };
    let identity = Identity::from_pem(Role::Coordinator, &pem);
    let identity = identity.map_err(|error| format!("{} makes no coordinator: {error}", folder.display()))?;
    let mutual = Mutual::new(Role::Coordinator);
    mutual.credentials.set(identity);
    Ok(mutual)
}
