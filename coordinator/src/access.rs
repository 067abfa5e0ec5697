//! Authentication and authorization of users by the API server.
//!
//! As kube-scheduler delegates both: a bearer token is reviewed, a path is a non-resource URL, answers are cached for 10 s.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::api::{Api, PostParams};
use tracing::debug;

mod authority;
mod cache;

pub use authority::Authority;
use cache::Cache;

use flotilla_runtime::chain;

/// Limit of one review, as in kube-scheduler.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
/// Cached answers, of some 1 KiB each. With more callers within 10 s, the API server is asked again.
const REMEMBERED: usize = 512;
const AUTHENTICATED: &str = "system:authenticated";
/// The group with all rights, as in kube-scheduler without a review.
const MASTERS: &str = "system:masters";

/// A user.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct User {
    /// The name in RBAC's subjects.
    pub name: String,
    /// The API server's identifier; empty if it sent none.
    pub uid: String,
    /// The groups in RBAC's subjects.
    pub groups: Vec<String>,
    /// Extra fields from an authenticator, for authorizers.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user without credentials.
    #[must_use]
    pub fn anonymous() -> Self {
        let groups = vec!["system:unauthenticated".to_owned()];
        Self { name: "system:anonymous".to_owned(), uid: String::new(), groups, extra: BTreeMap::new() }
    }

    /// The user of a verified certificate: its common name, in the groups of its organizations. `None` without a name.
    #[must_use]
    pub fn of_certificate(der: &[u8]) -> Option<Self> {
        let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
        let subject = certificate.subject();
        let name = subject.iter_common_name().next()?.as_str().ok().filter(|name| !name.is_empty())?.to_owned();
        let organizations = subject.iter_organization().filter_map(|organization| organization.as_str().ok());
        let groups = organizations.chain([AUTHENTICATED]).map(str::to_owned).collect();
        Some(Self { name, uid: String::new(), groups, extra: BTreeMap::new() })
    }

    /// Whether this is the anonymous user.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        *self == Self::anonymous()
    }

    fn reviewed(user: UserInfo) -> Self {
        Self {
            name: user.username.unwrap_or_default(),
            uid: user.uid.unwrap_or_default(),
            groups: user.groups.unwrap_or_default(),
            extra: user.extra.unwrap_or_default(),
        }
    }
}

/// An action that needs authorization.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Deed {
    /// Read a path that is not a resource of the API server.
    Path {
        /// The HTTP method in lower case.
        verb: String,
        /// The path.
        path: String,
    },
    /// Read a pod.
    GetPod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// List nodes.
    ListNodes,
}

/// The API server cannot answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the API server cannot {what}: {reason}")]
pub struct Unavailable {
    what: &'static str,
    reason: String,
}

/// Cache lifetimes of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// Token reviews.
    pub token: Duration,
    /// Authorized requests.
    pub authorized: Duration,
    /// Unauthorized requests.
    pub unauthorized: Duration,
}

/// The hash of a token, which cannot be used in its place, with its audience.
type TokenKey = ([u8; 32], Option<&'static str>);

/// Queries the API server and caches its answers.
pub struct Access {
    authentication: kube::Client,
    authorization: kube::Client,
    lifetimes: Lifetimes,
    users: Cache<TokenKey, Option<User>, Unavailable>,
    verdicts: Cache<(User, Deed), bool, Unavailable>,
}

impl Access {
    /// Reviews tokens with one API server and authorizes with another, possibly the same.
    #[must_use]
    pub fn new(authentication: kube::Client, authorization: kube::Client, lifetimes: Lifetimes) -> Self {
        let (users, verdicts) = (Cache::new(REMEMBERED), Cache::new(REMEMBERED));
        Self { authentication, authorization, lifetimes, users, verdicts }
    }

    /// The user of a token that is valid for `audience`, or for the API server itself; `None`: invalid token.
    ///
    /// # Errors
    /// [`Unavailable`], which is not cached.
    pub async fn who(&self, token: &str, audience: Option<&'static str>) -> Result<Option<User>, Unavailable> {
        let digest = ring::digest::digest(&ring::digest::SHA256, token.as_bytes());
        let digest: [u8; 32] = digest.as_ref().try_into().map_err(|_| Unavailable {
            what: "review a token",
            reason: "its digest has another length than SHA-256's".to_owned(),
        })?;
        let (client, token, lifetime) = (self.authentication.clone(), token.to_owned(), self.lifetimes.token);
        let asking = || async move { review_token(&client, token, audience).await.map(|user| (user, lifetime)) };
        self.users.get_or_ask((digest, audience), asking).await
    }

    /// Whether a user may perform an action.
    ///
    /// # Errors
    /// [`Unavailable`], which is not cached.
    pub async fn may(&self, user: &User, deed: &Deed) -> Result<bool, Unavailable> {
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(true);
        }
        let (client, review, lifetimes) = (self.authorization.clone(), spec(user, deed), self.lifetimes);
        let asking = || async move {
            let review = SubjectAccessReview { spec: review, ..SubjectAccessReview::default() };
            let status = ask("review access", &client, &review).await?.status.unwrap_or_default();
            let lifetime = if status.allowed { lifetimes.authorized } else { lifetimes.unauthorized };
            Ok((status.allowed, lifetime))
        };
        self.verdicts.get_or_ask((user.clone(), deed.clone()), asking).await
    }
}

