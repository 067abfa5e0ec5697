//! Requests to the running coordinator: a pod's state, the configuration, the status.
//!
//! The API server's proxy does not forward the user's credentials, and it does not authenticate to a pod itself. So requests carry a token
//! of a service account, with the coordinator as its only audience.

use anyhow::{Context as _, anyhow};
use flotilla_coordinator::serve::{
    TOKEN_AUDIENCE, TOKEN_HEADER,
    explain::{self, Explained},
    status::{self, CoordinatorStatus},
};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, Client, api::PostParams};
use serde_json::Value;

use super::{connection::Connection, lease};
use crate::reach::ReachArgs;

/// The token's lifetime: the minimum that an API server issues.
const TOKEN_S: i64 = 600;

pub(crate) struct Coordinator {
    client: Client,
    /// The prefix of all paths.
    prefix: String,
    token: Option<String>,
    /// For messages.
    pub(crate) name: String,
}

/// Finds the leading coordinator, or the one at `url`.
///
/// # Errors
/// The coordinator cannot be reached, with the next step.
pub(crate) async fn find(connection: &Connection, args: &ReachArgs, url: Option<&str>) -> anyhow::Result<Coordinator> {
    if let Some(url) = url {
        let client = connection.directly(url, args).await?;
        return Ok(Coordinator { client, prefix: String::new(), token: None, name: url.to_owned() });
    }
    let client = connection.client.clone();
    let held = lease::held(&client, args.lease.as_ref()).await?;
    let pod = pod_of(held.holder());
    let token = token(&client, &args.service_account).await?;
    let prefix = proxy(&args.coordinator_namespace, pod, args.coordinator_port);
    let name = format!("pod {}/{pod}, which holds the Lease {}", args.coordinator_namespace, held.lease);
    Ok(Coordinator { client, prefix, token: Some(token), name })
}

impl Coordinator {
    /// The state of a pod.
    pub(crate) async fn explain(&self, namespace: &str, name: &str) -> anyhow::Result<Explained> {
        let text = self.get(&explain::path(namespace, name)).await?;
        serde_json::from_str(&text).with_context(|| format!("the answer of {} is not valid", self.name))
    }

    pub(crate) async fn status(&self) -> anyhow::Result<CoordinatorStatus> {
        let text = self.get(status::ROUTE).await?;
        serde_json::from_str(&text).with_context(|| format!("the answer of {} is not valid", self.name))
    }

    /// The active configuration as a configuration file.
    pub(crate) async fn configuration(&self) -> anyhow::Result<String> {
        let text = self.get("/configz").await?;
        let mut page: Value = serde_json::from_str(&text).with_context(|| format!("/configz of {}", self.name))?;
        let mut configuration = page["componentconfig"].take();
        if let Value::Object(fields) = &mut configuration {
            // The status of configuration changes is not part of it.
            fields.remove("flotilla");
        }
        Ok(configuration.to_string())
    }

    async fn get(&self, path: &str) -> anyhow::Result<String> {
        let mut request = http::Request::get(format!("{}{path}", self.prefix));
        if let Some(token) = &self.token {
            request = request.header(TOKEN_HEADER, format!("Bearer {token}"));
        }
        let request = request.body(Vec::new()).context("this makes no request")?;
        let answer = self.client.request_text(request).await;
        answer.map_err(|error| refused(error, &format!("read {path} of {}", self.name)))
    }
}

/// The pod in a Lease identity, which is the host name and a random part; the host name of a pod is its name.
fn pod_of(identity: &str) -> &str {
    identity.rsplit_once('_').map_or(identity, |(host, _)| host)
}

fn proxy(namespace: &str, pod: &str, port: u16) -> String {
    format!("/api/v1/namespaces/{namespace}/pods/https:{pod}:{port}/proxy")
}

async fn token(client: &Client, (namespace, name): &(String, String)) -> anyhow::Result<String> {
    let spec = TokenRequestSpec {
        audiences: Some(vec![TOKEN_AUDIENCE.to_owned()]),
        expiration_seconds: Some(TOKEN_S),
        ..TokenRequestSpec::default()
    };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
    let made = accounts.create_token_request(name, &PostParams::default(), &request).await;
    let made = made.map_err(|error| refused(error, &format!("make a token for service account {namespace}/{name}")))?;
    made.status.and_then(|status| status.token).context("the API server made no token")
}

pub(super) fn refused(error: kube::Error, what: &str) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow!("cannot {what}: {}", status.message.trim()),
        error => anyhow!(error).context(format!("cannot {what}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lease_is_asked_through_the_api_server() {
        let pod = pod_of("flotilla-coordinator-7c9_x-abcde_0b7d4c1e-6a55-4c5b-9a38-3c2b8a1f0c11");
        assert_eq!(pod, "flotilla-coordinator-7c9_x-abcde");
        assert_eq!(pod_of("just-a-name"), "just-a-name");
        let url = proxy("flotilla", "flotilla-0", 10_259) + &explain::path("shop", "web-1");
        assert_eq!(
            url,
            "/api/v1/namespaces/flotilla/pods/https:flotilla-0:10259/proxy/explain/v1/namespaces/shop/pods/web-1"
        );
    }
}
