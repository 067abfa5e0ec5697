//! Checks the namespace and its pod security, the priority class, and the workers' Secret.

use flotilla_transport::{Identity, Pem, Role, now_s};
use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{Namespace, Secret},
    scheduling::v1::PriorityClass,
};
use kube::{Api, Client, ResourceExt as _};

use super::{args::PreflightArgs, check::Check};

const PRIORITY_CLASS: &str = "system-cluster-critical";
const ENFORCE: &str = "pod-security.kubernetes.io/enforce";

pub(super) async fn namespace(client: &Client, name: &str) -> Check {
    const NAME: &str = "namespace";
    match Api::<Namespace>::all(client.clone()).get_opt(name).await {
        Ok(Some(namespace)) => {
            let level = namespace.labels().get(ENFORCE).map(String::as_str);
            let security = match level {
                Some(level) => format!("pod security enforces {level}, and the manifests keep to restricted"),
                None => "it sets no pod security level".to_owned(),
            };
            Check::passed(NAME, format!("{name} is there; {security}"))
        }
        Ok(None) => Check::failed(NAME, format!("there is no namespace {name}"))
            .next("kubectl apply -f deploy/base/namespace.yaml"),
        Err(error) => Check::unanswered(NAME, &error),
    }
}

pub(super) async fn priority_class(client: &Client) -> Check {
    const NAME: &str = "priority class";
    match Api::<PriorityClass>::all(client.clone()).get_opt(PRIORITY_CLASS).await {
        Ok(Some(class)) => {
            Check::passed(NAME, format!("{PRIORITY_CLASS} is there, value {}", class.value.unwrap_or_default()))
        }
        Ok(None) => Check::failed(NAME, format!("there is no priority class {PRIORITY_CLASS}"))
            .next("the API server makes it when it starts; see its log, or name another in the manifests"),
        Err(error) => Check::unanswered(NAME, &error),
    }
}

pub(super) async fn secret(client: &Client, args: &PreflightArgs) -> Check {
    const NAME: &str = "workers' certificate";
    let (namespace, name) = (&args.namespace, &args.worker_tls_secret);
    match Api::<Secret>::namespaced(client.clone(), namespace).get_opt(name).await {
        Ok(Some(secret)) => judged(NAME, &format!("Secret {namespace}/{name}"), secret, now_s()),
        Ok(None) => {
            let what = format!("there is no Secret {namespace}/{name} yet");
            Check::unknown(NAME, what)
                .next("the first coordinator that leads writes it; docs/concepts/transport.md has the other ways")
        }
        Err(error) => Check::unanswered(NAME, &error),
    }
}

fn judged(name: &'static str, place: &str, secret: Secret, now_s: i64) -> Check {
    let mut data = secret.data.unwrap_or_default();
    let mut text = |file: &str| data.remove(file).map(|bytes| bytes.0).unwrap_or_default();
    let pem = Pem { certificate: text("tls.crt"), key: text("tls.key"), authorities: text("ca.crt") };
    let validity = match Identity::from_pem(Role::Worker, &pem) {
        Ok(identity) => identity.validity(),
        Err(error) => {
            let next = "delete it, and the coordinator that leads writes another; or see what fills it";
            return Check::failed(name, format!("{place} is of no use to a worker: {error}")).next(next);
        }
    };
    let end = Timestamp::from_second(validity.not_after_s).map(|end| end.to_string()).unwrap_or_default();
    if validity.not_after_s <= now_s {
        let next = "see why it was not renewed: docs/concepts/transport.md";
        return Check::failed(name, format!("the certificate in {place} ended at {end}")).next(next);
    }
    Check::passed(name, format!("the certificate in {place} is valid until {end}"))
}