async fn review_token(
    client: &kube::Client,
    token: String,
    audience: Option<&'static str>,
) -> Result<Option<User>, Unavailable> {
    let audiences = audience.map(|audience| vec![audience.to_owned()]);
    let review = TokenReview { spec: TokenReviewSpec { token, audiences }, ..TokenReview::default() };
    let status = ask("review a token", client, &review).await?.status.unwrap_or_default();
    // An API server that does not return audiences does not know them, and checks the token for itself only.
    let is_meant = audience
        .is_none_or(|audience| status.audiences.iter().flatten().any(|audience_of_it| audience_of_it == audience));
    let user = status.user.filter(|_| status.authenticated == Some(true) && is_meant).map(User::reviewed);
    if user.is_none() {
        debug!(reason = status.error.unwrap_or_default(), "token rejected");
    }
    Ok(user)
}

fn spec(user: &User, deed: &Deed) -> SubjectAccessReviewSpec {
    let (non_resource_attributes, resource_attributes) = match deed.clone() {
        Deed::Path { verb, path } => (Some(NonResourceAttributes { path: Some(path), verb: Some(verb) }), None),
        Deed::GetPod { namespace, name } => {
            let attributes = ResourceAttributes {
                verb: Some("get".to_owned()),
                version: Some("v1".to_owned()),
                resource: Some("pods".to_owned()),
                namespace: Some(namespace),
                name: Some(name),
                ..ResourceAttributes::default()
            };
            (None, Some(attributes))
        }
        Deed::ListNodes => {
            let attributes = ResourceAttributes {
                verb: Some("list".to_owned()),
                version: Some("v1".to_owned()),
                resource: Some("nodes".to_owned()),
                ..ResourceAttributes::default()
            };
            (None, Some(attributes))
        }
    };
    SubjectAccessReviewSpec {
        user: Some(user.name.clone()),
        uid: Some(user.uid.clone()).filter(|uid| !uid.is_empty()),
        groups: Some(user.groups.clone()),
        extra: Some(user.extra.clone()).filter(|extra| !extra.is_empty()),
        non_resource_attributes,
        resource_attributes,
    }
}

/// Creates a review, which the API server does not store.
async fn ask<K>(what: &'static str, client: &kube::Client, review: &K) -> Result<K, Unavailable>
where
    K: kube::Resource<DynamicType = ()> + serde::Serialize + serde::de::DeserializeOwned + Clone + std::fmt::Debug,
{
    let (api, params) = (Api::<K>::all(client.clone()), PostParams::default());
    let reason = match tokio::time::timeout(REVIEW_TIMEOUT, api.create(&params, review)).await {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
            format!("{}; bind the ClusterRole system:auth-delegator, as deploy/base/rbac.yaml does", status.message)
        }
        Ok(Err(error)) => chain(&error),
        Err(_) => format!("no answer within {REVIEW_TIMEOUT:?}"),
    };
    Err(Unavailable { what, reason })
}

#[cfg(test)]
pub(crate) mod tests;
