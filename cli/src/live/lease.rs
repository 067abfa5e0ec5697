//! Finds the Lease of the coordinators.

use anyhow::{Context as _, bail};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{Api, Client};

use super::ask::refused;

/// The default Leases to look at: that of `deploy/`, that of a coordinator without a configuration, and kube-scheduler's, for coordinators
/// that share it.
pub(super) const LEASES: [(&str, &str); 3] =
    [("flotilla", "flotilla"), ("kube-system", "flotilla"), ("kube-system", "kube-scheduler")];

#[derive(Debug)]
pub(super) struct Held {
    /// `NAMESPACE/NAME`.
    pub(super) lease: String,
    pub(super) spec: LeaseSpec,
}

impl Held {
    /// The holder's identity; never empty.
    pub(super) fn holder(&self) -> &str {
        self.spec.holder_identity.as_deref().unwrap_or_default()
    }
}

/// The Lease `given`, or the first of [`LEASES`] with a holder. After a coordinator has changed its Lease, the old one remains without a
/// holder.
///
/// # Errors
/// No Lease has a holder, or requests fail; with the result for each Lease and the next step.
pub(super) async fn held(client: &Client, given: Option<&(String, String)>) -> anyhow::Result<Held> {
    let named = given.map(|(namespace, name)| vec![(namespace.as_str(), name.as_str())]);
    let mut found = Vec::new();
    for (namespace, name) in named.unwrap_or_else(|| LEASES.to_vec()) {
        let lease = format!("{namespace}/{name}");
        match Api::<Lease>::namespaced(client.clone(), namespace).get_opt(name).await {
            Ok(Some(object)) => {
                let held = Held { lease, spec: object.spec.unwrap_or_default() };
                if !held.holder().is_empty() {
                    return Ok(held);
                }
                found.push(format!("no process holds the Lease {}", held.lease));
            }
            Ok(None) => found.push(format!("there is no Lease {lease}")),
            // RBAC may allow some of the Leases only.
            Err(error @ kube::Error::Api(_)) => {
                found.push(format!("{:#}", refused(error, &format!("get lease {lease}"))));
            }
            Err(error) => return Err(error).with_context(|| format!("cannot get lease {lease}")),
        }
    }
    let next = if given.is_some() { "so no coordinator leads there" } else { "name the one in use with --lease" };
    bail!("{}; {next}", found.join(", "))
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// An API server with these Leases (namespace, name, holder). It answers 403 for those in `forbidden`.
    fn api_server(leases: &'static [(&'static str, &'static str, &'static str)]) -> Client {
        let service = tower::service_fn(move |request: Request<Body>| async move {
            let path = request.uri().path().to_owned();
            let lease = leases.iter().find(|(namespace, name, _)| {
                path == format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}")
            });
            let (code, body): (u16, Value) = match lease {
                Some((_, _, "forbidden")) => (403, status(403, "Forbidden", "leases is forbidden")),
                Some((_, name, holder)) => {
                    (200, json!({ "metadata": { "name": name }, "spec": { "holderIdentity": holder } }))
                }
                None => (404, status(404, "NotFound", "not found")),
            };
            let response = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
            Ok::<_, std::convert::Infallible>(response.expect("a response"))
        });
        Client::new(service, "default")
    }

    fn status(code: u16, reason: &str, message: &str) -> Value {
        json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message })
    }

    async fn holder(leases: &'static [(&'static str, &'static str, &'static str)], given: Option<&str>) -> String {
        let given = given.and_then(|lease| lease.split_once('/')).map(|(a, b)| (a.to_owned(), b.to_owned()));
        match held(&api_server(leases), given.as_ref()).await {
            Ok(held) => format!("{} holds {}", held.holder(), held.lease),
            Err(error) => format!("{error:#}"),
        }
    }

    #[tokio::test]
    async fn the_first_lease_with_a_holder_says_which_coordinator_leads() {
        let all =
            &[("flotilla", "flotilla", "a"), ("kube-system", "flotilla", "b"), ("kube-system", "kube-scheduler", "c")];
        assert_eq!(holder(all, None).await, "a holds flotilla/flotilla");
        let given_back = &[("flotilla", "flotilla", ""), ("kube-system", "flotilla", "b")];
        assert_eq!(holder(given_back, None).await, "b holds kube-system/flotilla");
        let in_its_place = &[("flotilla", "flotilla", "forbidden"), ("kube-system", "kube-scheduler", "c")];
        assert_eq!(holder(in_its_place, None).await, "c holds kube-system/kube-scheduler");
        assert_eq!(holder(all, Some("kube-system/flotilla")).await, "b holds kube-system/flotilla");
    }

    #[tokio::test]
    async fn where_no_coordinator_leads_each_lease_that_was_read_is_named() {
        let none = &[("flotilla", "flotilla", ""), ("kube-system", "kube-scheduler", "forbidden")];
        assert_eq!(
            holder(none, None).await,
            "no process holds the Lease flotilla/flotilla, there is no Lease kube-system/flotilla, cannot get lease \
             kube-system/kube-scheduler: leases is forbidden; name the one in use with --lease"
        );
        assert_eq!(
            holder(none, Some("flotilla/flotilla")).await,
            "no process holds the Lease flotilla/flotilla; so no coordinator leads there"
        );
        assert_eq!(holder(none, Some("a/b")).await, "there is no Lease a/b; so no coordinator leads there");
    }
}
